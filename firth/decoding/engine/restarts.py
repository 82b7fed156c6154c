"""When to start a process again that ended without being asked to."""

from __future__ import annotations

import time

_LEAST, _MOST = 0.5, 60.0  # seconds until a process that ended is started again; twice as many each time
_STEADY = 60.0  # seconds after which a process is thought to work


class Pause:
    """The pause before a process that ended soon is started again; it grows each time."""

    def __init__(self) -> None:
        self._began, self._wait = 0.0, _LEAST

    def began(self) -> None:
        """The process works now."""
        self._began = time.monotonic()

    def seconds(self) -> float:
        """The length of the pause after this end, in seconds."""
        self._wait = min(_MOST, 2 * self._wait) if time.monotonic() - self._began < _STEADY else _LEAST
        return self._wait
