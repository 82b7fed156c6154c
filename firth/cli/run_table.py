"""Runs that are trained side by side, as a live table on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from firth.cli.app import complain

if TYPE_CHECKING:
    from firth.experiments.workers import RunProgress

_AROUND = 4  # lines of the screen for headings and what is left out


@contextmanager
def watching_runs() -> Iterator[Callable[[Sequence[RunProgress]], None]]:
    """A live table in a terminal; elsewhere a line for each run that has finished."""
    from rich.console import Console
    from rich.live import Live

    if not sys.stderr.isatty():
        yield _Lines().show
        return
    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda states: live.update(_table(states, max(1, console.height - _AROUND)))


class _Lines:
    def __init__(self) -> None:
        self.told: set[str] | None = None

    def show(self, states: Sequence[RunProgress]) -> None:
        finished = [state for state in states if state.phase == "finished"]
        if self.told is None:  # those of an earlier start
            self.told = {state.name for state in finished}
            if finished:
                complain(f"{len(finished)} of {len(states)} runs are finished already")
            return
        for state in finished:
            if state.name not in self.told:
                self.told.add(state.name)
                complain(f"{len(self.told)}/{len(states)}  {state.name}: {state.result}")


def _table(states: Sequence[RunProgress], room: int) -> Any:
    """At most `room` runs: those that are running, then the newest of the finished ones, then those that wait."""
    from rich.table import Table
    from rich.text import Text

    order = ("running", "finished", "waiting")
    by_phase = sorted(range(len(states)), key=lambda n: (order.index(states[n].phase), -n))
    left_out = max(0, len(states) - room)
    table = Table("run", "step", "loss", "result", box=None, caption=f"and {left_out} more" if left_out else None)
    for state in (states[n] for n in sorted(by_phase[:room])):
        step = f"{state.step:,}/{state.steps:,}" if state.phase == "running" else state.phase
        loss = "" if state.loss is None else f"{state.loss:.3f}"
        table.add_row(Text(state.name), step, loss, Text(state.result))
    return table
