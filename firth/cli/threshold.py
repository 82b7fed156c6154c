"""firth threshold"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.evaluation.threshold import Aim, FittedThreshold


@verb()
def threshold(
    run: Annotated[Path, typer.Argument(help="Run folder of a classifier.")],
    aim: Annotated[
        str, typer.Option("--for", help="What to optimise: f1, precision (best recall at --precision) or cost.")
    ] = "f1",
    label: Annotated[str | None, typer.Option(help="Class to find. [default: the last of two classes]")] = None,
    precision: Annotated[float | None, typer.Option(help="Minimum precision (with --for precision).")] = None,
    false_positive: Annotated[float | None, typer.Option(help="Cost of a false positive (with --for cost). [default: 1]")] = None,
    false_negative: Annotated[float | None, typer.Option(help="Cost of a false negative (with --for cost). [default: 1]")] = None,
    data: Annotated[
        str | None, typer.Option(help="File to choose the threshold on. [default: the run's validation data]")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the stored threshold.")] = False,
    as_json: Json = False,
) -> None:
    """Choose the threshold of a class on validation data.

    It is stored with the run; classify, evaluate and serve then use it."""
    from firth.api import load
    from firth.progress.display import Display
    from firth.tasks.ability import CLASSIFY

    model = load(run, kind=CLASSIFY)
    if remove:
        given = {"--for": aim != "f1", "--label": label, "--precision": precision, "--data": data}
        given |= {"--false-positive": false_positive, "--false-negative": false_negative, "--json": as_json}
        if named := [name for name, value in given.items() if value not in (None, False)]:
            raise ConfigError(f"--remove cannot be combined with {named[0]}. Remove one of them.")
        model.remove_threshold()
        return
    with Display() as display:
        fitted = model.fit_threshold(
            cast("Aim", aim),
            label=label,
            precision=precision,
            false_positive=false_positive,
            false_negative=false_negative,
            path=data,
            progress=display.work,
        )
    if as_json:
        print_json(dataclasses.asdict(fitted))
    else:
        print(_text(fitted))


def _text(fitted: FittedThreshold) -> str:
    rows = [
        ("class", fitted.label),
        ("threshold", f"{fitted.threshold:.4f}"),
        ("chosen for", fitted.aim),
        ("text", f"{fitted.split}, {fitted.examples:,} examples"),
        ("precision", f"{fitted.precision:.4f}"),
        ("recall", f"{fitted.recall:.4f}"),
        ("F1", f"{fitted.f1:.4f}"),
        *([] if fitted.cost is None else [("cost", f"{fitted.cost:.4f} per text")]),
    ]
    return "\n".join(f"{name:<20}{value}" for name, value in rows)
