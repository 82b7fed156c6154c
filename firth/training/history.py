"""history.jsonl: how a run was trained, one JSON object for its start and one for each resumption.

Each records the versions of firth, torch and Python, the commit if firth runs from a git checkout, the processor, the GPU and the
command line. Nothing is read back by a training, so two runs of the same recipe stay equal to the bit in everything else.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from firth import files
from firth.training.distributed import ranks
from firth.training.folder import RunFolder
from firth.version import __version__

_LONGEST = 5000  # characters of a command line, which may hold a whole text
_PATIENCE = 10  # seconds for git


def record(folder: RunFolder, step: int, device: torch.device) -> None:
    """Append a record of the current process, which trains from `step` on. Only the first of several processes writes."""
    if ranks().first:
        lines = [*read(folder), _now(step, device)]
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


def _now(step: int, device: torch.device) -> dict[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "step": step,
        "firth": __version__,
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "processes": ranks().world,
        "command": command_line(),
    }


def command_line() -> str:
    """The command that this process runs, as one would type it, or "Python call"."""
    name = Path(sys.argv[0] if sys.argv else "")
    if name.name not in ("firth", "firth.exe") and (name.parent.name, name.name) != ("firth", "__main__.py"):
        return "Python call"
    told = shlex.join(["firth", *sys.argv[1:]])
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"


@functools.cache
def commit() -> str | None:
    """The commit of the checkout that firth runs from, with "-dirty" if files have changed since; None if it is installed."""
    folder = Path(__file__).resolve().parent.parent.parent
    if not (folder / ".git").exists():
        return None  # installed in a virtual environment inside another project's checkout
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
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
