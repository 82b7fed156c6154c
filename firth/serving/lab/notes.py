"""The notes of a view: the warnings that it raised, which the page shows above its result."""

from __future__ import annotations

import threading

_thread = threading.local()  # .notes: those of the view that runs in this thread


class UnseenNote(str):
    """A note about words that a model does not know."""


def begin() -> None:
    """From now on, this thread takes notes."""
    _thread.notes = []


def taken() -> list[str] | None:
    """The notes of this thread so far; None if it takes none."""
    notes: list[str] | None = getattr(_thread, "notes", None)
    return notes
