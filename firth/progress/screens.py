"""Displays of progress: bars in a terminal, bars below the cell of a notebook, or a plain line every few seconds."""

from __future__ import annotations

import html
import importlib
import sys
import time
import uuid
from typing import Any, Protocol

_PLAIN_EVERY = 10.0  # seconds between two lines


class Screen(Protocol):
    def show(self, what: str, done: int, total: int, facts: str) -> None:
        """Draw or update the bar of `what`."""

    def remove(self, what: str) -> None:
        """Remove a bar that is full."""

    def line(self, text: str, always: bool) -> None:
        """The same as one line, for screens without bars."""

    def close(self) -> None: ...


def screen() -> Screen:
    """The screen of this process."""
    if _in_notebook():
        return Notebook()
    return Terminal() if sys.stderr is not None and sys.stderr.isatty() else Lines()


def _in_notebook() -> bool:
    """True if a Jupyter kernel runs this process; a terminal's IPython has no kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Terminal:
    """Live bars on stderr that disappear when they are full."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.tasks: dict[str, Any] = {}
        self.bars.start()

    def show(self, what: str, done: int, total: int, facts: str) -> None:
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=None, facts="")
        self.bars.update(self.tasks[what], completed=done, total=total or None, facts=facts)

    def remove(self, what: str) -> None:
        if what in self.tasks:
            self.bars.remove_task(self.tasks.pop(what))

    def line(self, text: str, always: bool) -> None:
        pass

    def close(self) -> None:
        self.bars.stop()


class Notebook:
    """Bars below the cell. The last one of a training stays, with its loss. Needs neither widgets nor scripts."""

    def __init__(self) -> None:
        self.id = f"firth-{uuid.uuid4()}"
        self.bars: dict[str, tuple[int, int, str]] = {}
        self.drawn = False

    def show(self, what: str, done: int, total: int, facts: str) -> None:
        self.bars[what] = done, total, facts
        self._draw()

    def remove(self, what: str) -> None:
        if self.bars.pop(what, None) is not None:
            self._draw()

    def line(self, text: str, always: bool) -> None:
        pass

    def close(self) -> None:
        pass

    def _draw(self) -> None:
        ipython: Any = importlib.import_module("IPython.display")  # IPython is installed if a kernel runs
        rows = "".join(_bar(what, *bar) for what, bar in self.bars.items())
        plain = "\n".join(_line(what, *bar) for what, bar in self.bars.items())
        content = {"text/html": rows, "text/plain": plain}
        draw = ipython.update_display if self.drawn else ipython.display
        draw(content, display_id=self.id, raw=True)
        self.drawn = True


def _line(what: str, done: int, total: int, facts: str) -> str:
    return f"{what} {done:,}/{total:,}  {facts}".rstrip() if total else what


def _bar(what: str, done: int, total: int, facts: str) -> str:
    full = f'<progress value="{done}" max="{total}" style="vertical-align: middle"></progress> ' if total else ""
    told = html.escape(_line("", done, total, facts).strip())
    return f'<div style="font-family: monospace">{html.escape(what)} {full}{told}</div>'


class Lines:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def show(self, what: str, done: int, total: int, facts: str) -> None:
        pass

    def remove(self, what: str) -> None:
        pass

    def line(self, text: str, always: bool) -> None:
        if sys.stderr is not None and (always or time.monotonic() - self.last > _PLAIN_EVERY):
            print(text, file=sys.stderr, flush=True)
            self.last = time.monotonic()

    def close(self) -> None:
        pass
