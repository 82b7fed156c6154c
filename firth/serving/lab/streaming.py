"""A view at work: in a thread of its own, telling how far it is, stopped when nobody waits for it any more.

The answer is lines of JSON: {"progress": 0.4, "message": "…"} as often as there is something to tell, then one
{"shown": …, "notes": […]} or {"error": "…"}. Notes are what the view warned of, where `notices` is in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TextIO

from firth.errors import FirthError
from firth.serving.lab.room import Cancelled, Shown, dumped

_BETWEEN = 0.1  # seconds between two lines of progress, at least
_log = logging.getLogger("firth.lab")
_thread = threading.local()  # .notes: what the view of this thread warned of

Work = Callable[["Teller"], Shown]


class Teller:
    """The Progress of a view: passes it on, and ends the view once `cancelled` is set."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.cancelled = threading.Event()
        self._tell = tell
        self._last = -_BETWEEN

    def __call__(self, done: float, of: float, message: str) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        now = time.monotonic()
        if now - self._last >= _BETWEEN:
            self._last = now
            share = min(1.0, max(0.0, done / of)) if of > 0 else 0.0
            self._tell(dumped({"progress": share, "message": message}))


@contextlib.contextmanager
def notices() -> Iterator[None]:
    """While it lasts, a warning in a view goes to whoever asked, each time; one from elsewhere goes where it always went."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        kept: list[str] | None = getattr(_thread, "notes", None)
        if kept is None or not issubclass(category, UserWarning):
            usual(message, category, filename, lineno, file, line)
        elif str(message) not in kept:
            kept.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


async def lines(work: Work) -> AsyncIterator[str]:
    """What `work` has to tell, as it comes. Whoever stops listening stops the work."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, line)

    teller = Teller(put)
    # A daemon: the lab closes at once, even while a view is at something that tells no progress.
    threading.Thread(target=_answer, args=(work, teller, put), name="view", daemon=True).start()
    try:
        while (line := await queue.get()) is not None:
            yield line + "\n"
    finally:
        teller.cancelled.set()


def _answer(work: Work, teller: Teller, put: Callable[[str | None], None]) -> None:
    _thread.notes = []
    try:
        shown = work(teller).json()
        put(f'{{"shown": {shown}, "notes": {dumped(_thread.notes)}}}')
    except Cancelled:
        pass
    except FirthError as error:
        put(dumped({"error": " ".join(str(error).split())}))
    except Exception as error:
        _log.exception("a view failed")
        message = f"{type(error).__name__}: {error}. This is a bug in firth; the terminal of the lab shows where"
        put(dumped({"error": " ".join(message.split())}))
    finally:
        put(None)
