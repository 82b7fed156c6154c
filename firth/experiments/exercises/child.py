"""Calls a student's function, in a process of its own. Nothing of firth is imported here, and nothing of it can be imported.

It runs as a script. A request comes from standard input as one line of JSON, {"path", "function", "cases", "memory",
"processor_seconds", "walls"}; "walls" is null for a file of one's own, see _Guard. Answers go to standard output, one line of
JSON each: {"ready"} once the imports are done, then one outcome per case, or one {"stopped"}. What the student's code prints
goes to standard error.

An outcome is {"value"}, {"raised"} or {"changed"}, the argument that the function changed in place. It is plain data, never a
pickle.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import inspect
import json
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
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
        # Only the lines that are shown are read: other files may be out of bounds.
        stack = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
        own = [frame for frame in stack if frame.filename == path or frame.filename.startswith(f"{path} cell ")]
        frames = [_shown_frame(frame, path) for frame in own[-_FRAMES:]]
    message = str(error.msg if isinstance(error, SyntaxError) else error)
    no_memory = isinstance(error, MemoryError) or "can't allocate memory" in message or "not enough memory" in message
    return {"type": type(error).__name__[:_LONGEST], "message": message[:_LONGEST], "frames": frames, "memory": no_memory}


def _shown_frame(frame: traceback.FrameSummary, path: str) -> str:
    cell = frame.filename.removeprefix(path).strip()
    return f"{cell + ', ' if cell else ''}line {frame.lineno}, in {frame.name}: {(frame.line or '')[:_LONGEST]}"


# The process


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
_REFUSED_TO_STRANGERS = ("ctypes.", "sqlite3.", "shutil.", "cpython.PyInterpreterState_New")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ANYBODYS = (os.devnull, "/dev/urandom", "/usr/share/zoneinfo")


class _Guard(importlib.abc.MetaPathFinder):
    """Refuses the network, other processes, changes of files, and firth, which has the solutions. It stops accidents, not an
    attacker. To strangers, whose files come with `walls`, it also refuses to read anything but their own folder and what is
    installed: {"own": folder, "protected": {folder: what it is}}. It remembers what was asked for that has the solution."""

    def __init__(self, walls: dict[str, Any] | None) -> None:
        self.asked: dict[str, str] = {}
        self.strangers = walls is not None
        self.protected = {os.path.realpath(place): what for place, what in (walls or {"protected": {}})["protected"].items()}
        places = [*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix, *_ANYBODYS]
        self.readable = [os.path.realpath(place) for place in places if place]
        self.own = [os.path.realpath(place) for place in ([walls["own"]] if walls else []) + [__file__]]

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name.partition(".")[0] == "firth":
            self.asked.setdefault("imports", "firth")
            raise ImportError(f"{name} cannot be imported in an exercise")

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            name, mode, flags = arguments
            writes = any(one in mode for one in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITING)
            if writes and name != os.devnull and not isinstance(name, int):
                raise PermissionError(f"an exercise cannot write files ({str(name)[:_LONGEST]})")
            self._read(name)
        elif event in ("os.listdir", "os.scandir"):
            self._read(arguments[0] or ".")
        elif event == "import":
            self.find_spec(arguments[0], None)
        elif event.startswith((*_REFUSED, *_REFUSED_FILES)) or (self.strangers and event.startswith(_REFUSED_TO_STRANGERS)):
            raise PermissionError(f"an exercise cannot use the network, other processes or other files ({event})")

    def _read(self, name: Any) -> None:
        if not self.strangers or isinstance(name, int):
            return
        real = os.path.realpath(os.fsdecode(name))
        if _within(real, self.own):
            return
        for place, what in self.protected.items():
            if _within(real, [place]):
                self.asked.setdefault("reads", what)
                raise PermissionError(f"an exercise cannot read {what}")
        if not _within(real, self.readable):
            raise PermissionError(f"an exercise cannot read files outside its folder ({real[:_LONGEST]})")


def _within(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip(os.sep) + os.sep) for place in places)


def _limit(most: int, seconds: int) -> None:
    """`most` bytes of memory beyond what the imports occupy, no byte in any file, and `seconds` of processor time."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        occupied = 0
        with contextlib.suppress(OSError):
            occupied = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (occupied + most, occupied + most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _answer(answers: TextIO, **fields: Any) -> None:
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


class NotPython(Exception):
    """A file that is neither Python nor a notebook."""


def parts(source: bytes, path: str) -> list[tuple[str, str]]:
    """The code of a file, each part with the name that it has in a traceback: of a notebook each cell, without IPython's own
    commands and without what mentions firth, so that a notebook may check itself."""
    if not path.endswith(".ipynb"):
        try:
            return [(path, importlib.util.decode_source(source))]
        except (SyntaxError, ValueError) as error:
            raise NotPython(f"is not valid Python: {str(error)[:_LONGEST]}") from error
    try:
        cells = json.loads(source)["cells"]
        written = [(n, cell["source"]) for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code"]
        texts = [(n, "".join(text)) for n, text in written]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotPython("is not a notebook that can be read") from error
    return [(f"{path} cell {n}", _plain_python(text)) for n, text in texts]


def _plain_python(cell: str) -> str:
    """A cell without %magics and !commands; of a cell in another language, nothing."""
    if re.match(r"\s*%%(?!time|capture)", cell):
        return ""
    return re.sub(r"^(\s*)(?:[%!?].*|[\w.]+\?+\s*)$", r"\1pass", cell, flags=re.MULTILINE)


def _compiled(path: str, name: str, text: str) -> CodeType:
    if not path.endswith(".ipynb"):
        return compile(text, name, "exec")
    tree = ast.parse(text, name)
    tree.body = [one for one in tree.body if not _mentions_firth(one)]
    return compile(tree, name, "exec")


def _mentions_firth(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    names = [one.id for one in ast.walk(statement) if isinstance(one, ast.Name)]
    if isinstance(statement, ast.Import):
        names += [alias.name.partition(".")[0] for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        names.append((statement.module or "").partition(".")[0])
    return "firth" in names


def _run_file(path: str, source: bytes, names: dict[str, Any]) -> dict[str, Any] | None:
    """Run a file in these names; the reason if that failed. Of a notebook, a cell that fails does not stop the others."""
    try:
        written = parts(source, path)
    except NotPython as error:
        return {"syntax": str(error)}
    failed = None
    for name, text in written:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            exec(_compiled(path, name, text), names)
        except BaseException as error:
            syntax = isinstance(error, SyntaxError) and error.filename == name
            failed = failed or ({"syntax": _where(error, path)} if syntax else {"raised": raised(error, path)})
            if not path.endswith(".ipynb"):
                break
    return failed


def _where(error: Any, path: str) -> str:
    cell = str(error.filename).removeprefix(path).strip()
    return f"is not valid Python{', ' + cell if cell else ''}, line {error.lineno}: {str(error.msg)[:_LONGEST]}"


def _serve(request: dict[str, Any], answers: TextIO) -> None:
    path, name, guard = request["path"], request["function"], _Guard(request["walls"])
    source = Path(path).read_bytes()
    if re.search(rb"\btorch\b", source):  # so that its import does not count as the student's time and memory
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)
    sys.meta_path.insert(0, guard)
    _limit(request["memory"], request["processor_seconds"])
    sys.addaudithook(guard.audit)
    sys.path.insert(0, os.path.dirname(path))  # from here on, what is imported may be the student's
    _answer(answers, ready=True)
    module = type(sys)("exercise")
    module.__dict__["__file__"] = path
    sys.modules["exercise"] = module
    failed = _run_file(path, source, module.__dict__)
    function = getattr(module, name, None)
    if guard.asked:
        _answer(answers, stopped={"forbidden": guard.asked})
        return
    if not callable(function) or (failed and not path.endswith(".ipynb")):
        _answer(answers, stopped=failed or {"missing": name})
        return
    for outcome in outcomes(function, [[decoded(one) for one in case] for case in request["cases"]], path):
        if guard.asked:
            break
        _answer(answers, **outcome)
    if guard.asked:
        _answer(answers, stopped={"forbidden": guard.asked})


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
