"""`firth assignment`: make, grade, and what happens when something goes wrong."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shell import Firth, assert_refused
from tiny_runs import firth_process

RIGHT = """
def bpe_merge(tokens, left, right):
    merged = []
    for token in tokens:
        if merged and (merged[-1], token) == (left, right):
            merged[-1] = (left + right,)
        else:
            merged.append(token)
    return ["".join(token) for token in merged]
"""
SECRET = "a secret of mine"


@pytest.fixture
def week(firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An assignment in the current folder, and an empty folder for submissions beside its graders'."""
    monkeypatch.chdir(tmp_path)
    made = firth("assignment", "make", "week05", "--exercises", "bpe_merge", "--points", "3", "--secret", SECRET)
    assert made.code == 0, made.err
    assert made.out.splitlines()[-1] == "Grade with: firth assignment grade SUBMISSIONS --grader week05/grader"
    (tmp_path / "week05" / "submissions").mkdir()
    return tmp_path / "week05"


def test_what_is_handed_in_is_graded_with_the_graders_folder_beside_it(firth: Firth, week: Path) -> None:
    (week / "submissions" / "ann.py").write_text(RIGHT)
    (week / "submissions" / "bob.txt").write_text("my homework")
    answer = firth("assignment", "grade", week / "submissions", "--csv", week / "grades.csv")
    assert answer.code == 0, answer.err
    assert answer.out == (
        "ann: 3 of 3 points\n  bpe_merge: right. It agrees with the oracle on all public and hidden inputs.\n\n"
        "bob: 0 of 3 points\n  It is neither a .py nor an .ipynb file.\n"
    )
    assert (week / "grades.csv").read_text(encoding="utf-8").splitlines() == [
        "student,points,bpe_merge,bpe_merge verdict,bpe_merge mistake",
        "ann,3,3,right,",
        "bob,0,0,It is neither a .py nor an .ipynb file.,",
    ]
    assert SECRET not in answer.out + answer.err


def test_a_single_submission_is_graded_for_gradescope(firth: Firth, week: Path) -> None:
    folder = week / "submission"
    folder.mkdir()
    (folder / "anything.py").write_text(RIGHT)
    results = week / "results" / "results.json"
    answer = firth("assignment", "grade", folder, "--gradescope", results)
    assert answer.code == 0, answer.err
    table = json.loads(results.read_text(encoding="utf-8"))
    assert (table["score"], [test["status"] for test in table["tests"]]) == (3.0, ["passed"])


def test_a_random_secret_is_drawn_and_never_printed(firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = []
    for name in ("one", "two"):
        answer = firth("assignment", "make", "week05", "--exercises", "softmax", "--out", name, "--json")
        assert json.loads(answer.out)["student"] == f"{name}/student"
        keys.append((tmp_path / name / "grader" / "keys.json").read_text())
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "week06"], "has no exercises"),
        (["make", "week06", "--exercises", "sofmax"], 'Did you mean "softmax"?'),
        (["make", "week06", "--exercises", "softmax", "--secret", "short"], "Choose --secret with at least 8"),
        (["make", "week06", "--exercises", "softmax", "--form", "pdf"], "choose py, notebook, nbgrader or otter"),
        (["make", "week05", "--exercises", "softmax"], "Choose another --out"),
        (["make", "absent.toml"], "cannot read absent.toml"),
        (["make", "week05/grader/assignment.toml", "--exercises", "softmax"], "lists the exercises"),
        (["grade", "absent", "--grader", "week05/grader"], "cannot read absent"),
        (["grade", "week05/submissions"], "submissions is empty"),
        (["grade", "week05/submissions", "--grader", "absent"], "there is no folder absent"),
        (["grade", "week05/submissions", "--grader", "week05/student"], "cannot read week05/student/assignment.toml"),
        (["grade", "week05/submissions", "--csv", "a.txt"], "ends in .csv"),
        (["grade", "week05/submissions", "--table", "--json"], "--table and --json"),
        (["grade", "week05/submissions", "--table", "--show-inputs"], "--show-inputs"),
    ],
)
def test_a_mistake_is_one_line(firth: Firth, week: Path, arguments: list[str], message: str) -> None:
    assert_refused(firth("assignment", *arguments), message)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="scripts for bash")
def test_the_scripts_of_gradescope_grade_a_submission(week: Path, tmp_path: Path) -> None:
    """In a folder in place of /autograder, and with a Python in place of the one that setup.sh installs."""
    place = tmp_path / "autograder"
    shutil.copytree(week / "grader", place / "source")
    for name in ("submission", "results", "venv/bin"):
        (place / name).mkdir(parents=True)
    (place / "submission" / "week05.py").write_text(RIGHT)
    python = place / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    for name in ("setup.sh", "run_autograder"):
        script = place / "source" / name
        script.write_text(script.read_text().replace("/autograder", str(place)))
        subprocess.run(["bash", "-n", script], check=True)
    done = subprocess.run([place / "source" / "run_autograder"], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((place / "results" / "results.json").read_text(encoding="utf-8"))
    assert results["score"] == 3.0
    assert (place / "source").stat().st_mode & 0o77 == 0
    assert "firth==" in (place / "source" / "setup.sh").read_text()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals and /proc of POSIX")
def test_ctrl_c_ends_grading_and_all_of_its_processes(week: Path) -> None:
    for name in ("ann", "bob", "cat"):
        (week / "submissions" / f"{name}.py").write_text(f"# {week}\ndef bpe_merge(*given):\n    while True: pass\n")
    toml = week / "grader" / "assignment.toml"
    toml.write_text(toml.read_text().replace("seconds = 10.0", "seconds = 3000.0"))
    process = firth_process("assignment", "grade", week / "submissions", "--jobs", "2", "--csv", week / "grades.csv")
    until = time.monotonic() + 120
    while len(children(process.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    started = children(process.pid)
    assert len(started) == 2
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert not (week / "grades.csv").exists()


def children(pid: int) -> list[int]:
    return [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]
