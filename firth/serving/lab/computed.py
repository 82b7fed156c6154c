"""Computed: what views have computed, kept in the process so that it is computed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from firth.progress import Progress
from firth.serving.lab import notes

T = TypeVar("T")
_MOST = 256  # results; the one that was used the longest ago is dropped
_POLL = 0.1  # seconds between two checks whether a waiting request was cancelled


@dataclass
class _Held:
    lock: threading.Lock = field(default_factory=threading.Lock)
    stamp: int | None = None  # change time of what it was computed from; None: not computed yet
    result: Any = None
    notes: tuple[str, ...] = ()  # the warnings that came with it


class Computed:
    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, _Held] = OrderedDict()
        self._lock = threading.Lock()  # guards the dict; never held while something is computed

    def once(self, key: Hashable, compute: Callable[[], T], progress: Progress, stamp: int = 0) -> T:
        """The result of `compute`, from memory if it is there for this `key` and `stamp`. Two requests for the same wait for each
        other; what fails or is cancelled is not kept."""
        with self._lock:
            held = self._held.setdefault(key, _Held())
            self._held.move_to_end(key)
            while len(self._held) > _MOST:
                self._held.popitem(last=False)
        while not held.lock.acquire(timeout=_POLL):
            progress("waiting: another request computes the same", 0, 1)
        try:
            taken = notes.taken()
            taken = [] if taken is None else taken
            if held.stamp != stamp:
                before = len(taken)
                held.result, held.stamp = compute(), stamp
                held.notes = tuple(taken[before:])
            else:
                taken.extend(one for one in held.notes if one not in taken)
            found: T = held.result
            return found
        finally:
            held.lock.release()
