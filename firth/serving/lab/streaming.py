"""Running a view: in its own thread, with progress, until it is done or nobody waits for it any more.

The response is a stream of JSON lines: {"progress": 0.4, "message": "…"} while the view works, {"part": …} for what it knows
already, then one {"result": …, "notes": […]} or {"error": "…"}. Notes are the warnings that the view raised within
`warnings_as_notes`.
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
from firth.progress import Progress
from firth.serving.lab import notes
from firth.serving.lab.result import ViewResult, to_json
from firth.serving.lab.room import Cancelled
from firth.tasks.abilities.unseen_words import UnseenWarning

_INTERVAL = 0.1  # seconds between two lines of progress, at least
_log = logging.getLogger("firth.lab")

Work = Callable[[Progress], ViewResult]


class StreamedProgress:
    """The Progress of a view: sends lines to the page, and raises Cancelled once `cancelled` is set."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self.cancelled = threading.Event()
        self._send = send
        self._last = -_INTERVAL
        self._shown = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        now = time.monotonic()
        if now - self._last >= _INTERVAL:
            self._last = now
            fraction = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
            self._send(to_json({"progress": fraction, "message": what}))

    def show(self, result: ViewResult) -> None:
        """Nothing is shown of what is there at once anyway."""
        if not self.cancelled.is_set() and time.monotonic() - self._shown >= _INTERVAL:
            self._send(f'{{"part": {result.json()}}}')
            self._shown = time.monotonic()


def show(progress: Progress, result: ViewResult) -> None:
    """Sends what a view knows already, in the form of its result, if somebody shows it."""
    if isinstance(progress, StreamedProgress):
        progress.show(result)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Within this context, a UserWarning raised by a view becomes a note in its response. Other warnings are unaffected."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        taken = notes.taken()
        if taken is None or not issubclass(category, UserWarning):
            usual(message, category, filename, lineno, file, line)
        elif str(message) not in taken:
            taken.append(notes.UnseenNote(message) if issubclass(category, UnseenWarning) else str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


async def lines(work: Work) -> AsyncIterator[str]:
    """The lines of the response as they come. Closing the iterator cancels the work."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, line)

    progress = StreamedProgress(put)
    # A daemon thread: the lab can close at once, even while a view is in a step that reports no progress.
    threading.Thread(target=_answer, args=(work, progress, put), name="view", daemon=True).start()
    try:
        while (line := await queue.get()) is not None:
            yield line + "\n"
    finally:
        progress.cancelled.set()


def _answer(work: Work, progress: Progress, put: Callable[[str | None], None]) -> None:
    notes.begin()
    try:
        result = work(progress)
        told, marked = notes.taken() or [], any(result.unknown.values())
        shown = [one for one in told if not (marked and isinstance(one, notes.UnseenNote))]  # what is marked needs no note
        put(f'{{"result": {result.json()}, "notes": {to_json(shown)}}}')
    except Cancelled:
        pass
    except FirthError as error:
        put(to_json({"error": " ".join(str(error).split())}))
    except Exception as error:
        _log.exception("a view failed")
        message = f"{type(error).__name__}: {error}. This is a bug in firth; the lab's terminal shows the traceback."
        put(to_json({"error": " ".join(message.split())}))
    finally:
        put(None)
