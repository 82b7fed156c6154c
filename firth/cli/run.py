"""firth run diff"""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, app, print_json, verb
from firth.cli.suggestions import Verbs

group = typer.Typer(cls=Verbs, rich_markup_mode=None, help="Single runs: compare two of them.")
app.add_typer(group, name="run")

Compared = Annotated[str, typer.Argument(help="A run folder, a shipped recipe or a TOML file.", show_default=False)]


@group.callback()
def _only_a_group() -> None:
    """Keeps the name of the verb, although the group has only one."""


@verb(within=group)
def diff(a: Compared, b: Compared, as_json: Json = False) -> None:
    """Print the settings, records and figures that differ.

    The settings of both are compared with their defaults filled in. Of two runs, also the hash of the data, the commit, versions,
    hardware and figures are compared; times and command lines are not."""
    from firth.experiments.records.difference import run_difference

    found = run_difference(a, b)
    if as_json:
        print_json(found.facts())
    else:
        print(found.text())
