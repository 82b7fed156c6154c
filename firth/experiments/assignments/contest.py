"""Measures the entries of a competition, each in a process with limits of time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from firth.config import to_table
from firth.errors import FirthError
from firth.experiments.assignments.assignment import Assignment, Competition
from firth.experiments.assignments.report import EntryResult
from firth.experiments.assignments.submissions import BadSubmission, Submission, copy_plain, entries
from firth.progress import Progress

READY = b"ready\n"  # the first line that the process prints
RECIPE, IDEAS = "recipe.toml", "ideas.py"
_LARGEST_RECIPE, _LARGEST_TEXT, _LARGEST_WEIGHTS = 100_000, 1 << 28, 4 << 30  # bytes
# The files of a run that are read, and how large each may be.
_RUN = {
    "format": 1000,
    "recipe.toml": _LARGEST_TEXT,
    "tokenizer.json": 50_000_000,
    "model.safetensors": _LARGEST_WEIGHTS,
}
_MODULE = "firth.experiments.assignments.contestant"
_LONGEST = 2000  # characters of an answer that are kept


def entries_of(assignment: Assignment, found: Sequence[Submission], progress: Progress) -> list[EntryResult]:
    """What the entry of every student gives; none for a student who has no entry, if there are exercises besides."""
    one = assignment.competition
    if one is None:
        return []
    results = []
    for number, submission in enumerate(found):
        progress("measuring", number, len(found))
        result = entry_result(submission, one)
        if result is not None:
            results.append(result)
        elif not assignment.exercises:
            results.append(EntryResult(submission.student, f"There is no {RECIPE}{' and no run' if one.runs else ''}."))
    progress("measuring", len(found), len(found))
    return results


def entry_result(submission: Submission, competition: Competition) -> EntryResult | None:
    """The measured entry; None if there is none."""
    with tempfile.TemporaryDirectory(prefix="firth-entry-") as folder:
        try:
            kind = _staged(submission, competition, Path(folder) / "entry")
        except BadSubmission as error:
            return EntryResult(submission.student, str(error))
        if kind is None:
            return None
        with tempfile.TemporaryFile() as noise:
            return _measured(submission.student, kind, Path(folder), competition, noise)


def _staged(submission: Submission, competition: Competition, to: Path) -> str | None:
    """A copy of the entry in the new folder `to`; whether it is a "recipe" or a "run"."""
    to.mkdir()
    if not submission.is_folder:
        if submission.path.suffix.lower() != ".toml":
            return None
        copy_plain(submission.path, to / RECIPE, _LARGEST_RECIPE)
        return "recipe"
    files = entries(submission.path)
    runs = [path.parent for path in files if path.name == "format"]
    if runs:
        if not competition.runs:
            raise BadSubmission(f"It is a trained run. Hand in {RECIPE}, which is trained here.")
        if len(runs) > 1:
            raise BadSubmission(f"It has {len(runs)} runs. Hand in one.")
        return _staged_run(runs[0], to)
    recipes = [path for path in files if path.name == RECIPE] or [path for path in files if path.suffix == ".toml"]
    if len(recipes) > 1:
        raise BadSubmission(f"It has {len(recipes)} recipes. Hand in {RECIPE} alone.")
    return _staged_recipe(recipes[0], files, competition, to) if recipes else None


def _staged_run(run: Path, to: Path) -> str:
    for name, most in _RUN.items():
        if not (run / name).exists():
            raise BadSubmission(f"The run has no {name}.")
        copy_plain(run / name, to / name, most)
    return "run"


def _staged_recipe(recipe: Path, files: Sequence[Path], competition: Competition, to: Path) -> str:
    copy_plain(recipe, to / RECIPE, _LARGEST_RECIPE)
    for path in files:
        if path.parent != recipe.parent:
            continue
        if path.name == IDEAS:
            if not competition.allow_ideas:
                raise BadSubmission(f"It has {IDEAS}, but this competition takes no code of your own.")
            copy_plain(path, to / IDEAS, _LARGEST_RECIPE)
        elif path.suffix == ".txt" and competition.own_text and path.name != Path(competition.train).name:
            copy_plain(path, to / path.name, _LARGEST_TEXT)
    return "recipe"


def _measured(student: str, kind: str, folder: Path, competition: Competition, noise: IO[bytes]) -> EntryResult:
    request = {"kind": kind, "folder": str(folder), "competition": to_table(competition)}
    environment = {**os.environ, "FIRTH_CACHE": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    environment.pop("FIRTH_USE", None)
    group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
    process = subprocess.Popen(
        [sys.executable, "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=noise,
        cwd=folder,
        env=environment,
        **group,
    )
    try:
        started = time.monotonic()
        said, _ = process.communicate(json.dumps(request).encode() + b"\n", timeout=60 * competition.minutes)
    except subprocess.TimeoutExpired:
        return EntryResult(student, f"It took more than {competition.minutes:g} minutes.")
    finally:
        _end(process)
    if not said.startswith(READY):
        noise.seek(0)
        raise FirthError(f"the process for the entries did not start: {noise.read(_LONGEST).decode(errors='replace')}")
    return _result(student, said.removeprefix(READY), process.returncode, time.monotonic() - started)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it with its group, if it still runs; also after Ctrl-C."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
    process.communicate()


def _result(student: str, said: bytes, code: int, seconds: float) -> EntryResult:
    """The last line that the process printed."""
    try:
        answer = json.loads(said.splitlines()[-1])
        return EntryResult(student, **{name: _limited(value) for name, value in answer.items()})
    except (IndexError, ValueError, TypeError, AttributeError, RecursionError):
        how = "perhaps it needs more memory than it may" if code < 0 else f"exit status {code}"
        return EntryResult(student, f"It ended the process after {seconds:.0f} seconds ({how}).")


def _limited(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value
