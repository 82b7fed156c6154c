"""A short report of the counts of this folder's tests, for docs/robustness.md."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping

import pytest

Tally = Callable[[str, Mapping[str, int]], None]
_COUNTED: dict[str, Counter[str]] = {}
_BEGAN = time.monotonic()


@pytest.fixture
def tally() -> Tally:
    """tally("kills of training", {"before a checkpoint": 3}) adds to the report."""

    def add(kind: str, counts: Mapping[str, int]) -> None:
        _COUNTED.setdefault(kind, Counter()).update(counts)

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _COUNTED:
        return
    passed, failed = (len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed"))
    terminalreporter.section("what was counted")
    terminalreporter.write_line(
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{(time.monotonic() - _BEGAN) / 60:.0f} minutes: {passed} tests passed, {failed} failed"
    )
    terminalreporter.write_line("")
    terminalreporter.write_line("| what | counted |")
    terminalreporter.write_line("|---|---|")
    for kind, counts in _COUNTED.items():
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        terminalreporter.write_line(f"| {kind} | {told} |")
