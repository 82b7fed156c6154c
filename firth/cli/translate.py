"""firth translate"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import complain, verb
from firth.cli.decoding_options import Settings, beam_of, check_beam, check_sample, takes_decoding
from firth.cli.lines import batches, check_given, count, given
from firth.config import to_table
from firth.decoding.config import CONSTRAINING
from firth.errors import ConfigError
from firth.files import is_file

if TYPE_CHECKING:
    from firth.decoding.config import DecodingConfig
    from firth.tasks.abilities.translator import Translation
    from firth.tasks.translation import TranslatorRun

_BATCH = 512  # lines translated at once


@verb()
@takes_decoding(sample=True, without=("stop", *CONSTRAINING))
def translate(
    run: Annotated[Path, typer.Argument(help="Run folder of a translation model.")],
    decoding: Settings,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate. [default: the lines of standard input]")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Source language of a multilingual model. [default: its src_lang]")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Target language of a multilingual model. [default: its tgt_lang]")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one text per line.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file, written completely or not at all. [default: standard output]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted --out.")] = False,
    nbest: Annotated[int, typer.Option(help="Translations per text, printed as `number ||| text ||| score`.", min=1)] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample a translation instead of searching for the most probable one.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, one for each text.")] = False,
) -> None:
    """Translate texts, one per line. An empty line stays empty."""
    from firth.api import load
    from firth.tasks.ability import TRANSLATE

    check_given(texts, file)
    check_sample(sample, decoding, nbest)
    _check_resume(resume, nbest, out, as_json)
    model = load(run, kind=TRANSLATE).in_languages(from_, to)
    config = model.decoding(decoding | {"beam": beam_of(decoding, model.recipe.decoding, nbest)})
    check_beam(config, nbest, decoding)
    spell = _as_json if as_json else _plain if nbest == 1 else _numbered
    settings = {
        "run": str(run.absolute()),
        "weights": _weights(run) if out is not None else None,
        "file": None if file is None else str(file.absolute()),
        "texts": texts,
        "from": from_,
        "to": to,
        "sample": sample,
        "nbest": nbest,
        "json": as_json,
        **to_table(config),
    }
    with ExitStack() as stack:
        sink: Any = sys.stdout
        done = 0
        if out is not None:
            from firth.cli.resumable_output import ResumableOutput

            sink = stack.enter_context(ResumableOutput(out, settings, resume))
            done = sink.lines
        show = _shown(stack, file, out, done)
        cut_off = 0
        for number, source, candidates in _answers(model, given(texts, file, forgiving=True), config, sample, done, show):
            print(spell(number, source, candidates[:nbest]), file=sink, flush=True)
            cut_off += not candidates[0].finished
    if cut_off:
        complain(f"note: {cut_off:,} of the translations had not ended after {config.tokens} tokens; raise --tokens")
    if out is not None:
        print(out)


def _weights(run: Path) -> str:
    """The checksum of the weights: the run may have been trained further before --resume."""
    from firth.files import sha256_of
    from firth.training.folder import RunFolder

    path = RunFolder(run).model
    return sha256_of(path) if is_file(path) else ""


def _check_resume(resume: bool, nbest: int, out: Path | None, as_json: bool) -> None:
    if resume and out is None:
        raise ConfigError("--resume needs the output file to continue; add --out FILE")
    if resume and nbest > 1 and not as_json:
        raise ConfigError(f"--resume needs one output line per text, but --nbest {nbest} writes {nbest}; add --json")


def _answers(
    model: TranslatorRun, texts: Iterable[str], config: DecodingConfig, sample: bool, done: int, show: Callable[[int], None]
) -> Iterator[tuple[int, str, list[Translation]]]:
    for batch in batches(islice(texts, done, None), _BATCH):
        candidates = model.translations(batch, config, sample=sample, first=done)
        for number, (source, translations) in enumerate(zip(batch, candidates, strict=True), start=done):
            yield number, source, translations
        done += len(batch)
        show(done)


def _shown(stack: ExitStack, file: Path | None, out: Path | None, done: int) -> Callable[[int], None]:
    """A progress display, unless the translations are printed to the same terminal."""
    if out is None and sys.stdout.isatty():
        return lambda done: None
    from firth.progress.display import Display

    total = 0 if file is None or str(file) == "-" else count(file)
    display = stack.enter_context(Display())
    if done:
        display.work("translating", done, total)
    return lambda done: display.work("translating", done, total)


def _plain(number: int, source: str, candidates: list[Translation]) -> str:
    return candidates[0].text


def _numbered(number: int, source: str, candidates: list[Translation]) -> str:
    return "\n".join(f"{number} ||| {one.text} ||| {one.score:.4f}" for one in candidates)


def _as_json(number: int, source: str, candidates: list[Translation]) -> str:
    best = dataclasses.asdict(candidates[0])
    more = {"nbest": [dataclasses.asdict(one) for one in candidates]} if len(candidates) > 1 else {}
    return json.dumps({"source": source, "translation": best.pop("text"), **best, **more}, ensure_ascii=False)
