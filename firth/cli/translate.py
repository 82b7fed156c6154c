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

from firth.cli.app import Seed, verb
from firth.cli.lines import batches, check_given, count, given
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.decoding.sample import DecodingConfig
    from firth.tasks.abilities.translator import Translation
    from firth.tasks.translation import TranslatorRun

_AT_ONCE = 512  # lines of a long input


@verb()
def translate(
    run: Annotated[Path, typer.Argument(help="A run folder of a model of sentence pairs.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="What to translate; a line of standard input each where none is given.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file of texts, one per line.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write instead of standard output, whole or not at all.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an --out that was interrupted.")] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses followed side by side; 1 takes the best token each time.")] = None,
    penalty: Annotated[float | None, typer.Option(help="α of the beam's length penalty; 0 prefers what is short.")] = None,
    nbest: Annotated[int, typer.Option(help="So many translations of each text, as `number ||| text ||| score`.", min=1)] = 1,
    tokens: Annotated[int | None, typer.Option(help="The longest translation, in tokens.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw a translation instead of searching for the best.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of --sample: below 1 sharper, above 1 flatter.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Of --sample: among the K most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Of --sample: among the fewest tokens with probability P together.")] = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each text, one per line.")] = False,
) -> None:
    """Translate texts, a line for each line; an empty line stays empty."""
    from firth.api import load
    from firth.tasks.translation import TranslatorRun

    check_given(texts, file)
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    _check(sample, drawing, beam, nbest, resume, out, as_json)
    model = load(run, kind=TranslatorRun)
    beam = max(model.recipe.decoding.beam, nbest) if beam is None else beam
    config = model.decoding({"beam": beam, "penalty": penalty, "tokens": tokens, **drawing})
    spell = _as_json if as_json else _plain if nbest == 1 else _numbered
    settings = {
        "run": str(run.absolute()),
        "weights": _weights(run) if out is not None else None,
        "file": None if file is None else str(file.absolute()),
        "texts": texts,
        "sample": sample,
        "nbest": nbest,
        "json": as_json,
        **dataclasses.asdict(config),
    }
    with ExitStack() as stack:
        sink: Any = sys.stdout
        done = 0
        if out is not None:
            from firth.cli.resumable_output import Growing

            sink = stack.enter_context(Growing(out, settings, resume))
            done = sink.lines
        show = _shown(stack, file, out, done)
        for number, source, found in _answers(model, given(texts, file, forgiving=True), config, sample, done, show):
            print(spell(number, source, found[:nbest]), file=sink, flush=True)
    if out is not None:
        print(out)


def _weights(run: Path) -> str:
    """Which they are: a run may have been trained further in between."""
    from firth.files import sha256_of
    from firth.training.folder import RunFolder

    path = RunFolder(run).model
    return sha256_of(path) if path.is_file() else ""


def _check(
    sample: bool, drawing: dict[str, Any], beam: int | None, nbest: int, resume: bool, out: Path | None, as_json: bool
) -> None:
    for name, value in drawing.items():
        if value is not None and not sample:
            raise ConfigError(f"--{name.replace('_', '-')} is of drawing; add --sample, or leave it out")
    if sample and (beam is not None or nbest > 1):
        raise ConfigError("--sample draws one translation and --beam and --nbest search for the best; give one or the other")
    if beam is not None and 1 <= beam < nbest:
        raise ConfigError(f"--nbest {nbest} of a --beam of {beam}; expected a beam at least as large")
    if resume and out is None:
        raise ConfigError("--resume goes on with a file; give it with --out")
    if resume and nbest > 1 and not as_json:
        raise ConfigError("--resume counts a line for each text, and --nbest writes several; add --json")


def _answers(
    model: TranslatorRun, texts: Iterable[str], config: DecodingConfig, sample: bool, done: int, show: Callable[[int], None]
) -> Iterator[tuple[int, str, list[Translation]]]:
    for some in batches(islice(texts, done, None), _AT_ONCE):
        found = model.translations(some, config, sample=sample, first=done)
        for number, (source, translations) in enumerate(zip(some, found, strict=True), start=done):
            yield number, source, translations
        done += len(some)
        show(done)


def _shown(stack: ExitStack, file: Path | None, out: Path | None, done: int) -> Callable[[int], None]:
    """Progress, where it does not get between the lines that are printed."""
    if out is None and sys.stdout.isatty():
        return lambda done: None
    from firth.cli.progress import Display

    total = 0 if file is None or str(file) == "-" else count(file)
    display = stack.enter_context(Display())
    if done:
        display.work("translating", done, total)
    return lambda done: display.work("translating", done, total)


def _plain(number: int, source: str, found: list[Translation]) -> str:
    return found[0].text


def _numbered(number: int, source: str, found: list[Translation]) -> str:
    return "\n".join(f"{number} ||| {one.text} ||| {one.score:.4f}" for one in found)


def _as_json(number: int, source: str, found: list[Translation]) -> str:
    best = dataclasses.asdict(found[0])
    more = {"nbest": [dataclasses.asdict(one) for one in found]} if len(found) > 1 else {}
    return json.dumps({"source": source, "translation": best.pop("text"), **best, **more}, ensure_ascii=False)
