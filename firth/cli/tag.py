"""firth tag"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.lines import batches, check_given, given

if TYPE_CHECKING:
    from firth.api import Model, Tags

_AT_ONCE = 256  # sentences of a long input


@verb()
def tag(
    run: Annotated[Path, typer.Argument(help="A run folder of a tagger.")],
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="What to tag, words separated by spaces; a line of standard input each where none is given."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file of sentences, one per line.")] = None,
    conll: Annotated[
        bool,
        typer.Option(
            "--conll",
            help="Read CoNLL or CoNLL-U, from --file or standard input, and write a word, a tab and its tag per line. The words "
            "are in the column of the run's own files; tags that are there are not looked at.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the words of each sentence with their tags, word/TAG, a line per line; an empty line for an empty one."""
    from firth.api import load

    check_given(sentences, file)
    _check_conll(conll, sentences, as_json)
    model = load(run)
    model.tagger  # noqa: B018 (another model is refused before anything is read)
    if conll:
        for found in _tagged(model, _conll_sentences(model, file)):
            print("".join(f"{word}\t{tag}\n" for word, tag in zip(found.words, found.tags, strict=True)), flush=True)
        return
    answers = _answers(model, given(sentences, file))
    if as_json:
        print_json([_table(found) for found in answers])
        return
    for one in answers:
        print("" if one is None else one, flush=True)


def _check_conll(conll: bool, sentences: list[str] | None, as_json: bool) -> None:
    from firth.errors import ConfigError

    if conll and sentences and sentences != ["-"]:
        raise ConfigError("--conll reads words from --file or standard input, and sentences were given; leave one of them out")
    if conll and as_json:
        raise ConfigError("--conll and --json are two ways to write the tags; give one of them")


def _conll_sentences(model: Model, file: Path | None) -> Iterator[tuple[str, ...]]:
    from firth.text.data.tagged import conll_columns

    columns = conll_columns(model.recipe.data).for_other_files()
    if file is not None and str(file) != "-":
        found = columns.sentences(file, words_only=True)
    else:
        found = columns.sentences_of_lines(given(None, None), "standard input")
    return (sentence.words for sentence in found)


def _tagged(model: Model, sentences: Iterable[tuple[str, ...]]) -> Iterator[Tags]:
    for some in batches(sentences, _AT_ONCE):
        yield from model.tag(some)


def _answers(model: Model, sentences: Iterable[str]) -> Iterator[Tags | None]:
    for some in batches(sentences, _AT_ONCE):
        found = iter(model.tag([sentence for sentence in some if sentence.strip()]))
        for sentence in some:
            yield next(found) if sentence.strip() else None


def _table(found: Tags | None) -> dict[str, object]:
    return {"words": (), "tags": (), "probabilities": ()} if found is None else dataclasses.asdict(found)
