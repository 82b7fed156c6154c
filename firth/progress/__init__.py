"""Reports of the progress of long-running work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

_EVERY = 1000  # items between two reports


class Progress(Protocol):
    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` (bytes, characters, files or records) of `what` are finished; called a few times a second at most.
        A `total` of 0 is not known yet."""


def silent(what: str, done: int, total: int) -> None:
    """The Progress that reports nothing."""


def file_progress(progress: Progress, before: int, size: int) -> Callable[[int], None]:
    """Turns the bytes read of one file into progress through several: `before` bytes come before it, `size` in all."""
    return lambda done: progress("reading", before + done, size)


def reported(items: Sequence[T], what: str, progress: Progress) -> Iterator[T]:
    """The items one by one, with a report after every thousandth and after the last."""
    for n, item in enumerate(items):
        yield item
        if n % _EVERY == 0 or n + 1 == len(items):
            progress(what, n + 1, len(items))
