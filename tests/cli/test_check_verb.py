"""`firth exercise` and `firth check`: files of students, in processes with limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from shell import Firth

from firth.experiments.exercises import child, student_process
from firth.experiments.exercises.catalog import EXERCISES

RIGHT = """
import numpy as np
def softmax(s_RK):
    p = np.exp(s_RK - s_RK.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)
"""


class Checker:
    """Writes a file and checks it."""

    def __init__(self, firth: Firth, folder: Path) -> None:
        self._firth, self.path, self.code = firth, folder / "mine.py", 0

    def __call__(self, source: str, *arguments: str) -> list[dict[str, Any]]:
        self.path.write_text(source, encoding="utf-8")
        answer = self._firth("check", self.path, "--json", *arguments)
        self.code = answer.code
        return json.loads(answer.out) if answer.out else [{"error": answer.err}]


@pytest.fixture
def checked(firth: Firth, tmp_path: Path) -> Checker:
    return Checker(firth, tmp_path)


def test_a_stub_is_written_checked_and_never_replaced(firth: Firth, tmp_path: Path) -> None:
    listed = firth("exercise").out
    assert [line.split()[0] for line in listed.splitlines()] == [one.name for one in EXERCISES]
    path = tmp_path / "mine.py"
    assert firth("exercise", "softmax", "--out", path).code == 0
    assert path.read_text(encoding="utf-8") == firth("exercise", "softmax").out
    refused = firth("exercise", "softmax", "--out", path, "--torch")
    assert (refused.code, "--overwrite" in refused.err) == (2, True)
    assert firth("exercise", "softmax", "--out", path, "--torch", "--overwrite").code == 0
    assert "torch.Tensor" in path.read_text(encoding="utf-8")
    for wrong in (["--out", path], ["--torch"], ["--overwrite"], ["softmax", "--overwrite"], ["sofmax"]):
        assert firth("exercise", *wrong).code == 2, wrong


def test_all_functions_of_a_file_are_checked_and_the_mistake_is_named(firth: Firth, checked: Checker) -> None:
    right, wrong = checked(RIGHT + "def cosine(a, b):\n    print('hello')\n    return float(a @ b)\n")
    assert (checked.code, right["passed"], wrong["kind"]) == (1, True, "value")
    assert wrong["mistake"] == "the dot product, without the division by the lengths"
    assert wrong["printed"].startswith("hello\n")
    assert wrong["arguments"] == {"a_d": [3.0, 4.0], "b_d": [4.0, 3.0]}
    answer = firth("check", checked.path, "softmax")
    assert (answer.code, answer.out) == (0, "softmax: right. It agrees with the oracle on 8 inputs.\n")


def test_a_process_that_does_not_start_is_no_mistake_of_the_student(checked: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "__file__", str(checked.path.parent / "absent.py"))
    [answer] = checked(RIGHT)
    assert (checked.code, "did not start: " in answer["error"], "absent.py" in answer["error"]) == (2, True, True)


def test_a_file_that_is_too_large_is_refused(checked: Checker) -> None:
    [answer] = checked("#" * 1_000_001)
    assert (checked.code, "1,000,001 bytes" in answer["error"]) == (2, True)


def test_a_file_that_is_not_python_or_has_no_exercise_says_so(checked: Checker) -> None:
    [syntax] = checked("def softmax(s):\n    return s +\n")
    assert (checked.code, syntax["kind"], syntax["message"]) == (
        1, "syntax", "mine.py is not valid Python, line 2: invalid syntax.",
    )  # fmt: skip
    [none] = checked("def sofmax(s):\n    return s\n")
    assert (checked.code, 'Did you mean "softmax"?' in none["error"]) == (2, True)
    [unknown] = checked(RIGHT, "sofmax")
    assert (checked.code, 'Did you mean "softmax"?' in unknown["error"]) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("def softmax(s):\n    while True: pass", "timeout", "It did not finish within 2 seconds."),
        ("while True: pass\ndef softmax(s): pass", "timeout", "It did not finish within 2 seconds."),
        ("import time\ndef softmax(s):\n    time.sleep(60)", "timeout", "It did not finish within 2 seconds."),
        ("def softmax(s):\n    while True: print('x' * 1000)", "timeout", "It did not finish within 2 seconds."),
        ("def softmax(s):\n    return softmax(s)", "exception", "It raises RecursionError"),
        ("import os\ndef softmax(s):\n    os._exit(3)", "crash", "It ended the process (exit status 3)."),
        ("import ctypes\ndef softmax(s):\n    ctypes.string_at(0)", "crash", "It ended the process (SIGSEGV)."),
        ("def softmax(s):\n    raise SystemExit", "exception", "It raises SystemExit."),
        ("def softmax(s):\n    return input()", "exception", "It raises EOFError"),
        ("from firth.oracles.attention import softmax", "forbidden", "It imports firth, which has the solution"),
        ("def softmax(s):\n    import firth.oracles", "forbidden", "It imports firth,"),
        ("try:\n    import firth.layers\nexcept ImportError: pass\n" + RIGHT, "forbidden", "It imports firth,"),
        ("import importlib\ndef softmax(s):\n    try: importlib.import_module('firth')\n    except ImportError: return s",
         "forbidden", "It imports firth,"),
        ("import os\ndef softmax(s):\n    for n in range(3, 9):\n        try: os.write(n, b'3\\n')\n        except OSError: pass",
         "crash", "It ended the process"),
        ("softmax = 3", "missing", "mine.py defines no function softmax."),
        ("1 / 0\n" + RIGHT, "exception", "mine.py cannot be run. It raises ZeroDivisionError: division by zero."),
        ("import socket\ndef softmax(s):\n    socket.create_connection(('::1', 9))", "exception", "It raises PermissionError"),
        ("import subprocess\ndef softmax(s):\n    subprocess.run(['true'])", "exception", "It raises PermissionError"),
        ("import os\ndef softmax(s):\n    os.fork()", "exception", "It raises PermissionError"),
        ("def softmax(s):\n    open('here.txt', 'w')", "exception", "It raises PermissionError"),
        ("import os\ndef softmax(s):\n    os.remove(__file__)", "exception", "It raises PermissionError"),
        ("def softmax(s):\n    s += 1\n    return s", "changed", "It changes its argument s_RK in place; work on a copy."),
        ("def softmax(s):\n    return s.shape", "type", "expected an array"),
    ],
)  # fmt: skip
def test_what_a_function_may_not_do_has_its_own_verdict(checked: Checker, source: str, kind: str, message: str) -> None:
    [verdict] = checked(source, "softmax", "--seconds", "2" if kind == "timeout" else "60")
    assert (checked.code, verdict["kind"]) == (1, kind), verdict
    assert message in verdict["message"]
    assert len(verdict["printed"]) <= student_process.OUTPUT
    assert sorted(path.name for path in checked.path.parent.iterdir()) == ["mine.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit the processor time of a process")
def test_an_endless_loop_ends_even_if_the_process_that_waits_for_it_is_killed(checked: Checker) -> None:
    """The system ends it, after its own time and a minute more."""
    source = "import resource\ndef softmax(s):\n    raise ValueError(resource.getrlimit(resource.RLIMIT_CPU))"
    [verdict] = checked(source, "softmax", "--seconds", "40")
    assert "ValueError: (100, 100)" in verdict["message"]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
@pytest.mark.parametrize("tensors", [False, True])
def test_a_memory_bomb_ends_with_its_own_verdict(checked: Checker, tensors: bool) -> None:
    """3 GiB that nobody would notice, because they are never written to."""
    numpy_bomb = "import numpy as np\ndef softmax(s):\n    return np.empty(3 << 27)"
    torch_bomb = "import torch\ndef softmax(s: torch.Tensor):\n    return torch.empty(3 << 27, dtype=s.dtype)"
    [verdict] = checked(torch_bomb if tensors else numpy_bomb, "softmax", "--seconds", "60")
    assert (checked.code, verdict["kind"]) == (1, "memory"), verdict


@pytest.mark.long
def test_files_beside_the_students_and_torch_can_be_imported(checked: Checker) -> None:
    (checked.path.parent / "helper.py").write_text("def probabilities(s):\n    return s.softmax(-1)\n")
    [verdict] = checked(
        "import torch\nfrom helper import probabilities\ndef softmax(s: torch.Tensor):\n    return probabilities(s)"
    )
    assert verdict["passed"], verdict
    assert {path.name for path in checked.path.parent.iterdir()} == {"mine.py", "helper.py"}


@pytest.mark.long
def test_the_traceback_has_the_lines_of_the_student(firth: Firth, checked: Checker) -> None:
    [verdict] = checked("def inner(s):\n    return s[99]\ndef softmax(s):\n    return inner(s)\n")
    assert verdict["traceback"] == ["line 4, in softmax: return inner(s)", "line 2, in inner: return s[99]"]
    assert "    line 2, in inner: return s[99]\n" in firth("check", checked.path).out


@pytest.mark.long
@pytest.mark.parametrize("style", ["loops", "numpy"])
def test_right_programs_are_right_in_processes_of_their_own_too(firth: Firth, style: str) -> None:
    path = Path(__file__).parent.parent / "experiments" / f"solved_in_{style}.py"
    answer = firth("check", path, "--json", "--seconds", "120")
    assert not answer.err
    assert [one["exercise"] for one in json.loads(answer.out) if not one["passed"]] == []
    assert answer.code == 0
    assert len(json.loads(answer.out)) == len(EXERCISES)


def notebook(*cells: str) -> str:
    written = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["# Mine"]}, *written]})


def test_the_functions_of_a_notebook_are_checked_although_other_cells_fail(firth: Firth, tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    path.write_text(
        notebook(
            "%matplotlib inline\n!ls\nimport numpy as np\nimport firth\nnp.exp?\n",
            "%%bash\nexit 1\n",
            "1 / 0\n",
            RIGHT + "verdict = firth.check(softmax)\nassert verdict.passed, verdict\n",
            "def cosine(a, b):\n    return helper(a)\n",
        ),
        encoding="utf-8",
    )
    answer = firth("check", path, "--json")
    right, wrong = json.loads(answer.out)
    assert (right["exercise"], right["passed"], answer.code) == ("softmax", True, 1), right
    assert wrong["traceback"] == ["cell 6, line 2, in cosine: return helper(a)"]
    path.write_text(notebook("def softmax(s):\n    return s +\n"), encoding="utf-8")
    [syntax] = json.loads(firth("check", path, "softmax", "--json").out)
    assert (syntax["kind"], syntax["message"]) == (
        "syntax", "mine.ipynb is not valid Python, cell 2, line 2: invalid syntax.",
    )  # fmt: skip
    path.write_text('{"cells": 3}', encoding="utf-8")
    [none] = json.loads(firth("check", path, "softmax", "--json").out)
    assert (none["kind"], none["message"]) == ("syntax", "mine.ipynb is not a notebook that can be read.")
