"""Ctrl-C and SIGTERM as a request to stop: the current step finishes, the run is saved, then the program exits.
A second signal interrupts immediately, unless `once`: several processes get the signal from the terminal or the scheduler, and
again from torchrun. It may come when everything is saved and the process is about to exit, and is ignored then, too."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class StopRequest:
    """`with StopRequest() as stop:` … `if stop.signal:`"""

    def __init__(self, once: bool = False) -> None:
        self.once = once
        self.signal: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        told = self.once and self.signal is not None
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if told else handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and not self.once:
            raise KeyboardInterrupt
        self.signal = number
