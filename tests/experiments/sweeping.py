"""Sweeps for the tests, which train in this process instead of one for each core."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TEXT

from firth.config import Table
from firth.experiments import workers
from firth.experiments.sweeps.report import SweepReport
from firth.experiments.sweeps.sweep import sweep
from firth.experiments.workers import Workers


def table(valid: float = 0.2, **training: Any) -> Table:
    """A recipe of 6 steps that is validated after every second one."""
    usual = {"steps": 6, "batch": 2, "context": 6, "device": "cpu", "rate": 0.01, "evaluate_every": 2}
    return {"data": {"text": TEXT, "valid": valid}, "model": {"kind": "gru", "width": 8}, "training": usual | training}


class Here(Executor):
    """Runs a task at once, in this process."""

    def submit(self, task: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(task(*given, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


@contextlib.contextmanager
def workers_here(at_once: int, threads: int = 1) -> Iterator[Workers[Any]]:
    yield Workers(1, Here())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "workers", workers_here)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def swept(out: Path, settings: Any, recipe: Table | None = None, **given: Any) -> SweepReport:
    return sweep(recipe or table(), settings, out=out, progress=False, **given)
