"""firth results"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb


@verb()
def results(
    into: Annotated[
        Path | None, typer.Option(help="A Markdown file: put the table between its two markers instead of printing it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the shipped recipes give beside what was published, as a Markdown table; misses included."""
    from firth.experiments import results as table

    found = table.results()
    if into is not None:
        table.place(into, table.markdown(found))
    if as_json:
        print_json([dataclasses.asdict(result) for result in found])
    elif into is None:
        print(table.markdown(found), end="")
