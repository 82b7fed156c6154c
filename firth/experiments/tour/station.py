"""What a station is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from firth.api import Watcher
from firth.figures.page import Section


@dataclass(frozen=True)
class Guide:
    """What a station is given: time, a place for its runs, and a way to show a training under way."""

    seconds: float
    out: Path
    watching: Callable[[str], AbstractContextManager[Watcher]]


@dataclass(frozen=True)
class Station:
    share: float  # of the tour's time, relative to the other stations
    visit: Callable[[Guide], Section]
