"""The tour: each station trains a few small models and returns a section of the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from firth import files
from firth.api import Watcher
from firth.experiments.tour import language, tags, translation, words
from firth.experiments.tour.station import Guide, Station
from firth.figures.page import Section, page
from firth.version import __version__

STATIONS: tuple[Station, ...] = (words.visit, language.visit, translation.visit, tags.visit)


@dataclass(frozen=True)
class Audience:
    """The display of the tour: a watcher per training run, and a function that shows each finished section."""

    watching: Callable[[str], AbstractContextManager[Watcher]]
    section: Callable[[Section], None]


def take(out: Path, audience: Audience, effort: float = 1.0) -> Path:
    """Visit every station; return the path of the report. `effort`: training steps relative to those that suffice."""
    sections = []
    for visit in STATIONS:
        section = visit(Guide(effort, out, audience.watching))
        audience.section(section)
        sections.append(section)
    report = out / "report.html"
    files.write_text(report, page("firth tour", sections, _footer(out)))
    return report


def _footer(out: Path) -> str:
    return f"To explore these models yourself, run: firth lab {out / 'runs'} {out / 'words.firth'}. Made by firth {__version__}."
