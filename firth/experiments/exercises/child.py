"""Calls a student's function, in a process of its own. Nothing of firth is imported here, and nothing of it can be imported.

It runs as a script. A request comes from standard input as one line of JSON, {"path", "function", "cases", "memory"}; answers go
to standard output, one line of JSON each: {"ready"} once the imports are done, then one outcome per case, or one {"stopped"}.
What the student's code prints goes to standard error.

An outcome is {"value"}, {"raised"} or {"changed"}, the argument that the function changed in place. It is plain data, never a
pickle.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np

LARGEST = 10_000  # numbers in one result
_LONGEST = 500  # characters of a message
_FRAMES = 5  # lines of the student's file in a traceback


# Values as JSON


def encoded(value: Any) -> Any:
    """A value as plain data; of a type that no exercise returns, only its name."""
    if hasattr(value, "detach") and type(value).__module__.startswith("torch"):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    if isinstance(value, np.ndarray | np.generic):
        return _encoded_array(np.asarray(value))
    if isinstance(value, list | tuple):
        if len(value) > LARGEST:
            return {"other": f"{type(value).__name__} of {len(value):,} items"}
        return [encoded(one) for one in value]
    return value if value is None or type(value) in (bool, int, float, str) else {"other": type(value).__name__}


def _encoded_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    kept = array.size <= LARGEST and array.dtype.kind in "fiub"
    values = array.astype(np.float64 if array.dtype.kind == "f" else array.dtype).reshape(-1).tolist() if kept else None
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values}


def decoded(value: Any) -> Any:
    """The arguments of a call, from plain data."""
    if isinstance(value, dict):
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    return [decoded(one) for one in value] if isinstance(value, list) else value


# The calls


def wants_torch(function: Callable[..., Any]) -> bool:
    """The rule: tensors if the annotation of any parameter names Tensor, otherwise NumPy arrays."""
    with contextlib.suppress(ValueError, TypeError):
        return any(re.search(r"\bTensor\b", str(one.annotation)) for one in inspect.signature(function).parameters.values())
    return False


def outcomes(function: Callable[..., Any], cases: Sequence[Sequence[Any]], path: str | None = None) -> Iterator[dict[str, Any]]:
    """What the function gives for each case. `path`: the file whose lines a traceback shows; by default that of the function."""
    tensors = wants_torch(function)
    if path is None:
        path = getattr(getattr(function, "__code__", None), "co_filename", "")
    for case in cases:
        given = [_argument(one, tensors) for one in case]
        try:
            with np.errstate(all="ignore"):
                result = encoded(function(*given))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            yield {"raised": raised(error, path)}
            continue
        changed = [n for n, (one, before) in enumerate(zip(given, case, strict=True)) if not _same(one, before)]
        yield {"changed": changed[0]} if changed else {"value": result}


def _argument(value: Any, tensors: bool) -> Any:
    if isinstance(value, np.ndarray):
        if tensors:
            import torch

            return torch.tensor(value)
        return value.copy()
    return list(value) if isinstance(value, list) else value


def _same(value: Any, before: Any) -> bool:
    if isinstance(before, np.ndarray):
        array = value.detach().numpy() if hasattr(value, "detach") else value
        return array.shape == before.shape and bool(np.array_equal(array, before))
    return bool(value == before)


def raised(error: BaseException, path: str) -> dict[str, Any]:
    """An exception as plain data, with those lines of its traceback that are in the student's file."""
    if isinstance(error, SyntaxError):
        frames = [f"line {error.lineno}: {(error.text or '').strip()[:_LONGEST]}"]
    else:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        frames = [f"line {frame.lineno}, in {frame.name}: {(frame.line or '')[:_LONGEST]}" for frame in own[-_FRAMES:]]
    message = str(error.msg if isinstance(error, SyntaxError) else error)
    no_memory = isinstance(error, MemoryError) or "can't allocate memory" in message or "not enough memory" in message
    return {"type": type(error).__name__, "message": message[:_LONGEST], "frames": frames, "memory": no_memory}


# The process


class _NoFirth(importlib.abc.MetaPathFinder):
    """Refuses to import firth, which has the solutions, and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name.partition(".")[0] == "firth":
            self.asked.append(name)
            raise ImportError(f"{name} cannot be imported in an exercise")


# Audit events that begin so.
_REFUSED = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.kill")
_REFUSED_FILES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.symlink",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: no network, no other process, no change of files. It stops accidents, not an attacker."""
    if event == "open":
        name, mode, flags = arguments
        writes = any(one in mode for one in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITING)
        if writes and name != os.devnull and not isinstance(name, int):
            raise PermissionError(f"an exercise cannot write files ({str(name)[:_LONGEST]})")
    elif event.startswith((*_REFUSED, *_REFUSED_FILES)):
        raise PermissionError(f"an exercise cannot use the network, other processes or other files ({event})")


def _limit_memory(most: int) -> None:
    """`most` bytes beyond what the imports occupy."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        occupied = 0
        with contextlib.suppress(OSError):
            occupied = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (occupied + most, occupied + most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(answers: TextIO, **fields: Any) -> None:
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


def _serve(request: dict[str, Any], answers: TextIO) -> None:
    path, name, guard = request["path"], request["function"], _NoFirth()
    sys.path.insert(0, os.path.dirname(path))
    sys.meta_path.insert(0, guard)
    source = Path(path).read_bytes()
    if re.search(rb"\btorch\b", source):  # so that its import does not count as the student's time and memory
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)
    _limit_memory(request["memory"])
    sys.addaudithook(_refuse)
    _answer(answers, ready=True)
    module = type(sys)("exercise")
    module.__dict__["__file__"] = path
    sys.modules["exercise"] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException as error:
        stopped = {"forbidden": guard.asked[0]} if guard.asked else {"raised": raised(error, path)}
        _answer(answers, stopped=stopped)
        return
    function = getattr(module, name, None)
    if not callable(function):
        _answer(answers, stopped={"missing": name})
        return
    for outcome in outcomes(function, [[decoded(one) for one in case] for case in request["cases"]], path):
        if guard.asked:
            break
        _answer(answers, **outcome)
    if guard.asked:
        _answer(answers, stopped={"forbidden": guard.asked[0]})


def _main() -> NoReturn:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
    _serve(json.loads(sys.stdin.readline()), answers)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # whatever threads the student started


if __name__ == "__main__":
    _main()
