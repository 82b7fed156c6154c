"""Progress on stderr: a live line in a terminal, a plain line every few seconds elsewhere. Results go to stdout."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.training.loop import Training
    from firth.training.trainer import Seen

_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


class TrainingProgress:
    """Shows what a Watcher is told."""

    def __init__(self, label: str = "training") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.label = label
        self.console = Console(stderr=True)
        self.live = self.console.is_terminal
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.task: Any = None
        self.loss: float | None = None
        self.valid = ""
        self.last_line = time.monotonic()
        self.steps = 0
        self.what = ""

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def preparing(self, what: str, done: int, total: int) -> None:
        """Reading, counting, encoding: shown only where it takes more than a moment."""
        if what != self.what:
            self.what = what
            self._new_task(what)
        self.bar.update(self.task, completed=done, total=total or None)
        self._plain(f"{what} {done / total:.0%}" if total else what)

    def begin(self, training: Training, recipe: Recipe) -> None:
        self.steps = recipe.training.steps
        self._new_task(self.label)
        self.bar.update(self.task, completed=training.step, total=self.steps)

    def step(self, seen: Seen) -> None:
        step = seen.step
        self.loss = step.loss if self.loss is None else 0.95 * self.loss + 0.05 * step.loss
        if seen.valid is not None:
            bits = seen.valid["bits_per_character"]
            self.valid = (
                f"  held-out {bits:.3f} bpc" if bits is not None else f"  held-out perplexity {seen.valid['perplexity']:.2f}"
            )
        facts = f"loss {self.loss:.3f}{self.valid}  {step.tokens / step.seconds:,.0f} tokens/s"
        self.bar.update(self.task, completed=step.step, facts=facts)
        self._plain(f"{self.label} {step.step}/{self.steps}  {facts}", always=step.step == self.steps)

    def _new_task(self, description: str) -> None:
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(description, total=None, facts="")

    def _plain(self, line: str, always: bool = False) -> None:
        if not self.live and (always or time.monotonic() - self.last_line > _PLAIN_EVERY):
            print(line, file=sys.stderr, flush=True)
            self.last_line = time.monotonic()
