"""The --save option: write figures to a file. Its suffix decides the format, and is checked before the verb begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firth.figures.figure import Figure
    from firth.figures.page import Section

FORMATS = ".html (a page that works offline), .svg, .png, .pdf, .csv or .json"


def checked(path: Path | None) -> Path | None:
    """For `typer.Option(callback=…)`: refuses a suffix that is none of FORMATS."""
    from firth.figures.saving import expected_format

    if path is not None:
        expected_format(path)
    return path


Save = Annotated[Path | None, typer.Option(help=f"File to save the figures to: {FORMATS}.", callback=checked)]


def section(title: str, lead: str, figures: Sequence[Figure], excerpts: Sequence[tuple[str, str]] = ()) -> Section:
    from firth.figures.figure import Table
    from firth.figures.page import Section

    return Section(title, lead, Table((), []), figures, excerpts)


def save_figures(path: Path, title: str, sections: Sequence[Section], verb: str) -> str:
    """Save the figures of a verb, and return the names of the files. Several figures go to numbered files unless the format can
    hold them all."""
    from firth.cli.app import complain
    from firth.figures.page import save_sections

    written = save_sections(path, title, sections, f"Made by {verb}.")
    names = " and ".join(map(str, written)) if len(written) <= 2 else f"{written[0]} … {written[-1]}"
    if len(written) > 1:
        complain(f"note: a {path.suffix} file holds one figure, so {len(written)} files were written: {names}")
    return names
