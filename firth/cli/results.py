"""firth results"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def results(
    recipes: Annotated[list[str] | None, typer.Argument(metavar="[RECIPE]...", help="Only these recipes. [default: all]")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out minutes, hardware and date.")] = False,
    into: Annotated[
        Path | None, typer.Option(help="Markdown file in which to replace the table, instead of printing it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the recipes' results beside the published ones. A Markdown table with the gap, also where we fall short."""
    from firth.experiments import results as table

    rows = table.results(recipes or ())
    if into is not None:
        table.place(into, table.markdown(rows, brief))
    if as_json:
        print_json([dataclasses.asdict(result) for result in rows])
    elif into is None:
        print(table.markdown(rows, brief), end="")
