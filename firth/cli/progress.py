"""Progress on stderr, and results on stdout; see firth/progress/display.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firth.cli.app import complain
from firth.progress.display import Display

if TYPE_CHECKING:
    from firth.api import Watcher

__all__ = ["Display", "watching"]


@contextmanager
def watching(label: str = "training") -> Iterator[Watcher]:
    """A Watcher that shows the training while the context lasts."""
    from firth.api import Watcher

    with Display(label) as display:
        yield Watcher(work=display.work, begin=display.begin, step=display.step, notice=complain)
