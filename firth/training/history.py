"""history.jsonl: how a run was trained, one JSON object for its start and one for each resumption.

Each records the versions of firth, torch, numpy and Python, the commit if firth runs from a git checkout, the operating system,
the processor, its cores and memory, the GPU, the command line, and hashes of the files that were read; at its end also the time,
the step and how it ended. A process that is killed leaves no end. Nothing is read back by a training, so two runs of the same
recipe stay equal to the bit in everything else.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from firth import files
from firth.errors import Diverged, Interrupted, Pruned, RunError
from firth.training.command import command_line
from firth.training.folder import RunFolder
from firth.version import __version__

if TYPE_CHECKING:
    from torch import device

_PATIENCE = 10  # seconds for git


class InProgress(Protocol):
    """A training that a history records."""

    @property
    def step(self) -> int: ...

    @property
    def device(self) -> device: ...


@contextlib.contextmanager
def recorded(folder: RunFolder, training: InProgress, inputs: Mapping[str, Any]) -> Iterator[None]:
    """Append a record of the current process, which trains within this context, and add to it how the training ended. `inputs`:
    the files that it has read besides those of data.sha256. Only the first of several processes writes."""
    from firth.training.distributed import ranks

    if not ranks().first:
        yield
        return
    before, line = read(folder), _now(training, inputs)
    _write(folder, [*before, line])
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(RunError):  # the disk may be full, and `error` says so
            _write(folder, [*before, line | _end(training, error)])
        raise
    _write(folder, [*before, line | _end(training)])


def outcome_of(error: BaseException | None) -> str:
    """How a training ended, in a word."""
    match error:
        case None:
            return "finished"
        case Interrupted() | KeyboardInterrupt():
            return "interrupted"
        case Diverged():
            return "diverged"
        case Pruned():
            return "pruned"
        case _:
            return "failed"


def _end(training: InProgress, error: BaseException | None = None) -> dict[str, Any]:
    return {"ended": _time(), "last_step": training.step, "outcome": outcome_of(error)}


def _write(folder: RunFolder, lines: list[dict[str, Any]]) -> None:
    files.write_text(folder.history, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read(folder: RunFolder) -> list[dict[str, Any]]:
    """The records of a run, oldest first; none if an older firth trained it. A damaged line is left out."""
    if not files.is_file(folder.history):
        return []
    records = []
    for text in folder.history.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            records.append(line)
    return records


def summary(line: dict[str, Any]) -> str:
    """One record as one line: "2026-11-18, firth 0.2.0, torch 2.13.0, Python 3.11.7, Neoverse-N1 (2 cores): firth train …"."""
    commit = f" ({line['commit'][:12]})" if isinstance(line.get("commit"), str) else ""
    processes = f", {line['processes']} processes" if line.get("processes", 1) != 1 else ""
    where = f"{line.get('gpu') or line.get('cpu')} ({line.get('cores')} cores{processes})"
    versions = f"firth {line.get('firth')}{commit}, torch {line.get('torch')}, Python {line.get('python')}"
    return f"{str(line.get('time'))[:10]}, step {line.get('step')}, {versions}, {where}: {line.get('command')}"


def _now(training: InProgress, inputs: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from firth.training.distributed import ranks
    from firth.training.memory import physical_memory

    device = training.device
    gpu = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return {
        "time": _time(),
        "step": training.step,
        "firth": __version__,
        "commit": commit(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "system_version": platform.platform(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "memory": physical_memory(),
        "gpu": None if gpu is None else gpu.name,
        "gpu_memory": None if gpu is None else gpu.total_memory,
        "cuda": torch.version.cuda if gpu is not None else None,
        "processes": ranks().world,
        "command": command_line(),
        "inputs": dict(inputs),
    }


def _time() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@functools.cache
def commit() -> str | None:
    """The commit of the checkout that firth runs from, with "-dirty" if files have changed since; None if it is installed."""
    folder = Path(__file__).resolve().parent.parent.parent
    if not (folder / ".git").exists():
        return None  # installed in a virtual environment inside another project's checkout
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


@functools.cache
def processor() -> str:
    """The name of the processor, or of its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
