"""firth classify"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.lines import batches, check_given, given

if TYPE_CHECKING:
    from firth.api import Classification, Model

_AT_ONCE = 256  # lines of a long input


@verb()
def classify(
    run: Annotated[Path, typer.Argument(help="A run folder of a classifier.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="What to classify; a line of standard input each where none is given.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file of texts, one per line; of csv, tsv and jsonl, the column data.field of the run.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="The probability of every class, the most probable first, not of that one alone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the most probable class of each text and its probability, a line per text; an empty line for an empty one."""
    from firth.api import load

    check_given(texts, file)
    model = load(run)
    model.labels  # noqa: B018 (a language model is refused before anything is read)
    answers = _answers(model, _given(model, texts, file))
    if as_json:
        print_json([_table(text, found) for text, found in answers])
        return
    for _, found in answers:
        print("" if found is None else _line(found, every), flush=True)


def _given(model: Model, texts: list[str] | None, file: Path | None) -> Iterable[str]:
    from firth.text.data.labelled import read_texts
    from firth.text.readers.formats import is_table

    if file is not None and is_table(file):
        return read_texts(file, model.recipe.data)
    return given(texts, file)


def _answers(model: Model, texts: Iterable[str]) -> Iterator[tuple[str, Classification | None]]:
    for some in batches(texts, _AT_ONCE):
        found = iter(model.classify([text for text in some if text.strip()]))
        for text in some:
            yield text, next(found) if text.strip() else None


def _line(found: Classification, every: bool) -> str:
    """label, tab, probability; with `every` those of the other classes behind it, by falling probability."""
    chances = found.probabilities if every else {found.label: found.probability}
    ranked = sorted(chances.items(), key=lambda chance: (chance[0] != found.label, -chance[1]))
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in ranked)


def _table(text: str, found: Classification | None) -> dict[str, object]:
    facts = {"label": None, "probability": None, "probabilities": None} if found is None else dataclasses.asdict(found)
    return {"text": text, **facts}
