"""firth runs"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, complain, print_json, verb
from firth.errors import ConfigError


@verb()
def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER", help="Folders to search. [default: the current one]")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Only runs that meet this condition on figures and settings, such as 'loss < 1.5'.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Figure or setting to sort by; with a - before it, from high to low. [default: the name]")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Figures and settings to show, such as run,loss,model.width. [default: nine figures]")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the columns as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """List the runs in and below folders, with their figures.

    A condition compares figures (loss, steps, parameters, …) and settings of the recipe with numbers and texts:
    'loss < 1.5 and model.kind == "lstm"'. A run that lacks one of them is left out."""
    from firth.experiments.records.listing import runs as listed

    if as_csv and as_json:
        raise ConfigError("give one of --csv and --json")
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    found = listed(*(folders or ()), where=where, sort=sort, columns=chosen)
    for remark in found.remarks():
        complain(f"note: {remark}")
    if as_json:
        print_json(found.facts())
    elif as_csv:
        print(found.csv(), end="")
    elif found.records:
        print(found.text())
    else:
        complain("no run was found" if where is None else "no run meets the condition")
