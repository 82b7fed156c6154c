"""firth tag"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.lines import answered, batches, check_given, given
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.tasks.tagging import TaggerRun, Tags

_BATCH = 256  # sentences tagged at once


@verb()
def tag(
    run: Annotated[Path, typer.Argument(help="Run folder of a tagger.")],
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences to tag, words separated by spaces. [default: the lines of standard input]"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one sentence per line.")] = None,
    conll: Annotated[
        bool,
        typer.Option(
            "--conll",
            help="Read CoNLL or CoNLL-U from --file or standard input, and write one word and its tag per line. Words are read "
            "from the same column as in the run's training data; existing tags are ignored.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tag the words of sentences, one sentence per line. Prints word/TAG; an empty line for an empty sentence."""
    from firth.api import load
    from firth.tasks.ability import TAG

    check_given(sentences, file)
    _check_conll(conll, sentences, as_json)
    model = load(run, kind=TAG)
    if conll:
        for tags in _tagged(model, _conll_sentences(model, file)):
            print("".join(f"{word}\t{tag}\n" for word, tag in zip(tags.words, tags.tags, strict=True)), flush=True)
        return
    answers = (tags for _, tags in answered(given(sentences, file), _BATCH, model.tag))
    if as_json:
        print_json([_table(tags) for tags in answers])
        return
    for one in answers:
        print("" if one is None else one, flush=True)


def _check_conll(conll: bool, sentences: list[str] | None, as_json: bool) -> None:
    if conll and sentences and sentences != ["-"]:
        raise ConfigError("--conll reads --file or standard input, not sentences as arguments. Remove one of them.")
    if conll and as_json:
        raise ConfigError("--conll and --json are different output formats; choose one")


def _conll_sentences(model: TaggerRun, file: Path | None) -> Iterator[tuple[str, ...]]:
    from firth.text.data.tagged import conll_columns

    columns = conll_columns(model.recipe.data).for_other_files()
    if file is not None and str(file) != "-":
        sentences = columns.sentences(file, words_only=True)
    else:
        sentences = columns.sentences_of_lines(given(None, None), "standard input")
    return (sentence.words for sentence in sentences)


def _tagged(model: TaggerRun, sentences: Iterable[tuple[str, ...]]) -> Iterator[Tags]:
    for batch in batches(sentences, _BATCH):
        yield from model.tag(batch)


def _table(tags: Tags | None) -> dict[str, object]:
    return {"words": (), "tags": (), "probabilities": ()} if tags is None else dataclasses.asdict(tags)
