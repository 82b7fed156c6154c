"""The --save option: write figures to an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firth.figures.figure import Figure
    from firth.figures.page import Section

Save = Annotated[Path | None, typer.Option(help="HTML page to write; it works offline.")]


def section(title: str, lead: str, figures: Sequence[Figure], excerpts: Sequence[tuple[str, str]] = ()) -> Section:
    from firth.figures.figure import Table
    from firth.figures.page import Section

    return Section(title, lead, Table((), []), figures, excerpts)


def save_page(path: Path, title: str, sections: Sequence[Section], verb: str) -> None:
    """`verb` is the command that made the page."""
    from firth.figures.page import page
    from firth.files import write_text

    write_text(path, page(title, sections, f"Made by {verb}."))
