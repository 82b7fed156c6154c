"""A report: one HTML file that works offline, with all user text escaped; or its figures as pictures, csv or json."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from firth.figures.figure import Figure, Table
from firth.figures.html_document import document
from firth.figures.saving import save_contents


@dataclass(frozen=True)
class Section:
    """One section of a report."""

    title: str
    lead: str
    table: Table
    figures: Sequence[Figure] = ()
    excerpts: Sequence[tuple[str, str]] = field(default=())  # (caption, text)

    def html(self) -> str:
        parts = [f"<h2>{html.escape(self.title)}</h2>", f"<p>{html.escape(self.lead)}</p>", self.table.html()]
        parts += [figure.html_with_numbers() for figure in self.figures]
        for caption, text in self.excerpts:
            parts.append(f"<h3>{html.escape(caption)}</h3><pre>{html.escape(text)}</pre>")
        return "\n".join(parts)


def page(title: str, sections: Sequence[Section], footer: str) -> str:
    body = "\n".join(section.html() for section in sections)
    return document(title, f"<h1>{html.escape(title)}</h1>\n{body}\n<footer>{html.escape(footer)}</footer>")


def save_sections(path: str | PathLike[str], title: str, sections: Sequence[Section], footer: str) -> list[Path]:
    """Save all figures of a report in the format of the suffix, and return the paths of the files."""
    figures = [figure for section in sections for figure in section.figures]
    tables = [
        (section.title, table)
        for section in sections
        for table in (section.table, *(figure.table for figure in section.figures))
        if table.headings
    ]
    return save_contents(path, title, figures, tables, lambda: page(title, sections, footer))
