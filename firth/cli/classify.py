"""firth classify"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.lines import answered, check_given, given

if TYPE_CHECKING:
    from firth.tasks.classification import Classification, ClassifierRun

_BATCH = 256  # lines classified at once


@verb()
def classify(
    run: Annotated[Path, typer.Argument(help="Run folder of a classifier.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify. [default: the lines of standard input]")] = None,
    file: Annotated[
        Path | None, typer.Option(help="File with one text per line; in csv, tsv and jsonl, the run's column data.field.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Predict --label if its probability is at least this. [default: the threshold stored by `firth threshold`]"
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Class that --threshold is for. [default: the last of two classes]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print the probability of every class, most probable first.")] = False,
    as_json: Json = False,
) -> None:
    """Classify texts, one per line. Prints the class and its probability; an empty line for an empty text."""
    from firth.api import load
    from firth.tasks.ability import CLASSIFY

    check_given(texts, file)
    model = load(run, kind=CLASSIFY)
    model.decision(threshold, label)  # an error before anything is read
    classify = partial(model.classify, threshold=threshold, label=label)
    answers = answered(_given(model, texts, file), _BATCH, classify)
    if as_json:
        print_json([_table(text, classification) for text, classification in answers])
        return
    for _, classification in answers:
        print("" if classification is None else _line(classification, every), flush=True)


def _given(model: ClassifierRun, texts: list[str] | None, file: Path | None) -> Iterable[str]:
    from firth.text.data.labelled import read_texts
    from firth.text.readers.formats import is_table

    if file is not None and is_table(file):
        return read_texts(file, model.recipe.data)
    return given(texts, file)


def _line(classification: Classification, every: bool) -> str:
    """Label, tab, probability; with `every`, then those of the other classes, most probable first."""
    chances = classification.probabilities if every else {classification.label: classification.probability}
    ranked = sorted(chances.items(), key=lambda chance: (chance[0] != classification.label, -chance[1]))
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in ranked)


def _table(text: str, classification: Classification | None) -> dict[str, object]:
    facts = (
        {"label": None, "probability": None, "probabilities": None}
        if classification is None
        else dataclasses.asdict(classification)
    )
    return {"text": text, **facts}
