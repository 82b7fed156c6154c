"""firth tour"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import verb
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.figures.page import Section


@verb()
def tour(
    effort: Annotated[float, typer.Option(help="Factor on the number of training steps; below 1 is faster.")] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("tour"),
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the report in a browser.")] = False,
) -> None:
    """Train small models of every generation and write a report. Word vectors, language models, translators and taggers, on
    text that is already on your disk."""
    from firth.cli.app import watching
    from firth.experiments.tour import Audience, take

    if effort <= 0:
        raise ConfigError(f"--effort is {effort}; expected more than 0")
    report = take(out, Audience(watching, _show), effort)
    print(f"Report with loss curves, an alignment and longer samples: {report}")
    print("Next, try:")
    print(f'  {_firth()} generate {out}/runs/transformer "The list "')
    print(f"  {_firth()} vectors neighbors {out}/words.firth tensor")
    print(f'  {_firth()} align {out}/runs/dates-rnnsearch "14 November 2026"')
    print(f'  {_firth()} tag {out}/runs/tags-lstm "x = list ( y )"')
    if not no_open and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(report.absolute().as_uri())


def _firth() -> str:
    """The command that calls firth: its name if that is on the PATH, otherwise the path of this process."""
    return "firth" if shutil.which("firth") else os.path.relpath(sys.argv[0])


def _show(section: Section) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if Console().is_terminal else 130)
    console.print(Text(section.title, style="bold"))
    console.print(Text(section.lead))
    console.print()
    table = Table(box=None, pad_edge=False)
    for heading, column in zip(section.table.headings, zip(*section.table.rows, strict=True), strict=True):
        table.add_column(heading, justify="right" if all(cell[:1].isdigit() for cell in column) else "left")
    for row in section.table.rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    console.print()
