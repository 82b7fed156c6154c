"""The progress of training word vectors: words/s, the time left and the loss of the epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass

from firth.progress.display import Display

_BETWEEN = 0.2  # seconds between two updates of the bar


@dataclass(frozen=True)
class Report:
    """Progress of the training, reported after each block."""

    epoch: int  # the first unfinished epoch, counted from 1
    epochs: int
    words: int  # words read so far, over all epochs
    of: int  # words to read in total
    loss: float | None  # mean loss per prediction in this epoch so far, in nats; None before the first prediction
    losses: tuple[float | None, ...]  # mean loss of each finished epoch
    seconds: float  # training time, without reading and compiling

    @property
    def words_per_second(self) -> float:
        return self.words / max(self.seconds, 1e-9)


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
