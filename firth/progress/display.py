"""Progress of long-running work, on the command line and in Python: `work` for anything countable, `begin` and `step` for
training."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from firth.progress import Progress, silent
from firth.progress.screens import Screen, screen

P = ParamSpec("P")
R = TypeVar("R")

_LOOK_EVERY = 0.1  # seconds between two updates of the line
_SMOOTH = 50  # steps that the shown loss is averaged over, and at most a tenth of all steps
_SHORT = 2.0  # seconds that a call in Python may take before it shows its progress


class Display:
    """Progress bars, from `after` seconds on."""

    active: ClassVar[Display | None] = None  # the one of this process; nested displays share it

    def __init__(self, label: str = "training", after: float = 0.0) -> None:
        self.label = label
        self.visible_from = time.monotonic() + after
        self.screen: Screen | None = None  # opened when there is something to show
        self.outer: Display | None = None
        self.steps = 0
        self.headline: Callable[[Mapping[str, Any]], str] = lambda metrics: ""  # that of the task, see `begin`
        self.began = (0, 0.0)  # the step this process started at, and when
        self.loss = self.tokens = self.seconds = 0.0
        self.seen = (0, 0.0)
        self.looks = self.count = 0  # lines shown, steps taken
        self.valid = ""
        self.last_look = time.monotonic()

    def __enter__(self) -> Self:
        self.outer, Display.active = Display.active, self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        Display.active = self.outer
        if self.screen is not None:
            self.screen.close()

    def work(self, what: str, done: int, total: int) -> None:
        """Show reading, encoding or evaluating as a bar that disappears when it is full."""
        self._show(what, done, total)
        if total and done >= total:
            self._remove(what)
        self._plain(f"{what} {done / total:.0%}" if total else f"{what} {done:,}")

    def begin(self, training: Any, recipe: Any) -> None:
        """Start to show a firth.training.loop.Training with its Recipe."""
        self.steps, self.headline = recipe.training.steps, recipe.task.headline
        self.began = (training.step, time.monotonic())
        self.seen = training.tokens, training.seconds
        self.loss = self.tokens = self.seconds = 0.0
        self.looks = self.count = 0
        self.valid = ""
        self._show(self.label, training.step, self.steps)

    def step(self, seen: Any) -> None:
        """A firth.training.trainer.StepReport."""
        now = time.monotonic()
        if math.isnan(seen.loss):  # a GPU is still at its first step
            return
        self.count += 1
        self.loss += max(1 / self.count, 1 / max(1, min(_SMOOTH, self.steps // 10))) * (seen.loss - self.loss)
        if seen.valid is None and seen.step < self.steps and self.looks and now - self.last_look < _LOOK_EVERY:
            return
        self.last_look, self.looks = now, self.looks + 1
        tokens, seconds = self.seen
        self.seen = seen.tokens, seen.seconds
        self.tokens += _weight(self.looks) * (seen.tokens - tokens - self.tokens)  # of one look, and below its seconds
        self.seconds += _weight(self.looks) * (seen.seconds - seconds - self.seconds)
        if seen.valid is not None:
            self.valid = f"  held-out {self.headline(seen.valid)}"
        facts = f"loss {self.loss:.3f}{self.valid}  {self.tokens / self.seconds:,.0f} tokens/s"
        self._show(self.label, seen.step, self.steps, facts)
        line = f"{self.label} {seen.step}/{self.steps}  {facts}  {self._left(seen.step)} left"
        self._plain(line, always=seen.step == self.steps)

    def _show(self, what: str, done: int, total: int, facts: str = "") -> None:
        if self.screen is None and time.monotonic() >= self.visible_from:
            self.screen = screen()
        if self.screen is not None:
            self.screen.show(what, done, total, facts)

    def _remove(self, what: str) -> None:
        if self.screen is not None:
            self.screen.remove(what)

    def _plain(self, line: str, always: bool = False) -> None:
        if self.screen is not None:
            self.screen.line(line, always)

    def _left(self, step: int) -> str:
        first, when = self.began
        seconds = (time.monotonic() - when) / max(1, step - first) * (self.steps - step)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def _weight(count: int) -> float:
    """The weight of the newest number: a mean over the first twenty, then a moving average."""
    return max(0.05, 1 / count)


@contextmanager
def showing(progress: Progress | bool) -> Iterator[Progress]:
    """The Progress for the argument `progress` of a Python call. True shows bars after two seconds, in the active display
    if there is one; False shows nothing; a function is used as it is."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress or threading.current_thread() is not threading.main_thread():
        yield silent
    elif Display.active is not None:
        yield Display.active.work
    else:
        with Display(after=_SHORT) as display:
            yield display.work


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with an argument `progress: Progress | bool = True`, which it reads with `followed`; see `showing`."""
    arguments = signature(function)

    @wraps(function)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        given = arguments.bind(*args, **kwargs)
        given.apply_defaults()
        with showing(given.arguments["progress"]) as given.arguments["progress"]:
            return function(*given.args, **given.kwargs)

    return shown


def followed(progress: Progress | bool) -> Progress:
    """The Progress that `shows_progress` has substituted for True or False."""
    assert not isinstance(progress, bool)
    return progress
