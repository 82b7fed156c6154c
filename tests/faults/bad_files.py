"""Damaged inputs for every reader, in processes of their own: each ends well or in a FirthError, within 10 s of processor time
and 4 × the size of its files + 256 MB of memory.

    python tests/faults/bad_files.py COUNT [FIRST] [READER …]      tries COUNT inputs per reader, from number FIRST on
    python tests/faults/bad_files.py --show NUMBER READER          tries one input and shows how it ends

Attacks, whose names begin so, are only tried where they are named.

An input is made from the name of its reader and its number alone. One process imports everything; each reader runs in a fork of
it, so that a crash costs one input."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parent
for place in (HERE, HERE / "attacks", HERE.parent, HERE.parent / "interop"):
    sys.path.insert(0, str(place))

ATTACK = "attack"  # how the names of readers begin that `make attack` tries
SECONDS = 10  # of processor time for one input
PATIENCE = 120  # seconds that the clock may show, on a busy machine
ROOM = 256 << 20  # bytes for one input, besides 4 × its size
CEILING = 3 << 30  # bytes that a process may reserve on top: before the machine suffers, an allocation fails


def tried(count: int, first: int, *names: str) -> list[dict[str, Any]]:
    """The outcomes of each reader's inputs, found in a process of its own."""
    command = [sys.executable, str(Path(__file__)), str(count), str(first), *names]
    outcomes = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            outcomes.append(json.loads(line))
            print(outcomes[-1]["reader"], outcomes[-1]["outcomes"], outcomes[-1]["seconds"], "s", flush=True)
    assert process.returncode == 0
    return outcomes


def assert_none_failed(outcomes: list[dict[str, Any]]) -> None:
    failures = [
        f"{one['reader']}, input {failure['number']}: {failure['outcome']}\n{failure['what']}"
        for one in outcomes
        for failure in one["failures"]
    ]
    assert not failures, f"{len(failures)} inputs failed\n\n" + "\n\n".join(failures[:20])


class Slow(BaseException):
    """Over its time."""


def main() -> None:
    if sys.argv[1] == "--show":
        _show(sys.argv[3], int(sys.argv[2]))
        return
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wanted = set(sys.argv[3:])
    import torch._dynamo  # noqa: F401 (imported before the forks, not in each of them)

    import firth.cli.translate
    import firth.vectors.trainer  # noqa: F401

    known = _readers()
    unknown = wanted - {reader.name for reader in known}
    assert not unknown, f"no readers: {sorted(unknown)}"
    for reader in known:
        if reader.name in wanted or not (wanted or reader.name.startswith(ATTACK)):
            print(json.dumps(_tried(reader, first, count)), flush=True)


def _readers() -> list[Any]:
    from fault_readers import readers
    from foreign_attacks import attacks

    return [*readers(), *attacks()]


def _tried(reader: Any, first: int, count: int) -> dict[str, Any]:
    """The outcomes of the inputs `first` … `first + count − 1`, in one fork, or in more where one of them dies."""
    began = time.monotonic()
    outcomes: dict[str, int] = {}
    failures: list[dict[str, Any]] = []
    at, end = first, first + count
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while at < end:
            with (folder / "report").open("w+") as report:
                status = _forked(reader, at, end, folder, report.fileno())
                report.seek(0)
                lines = [json.loads(line) for line in report]
            for line in lines:
                if "outcome" in line:
                    outcomes[line["outcome"]] = outcomes.get(line["outcome"], 0) + 1
                    failures += [line] if line["outcome"] not in ("read", "refused") else []
                    at = line["number"] + 1
            if status and at < end:
                failures.append({"number": at, "outcome": "died", "what": f"the process ended with {status}"})
                outcomes["died"] = outcomes.get("died", 0) + 1
                at += 1
    return {"reader": reader.name, "outcomes": outcomes, "failures": failures, "seconds": round(time.monotonic() - began, 1)}


def _forked(reader: Any, first: int, end: int, folder: Path, report: int) -> int:
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            _child(reader, first, end, folder, report)
            os._exit(0)
        os._exit(99)
    alive_at, size = time.monotonic(), 0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if (now := os.fstat(report).st_size) != size:
            alive_at, size = time.monotonic(), now
        if time.monotonic() - alive_at > PATIENCE:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGALRM
        time.sleep(0.005)


def _child(reader: Any, first: int, end: int, folder: Path, report: int) -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_slow)
    os.environ["FIRTH_CACHE"] = str(folder / "cache")
    try:
        good = _good(reader, folder)
        expect_read(reader, good, folder)
    except BaseException:
        os.write(report, (json.dumps({"number": end, "outcome": "broken", "what": traceback.format_exc()}) + "\n").encode())
        raise
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + CEILING, resource.RLIM_INFINITY))
    for number in range(first, end):
        with _input(reader, good, number, folder) as (case, size):
            outcome = _outcome(reader, case, size)
        os.write(report, (json.dumps({"number": number, **outcome}) + "\n").encode())


def _good(reader: Any, folder: Path) -> Path:
    good = folder / "good"
    if not good.exists():
        made = folder / f"making-{os.getpid()}"
        made.mkdir()
        reader.make(made)
        made.rename(good)
    return good


def expect_read(reader: Any, good: Path, folder: Path) -> None:
    """A reader that refuses its own good files would pass every test."""
    case = folder / "undamaged"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(good, case)
    reader.read(case)
    shutil.rmtree(case)


@contextlib.contextmanager
def _input(reader: Any, good: Path, number: int, folder: Path) -> Iterator[tuple[Path, int]]:
    """A copy of the good files with some of them damaged, and their size."""
    from mutations import resealed

    draw = random.Random(f"{reader.name} {number}")
    case = folder / "case"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(good, case)
    chosen = sorted(path for pattern in reader.damaged for path in case.glob(pattern) if path.is_file() and path.name[0] != ".")
    if not chosen:
        chosen = sorted(path for path in case.rglob("[!.]*") if path.is_file())
    for path in draw.sample(chosen, draw.choice((1, 1, 1, min(2, len(chosen))))):
        if "resealed" in reader.name:
            resealed(path, draw)
        else:
            path.write_bytes(reader.damage(path.read_bytes(), path.name, draw))
    yield case, sum(path.stat().st_size for path in case.rglob("*") if path.is_file())
    shutil.rmtree(case, ignore_errors=True)


def _outcome(reader: Any, case: Path, size: int) -> dict[str, Any]:
    from firth.errors import FirthError

    before, what = forget_peak(), ""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        reader.read(case)
        outcome = "read"
    except FirthError as error:
        outcome = "refused"
        if len(str(error)) > 2100:
            outcome, what = "long message", str(error)[:2000]
    except Slow:
        outcome, what = "slow", "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
    except BaseException:
        outcome, what = "traceback", "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    used = status("VmHWM") - before
    if used > 4 * size + ROOM:
        outcome, what = "memory", f"{used >> 20} MB for {size} bytes; {outcome} {what}"
    return {"outcome": outcome, "what": what}


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise Slow


def forget_peak() -> int:
    """Memory in use now; the highest so far is forgotten. Only Linux can: elsewhere memory is not measured."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def status(key: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def _show(name: str, number: int) -> None:
    reader = next(reader for reader in _readers() if reader.name == name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["FIRTH_CACHE"] = str(folder / "cache")
        with _input(reader, _good(reader, folder), number, folder) as (case, size):
            kept = Path(tempfile.gettempdir()) / "firth-bad-files" / f"{name.replace(' ', '-')}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(case, kept)
            print(f"{size} bytes, kept as {kept}")
            print(reader.read(case))


if __name__ == "__main__":
    main()
