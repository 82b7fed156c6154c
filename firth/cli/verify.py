"""firth verify"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def verify(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe or a TOML file with an [expected] table.")],
    as_json: Json = False,
) -> None:
    """Train a recipe from scratch and check its expected result. Exits with code 1 if they differ."""
    from firth.experiments.verify import verify as verified

    verdict = verified(recipe)
    if as_json:
        print_json(dataclasses.asdict(verdict))
    else:
        print(verdict.text())
    if not verdict.passed:
        raise typer.Exit(1)
