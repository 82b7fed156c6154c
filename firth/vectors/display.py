"""The progress of training word vectors: words/s, the time left and the loss of the epoch."""

from __future__ import annotations

import time
from typing import Protocol

from firth.progress.display import Display

_BETWEEN = 0.2  # seconds between two updates of the bar


class Report(Protocol):
    """A firth.vectors.trainer.Report."""

    @property
    def epoch(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def of(self) -> int: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def losses(self) -> tuple[float | None, ...]: ...
    @property
    def words_per_second(self) -> float: ...


class VectorsDisplay(Display):
    def __init__(self) -> None:
        super().__init__("training")
        self.first = True
        self.shown = 0.0
        self.epoch = 0
        self.noted = ""

    def note(self, message: str) -> None:
        """Shown until the training begins."""
        self.noted = message
        self._show(message, 0, 0)

    def block(self, report: Report) -> bool:
        """Show a report, unless the last one has just been shown; returns whether it was shown."""
        now, first = time.monotonic(), self.first
        last, new_epoch = report.words == report.of, len(report.losses) > self.epoch
        self.epoch, self.first = len(report.losses), False
        if now - self.shown < _BETWEEN and not last and not new_epoch:
            return False
        self.shown = now
        self._remove(self.noted)
        loss = "" if report.loss is None else f"loss {report.loss:.4f}  "
        facts = f"epoch {report.epoch}/{report.epochs}  {loss}{report.words_per_second:,.0f} words/s"
        self._show("training", report.words, report.of, facts)
        left = (report.of - report.words) / report.words_per_second
        self._plain(f"training {report.words / report.of:.0%}  {facts}  {left:.0f} s left", always=first or last)
        return True
