"""How long work tells whoever started it how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` (bytes, characters or files) of `what` are behind us; called a few times a second at most."""


def silent(what: str, done: int, total: int) -> None:
    """The Progress of someone who does not want to know."""


def reading(progress: Progress, before: int, size: int) -> Callable[[int], None]:
    """For one of several files, `size` bytes in all: told how much of it is read, it tells how much of all."""
    return lambda done: progress("reading", before + done, size)
