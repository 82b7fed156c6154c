"""Progress on stderr: live bars in a terminal, a plain line every few seconds elsewhere. Results go to stdout."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from firth.cli.app import complain

if TYPE_CHECKING:
    from firth.api import Recipe, Watcher
    from firth.training.loop import Training
    from firth.training.trainer import StepReport

_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal
_LOOK_EVERY = 0.1  # seconds between two renewals of the line
_SMOOTH = 50  # steps that the shown loss is averaged over, and at most a tenth of all steps


class Display:
    """Progress bars: `work` for anything countable, `begin` and `step` for a training."""

    def __init__(self, label: str = "training") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.label = label
        self.live = console.is_terminal
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self.live,
        )
        self.tasks: dict[str, Any] = {}
        self.steps = 0
        self.headline: Callable[[Mapping[str, Any]], str] = lambda metrics: ""  # of the task, see `begin`
        self.began = (0, 0.0)  # the step this process started at, and when
        self.loss = self.tokens = self.seconds = 0.0
        self.seen = (0, 0.0)
        self.looks = self.count = 0  # lines shown, steps taken
        self.valid = ""
        self.last_line = self.last_look = time.monotonic()

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bars.stop()

    def work(self, what: str, done: int, total: int) -> None:
        """Reading, encoding, evaluating: a bar that disappears when it is full."""
        self._show(what, done, total)
        if total and done >= total and what in self.tasks:
            self.bars.remove_task(self.tasks.pop(what))
        self._plain(f"{what} {done / total:.0%}" if total else f"{what} {done:,}")

    def begin(self, training: Training, recipe: Recipe) -> None:
        self.steps, self.headline = recipe.training.steps, recipe.task.headline
        self.began = (training.step, time.monotonic())
        self.seen = training.tokens, training.seconds
        self.loss = self.tokens = self.seconds = 0.0
        self.looks = self.count = 0
        self.valid = ""
        self._show(self.label, training.step, self.steps)

    def step(self, seen: StepReport) -> None:
        step, now = seen.step, time.monotonic()
        if math.isnan(seen.loss):  # a GPU is still at its first step
            return
        self.count += 1
        self.loss += max(1 / self.count, 1 / max(1, min(_SMOOTH, self.steps // 10))) * (seen.loss - self.loss)
        if seen.valid is None and step.step < self.steps and self.looks and now - self.last_look < _LOOK_EVERY:
            return
        self.last_look, self.looks = now, self.looks + 1
        tokens, seconds = self.seen
        self.seen = seen.tokens, seen.seconds
        self.tokens += _weight(self.looks) * (seen.tokens - tokens - self.tokens)  # of one look, and below its seconds
        self.seconds += _weight(self.looks) * (seen.seconds - seconds - self.seconds)
        if seen.valid is not None:
            self.valid = f"  held-out {self.headline(seen.valid)}"
        facts = f"loss {self.loss:.3f}{self.valid}  {self.tokens / self.seconds:,.0f} tokens/s"
        self._show(self.label, step.step, self.steps, facts)
        line = f"{self.label} {step.step}/{self.steps}  {facts}  {self._left(step.step)} left"
        self._plain(line, always=step.step == self.steps)

    def _show(self, what: str, done: int, total: int, facts: str = "") -> None:
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=None, facts="")
        self.bars.update(self.tasks[what], completed=done, total=total or None, facts=facts)

    def _left(self, step: int) -> str:
        first, when = self.began
        seconds = (time.monotonic() - when) / max(1, step - first) * (self.steps - step)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"

    def _plain(self, line: str, always: bool = False) -> None:
        if not self.live and (always or time.monotonic() - self.last_line > _PLAIN_EVERY):
            print(line, file=sys.stderr, flush=True)
            self.last_line = time.monotonic()


def _weight(count: int) -> float:
    """The weight of the newest number: a mean over the first twenty, then a moving average."""
    return max(0.05, 1 / count)


@contextmanager
def watching(label: str = "training") -> Iterator[Watcher]:
    """A Watcher that shows the training while the context lasts."""
    from firth.api import Watcher

    with Display(label) as display:
        yield Watcher(work=display.work, begin=display.begin, step=display.step, notice=complain)
