"""Windows, as far as Linux can tell: encodings are named, and what Windows lacks is only used behind a condition."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firth.cli.app import _use_utf8

CHECKOUT = Path(__file__).resolve().parent.parent
SOURCES = sorted((CHECKOUT / "firth").rglob("*.py"))
_OF_FIRTH = ("files", "cache", "sealed", "word2vec_format", "self")  # their read_text and write_text always are UTF-8

# What Windows lacks, and why the place that names it is never reached there.
GUARDED = {
    "experiments/assignments/contest.py": "asks for posix",
    "experiments/assignments/contestant.py": "resource cannot be imported there",
    "experiments/assignments/grade.py": "asks for posix",
    "experiments/clusters/pulse.py": "fcntl is None there",
    "experiments/exercises/child.py": "resource cannot be imported there",
    "experiments/exercises/student_process.py": "asks for posix",
    "serving/http/front.py": "several processes are refused there",
    "serving/http/fronts.py": "several processes are refused there",
    "serving/http/relay.py": "several processes are refused there",
    "serving/http/server.py": "resource cannot be imported there",
    "text/readers/corpus.py": "only for named pipes in the file system, which are not there",
    "text/template_worker.py": "asks for each, and reads /proc",
    "training/folder.py": "fcntl is None there",
    "training/memory.py": "expects an AttributeError",
}


def text_calls_without_encoding(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or any(keyword.arg in ("encoding", None) for keyword in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else None
        keywords = {keyword.arg for keyword in node.keywords}
        if (
            (name in ("read_text", "write_text") and owner is not None and owner not in _OF_FIRTH and len(node.args) < 2)
            or (name == "open" and owner is None and _is_text(node))
            or (name == "open" and isinstance(node.func, ast.Attribute) and not node.args and not owner)
            or (name in ("run", "Popen", "check_output") and "text" in keywords)
        ):
            yield node


def _is_text(call: ast.Call) -> bool:
    modes = [
        node.value for node in (*call.args[1:], *(keyword.value for keyword in call.keywords)) if isinstance(node, ast.Constant)
    ]
    return not any("b" in str(mode) for mode in modes)


def test_every_text_file_names_its_encoding() -> None:
    places = [
        f"{path.relative_to(CHECKOUT)}:{call.lineno}: {ast.unparse(call)}"
        for path in SOURCES
        for call in text_calls_without_encoding(path.read_text(encoding="utf-8"))
    ]
    assert places == []


@pytest.mark.parametrize("code", ["open(x)", "open(x, 'w')", "path.read_text()", "Path(x).write_text(y)", "run(c, text=True)"])
def test_the_check_of_encodings_sees_a_missing_one(code: str) -> None:
    assert list(text_calls_without_encoding(code))
    assert not list(text_calls_without_encoding(code.replace(")", ", encoding='utf-8')").replace("(, ", "(")))


def test_pipes_are_utf8_where_the_system_would_choose_another_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python opens them on Windows."""
    written = io.BytesIO()
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("größer ▁".encode()), encoding="cp1252"))
    _use_utf8()
    print("σ(x) ▁█")
    sys.stdout.flush()
    assert written.getvalue().decode("utf-8") == f"σ(x) ▁█{os.linesep}"
    assert sys.stdin.read() == "größer ▁"


def test_an_encoding_that_was_asked_for_is_kept_and_shows_a_mark_for_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    _use_utf8()
    print("é σ", end="")
    sys.stdout.flush()
    assert written.getvalue() == "é ?".encode("cp1252")


@pytest.mark.long
def test_a_command_prints_utf8_in_a_locale_of_ascii(tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in (("exercise", "gru_cell"), ("draw", "hello"), ("positions", "--length", "3", "--width", "4")):
        done = subprocess.run(
            [sys.executable, "-m", "firth", *command], env=plain | ascii_only, cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode("utf-8")


@pytest.mark.long
def test_what_windows_lacks_is_only_used_behind_a_condition(tmp_path: Path) -> None:
    """mypy knows which names of the standard library are missing there."""
    command = [sys.executable, "-m", "mypy", "--platform", "win32", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, encoding="utf-8", check=False)
    missing = set(re.findall(r"^firth/(\S+?):\d+: error: Module has no attribute", done.stdout, re.MULTILINE))
    assert missing == GUARDED.keys(), done.stdout
