"""The interface of a tour station."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from firth.api import Watcher
from firth.figures.page import Section


@dataclass(frozen=True)
class Guide:
    """What a station receives: its time, the folder for its runs, and a watcher for each training run."""

    seconds: float
    out: Path
    watching: Callable[[str], AbstractContextManager[Watcher]]


@dataclass(frozen=True)
class Station:
    share: float  # of the tour's time, relative to the other stations
    visit: Callable[[Guide], Section]
