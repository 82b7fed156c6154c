"""Assignments: what is handed out has no secret, what is handed in cannot cheat, and the grade is that of hidden inputs."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import solved_in_numpy

import firth
from firth.errors import ConfigError
from firth.experiments.assignments import gradescope
from firth.experiments.assignments.assignment import Assignment, GradedExercise, assignment_of, read_assignment
from firth.experiments.assignments.grade import grade_folder
from firth.experiments.assignments.keys import keys_of, read_keys
from firth.experiments.assignments.make import Form, MadeAssignment, make_assignment
from firth.experiments.assignments.report import EntryResult, GradedAnswer, GradeReport, StudentGrade
from firth.experiments.assignments.submissions import BadSubmission, Submission, staged, submissions_in
from firth.experiments.exercises.catalog import NAMES, find_exercise
from firth.experiments.exercises.judge import hidden_cases
from firth.experiments.exercises.student_process import Walls, as_user
from firth.experiments.exercises.verdict import ExerciseVerdict

SECRET = "correct horse battery"
FORMS: tuple[Form, ...] = ("py", "notebook", "nbgrader", "otter")
ASSIGNMENT = assignment_of("week05", "softmax,bleu,multi_head", "2,1.5,3")
RIGHT = """
import numpy as np
def softmax(s_RK):
    p = np.exp(s_RK - s_RK.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def made(folder: Path, form: Form = "py", secret: str = SECRET, assignment: Assignment = ASSIGNMENT) -> MadeAssignment:
    return make_assignment(assignment, secret, folder, form)


# Keys


def test_keys_follow_from_the_secret_the_assignment_and_the_exercise() -> None:
    keys = keys_of(ASSIGNMENT, SECRET)
    assert keys == keys_of(ASSIGNMENT, SECRET)
    others = [keys_of(ASSIGNMENT, "another secret"), keys_of(assignment_of("week06", "softmax,bleu,multi_head", None), SECRET)]
    every = [key for table in (keys, *others) for key in table.values()]
    assert len(set(every)) == 9
    assert all(len(key) == 64 for key in every)
    # printf 'firth assignment\\0week05\\0softmax' | openssl dgst -sha256 -hmac "correct horse battery"
    assert keys["softmax"] == "834bb3cdd4e6296ffc9ac4037ad39031268af06611d002d01bfa277e584adf73"
    with pytest.raises(ConfigError, match="has 5 characters"):
        keys_of(ASSIGNMENT, "short")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"softmax": 3}', '{"softmax": "xyz"}'])
def test_damaged_keys_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ConfigError, match="keys"):
        read_keys(tmp_path / "keys.json", assignment_of("a", "softmax", None))


# What is written


@pytest.mark.parametrize("form", FORMS)
def test_the_students_folder_has_neither_the_secret_nor_a_key(form: Form, tmp_path: Path) -> None:
    one = made(tmp_path / "one", form)
    keys = keys_of(ASSIGNMENT, SECRET).values()
    for name, content in contents(one.student).items():
        assert not [word for word in (SECRET, *keys, "HIDDEN", "key=") if word.encode() in content], name
    grader = b"".join(contents(one.grader).values())
    assert all(key.encode() in grader for key in keys)
    assert SECRET.encode() not in grader
    if os.name == "posix":
        assert (one.grader / "keys.json").stat().st_mode & 0o77 == 0
        assert (one.grader / "run_autograder").stat().st_mode & 0o111


@pytest.mark.parametrize("form", FORMS)
def test_the_same_secret_writes_the_same_bytes_and_another_changes_the_grader_alone(form: Form, tmp_path: Path) -> None:
    folders = [made(tmp_path / str(n), form, secret) for n, secret in enumerate((SECRET, SECRET, "another secret"))]
    first, again, other = [(contents(one.student), contents(one.grader)) for one in folders]
    assert first == again
    assert first[0] == other[0]
    assert first[1] != other[1]


@pytest.mark.parametrize("torch", [False, True])
def test_stubs_of_all_exercises_are_one_python_file(torch: bool, tmp_path: Path) -> None:
    one = make_assignment(assignment_of("all", ",".join(NAMES), None), SECRET, tmp_path / "all", "py", torch)
    source = (one.student / "all.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(source, "all.py", "exec"), names)
    assert all(firth.check(names[name]).message == "It raises NotImplementedError." for name in NAMES)
    assert ("torch.Tensor" in source) == torch
    assert "\n\n\n\n" not in source
    readme = (one.student / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in readme for name in NAMES)
    assert max(map(len, source.splitlines())) <= 140


def test_a_file_that_is_no_assignment_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    with pytest.raises(ConfigError, match=r"empty\.toml: \"name\" is missing"):
        read_assignment(path)


def test_an_assignment_is_read_again_from_its_file(tmp_path: Path) -> None:
    one = made(tmp_path / "one")
    assert read_assignment(one.grader / "assignment.toml") == ASSIGNMENT
    assert (ASSIGNMENT.points, one.file) == (6.5, "week05.py")


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="not an empty folder"):
        made(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: assignment_of("../x", "softmax", None), "cannot be called"),
        (lambda: assignment_of("x", "sofmax", None), 'Did you mean "softmax"'),
        (lambda: assignment_of("x", "softmax,softmax", None), "listed twice"),
        (lambda: assignment_of("x", "softmax,bleu", "1"), "2 exercises, but 1 points"),
        (lambda: assignment_of("x", "softmax", "many"), '"many" is no number'),
        (lambda: assignment_of("x", "softmax", "-1"), "expected more than 0"),
        (lambda: assignment_of("x", "softmax", "nan"), "expected more than 0"),
        (lambda: Assignment("x"), "neither exercises nor a competition"),
        (lambda: Assignment("x", (GradedExercise("softmax"),), seconds=0), "seconds is 0"),
    ],
)
def test_a_wrong_assignment_is_refused(change: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        change()


# Notebooks


@pytest.mark.parametrize("form", FORMS[1:])
def test_a_notebook_is_valid_and_its_functions_are_the_stubs(form: Form, tmp_path: Path) -> None:
    one = made(tmp_path / "one", form)
    for path in tmp_path.rglob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        sources = [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.id.endswith("-solution")]
        assert [source.partition("(")[0] for source in sources] == ["def softmax", "def bleu", "def multi_head"]
        assert all("NotImplementedError" in source for source in sources)
    assert (one.student / "week05.ipynb").is_file()


def test_nbgraders_own_validators_accept_the_notebooks_and_release_what_students_get(tmp_path: Path) -> None:
    validators = pytest.importorskip("nbgrader.nbgraderformat", reason="nbgrader is not installed")
    preprocessors = pytest.importorskip("nbgrader.preprocessors", reason="nbgrader is not installed")
    one = made(tmp_path / "one", "nbgrader")
    source = one.grader / "nbgrader" / "source" / "week05" / "week05.ipynb"
    notebook = validators.read(source, as_version=4)
    validators.MetadataValidator().validate_nb(notebook)
    graded = [cell.metadata.nbgrader for cell in notebook.cells if cell.metadata.nbgrader.grade]
    assert [(cell.grade_id, cell.points, cell.locked) for cell in graded] == [
        ("softmax-test", 2, True), ("bleu-test", 1.5, True), ("multi-head-test", 3, True),
    ]  # fmt: skip
    resources: dict[str, Any] = {"metadata": {"path": str(tmp_path)}, "unique_key": "week05", "output_files_dir": "x"}
    for name in (
        "ValidateDuplicates" if hasattr(preprocessors, "ValidateDuplicates") else "LockCells",
        "ClearSolutions",
        "ClearHiddenTests",
    ):
        notebook, resources = getattr(preprocessors, name)().preprocess(notebook, resources)
    student = validators.read(one.student / "week05.ipynb", as_version=4)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in student.cells]
    assert [cell.metadata.nbgrader for cell in notebook.cells] == [cell.metadata.nbgrader for cell in student.cells]


def test_a_right_and_a_wrong_notebook_pass_and_fail_the_cells_of_nbgrader(tmp_path: Path) -> None:
    """The cells that nbgrader runs, run as they are."""
    one = made(tmp_path / "one", "nbgrader", assignment=assignment_of("one", "softmax", None))
    notebook = nbformat.read(one.grader / "nbgrader" / "source" / "one" / "one.ipynb", as_version=4)
    test = next(cell.source for cell in notebook.cells if cell.id == "softmax-test")
    exec(test, {"softmax": solved_in_numpy.softmax})
    with pytest.raises(AssertionError, match="another result") as refused:
        exec(test, {"softmax": memorised("softmax")})
    assert "s_RK" not in str(refused.value)


def otter_outcome(path: Path, function: Any) -> list[bool]:
    ok = pytest.importorskip("otter.test_files.ok_test", reason="otter-grader is not installed")
    test = ok.OKTestFile.from_file(str(path))
    test.run({"softmax": function})
    return [result.passed for result in test.test_case_results]


def test_otter_reads_and_runs_the_test_files(tmp_path: Path) -> None:
    one = made(tmp_path / "one", "otter", assignment=assignment_of("one", "softmax", "2"))
    public, hidden = one.student / "tests" / "softmax.py", one.grader / "otter" / "tests" / "softmax.py"
    assert otter_outcome(public, solved_in_numpy.softmax) == [True]
    assert otter_outcome(hidden, solved_in_numpy.softmax) == [True, True]
    assert otter_outcome(hidden, memorised("softmax")) == [True, False]


def test_an_otter_test_is_a_dictionary_whose_hidden_case_has_all_points(tmp_path: Path) -> None:
    one = made(tmp_path / "one", "otter")
    for folder, points in ((one.student, [2]), (one.grader / "otter", [0, 2])):
        names: dict[str, Any] = {}
        exec((folder / "tests" / "softmax.py").read_text(encoding="utf-8"), names)
        cases = names["test"]["suites"][0]["cases"]
        assert names["OK_FORMAT"] is True
        assert [case["points"] for case in cases] == points
        assert [case["hidden"] for case in cases] == [False, True][: len(cases)]


# Hidden inputs


def memorised(name: str) -> Callable[..., Any]:
    """A program that knows the public inputs alone."""
    exercise = find_exercise(name)
    known = {str(case): exercise.expected(case) for case in exercise.cases()}
    return lambda *case: known.get(str(case), 0 * next(iter(known.values())))


@pytest.mark.parametrize("name", ["softmax", "attention", "perplexity"])
def test_a_program_that_knows_the_public_inputs_passes_the_check_and_fails_the_grade(name: str) -> None:
    program, key = memorised(name), keys_of(assignment_of("x", name, None), SECRET)[name]
    assert firth.check(program, name).passed
    verdict = firth.check(program, name, key=key)
    assert (verdict.passed, verdict.inputs) == (False, len(hidden_cases(find_exercise(name), key)))
    assert firth.check(getattr(solved_in_numpy, name), name, key=key).passed


def test_a_verdict_on_hidden_inputs_shows_none_of_them_and_still_names_the_mistake() -> None:
    def tells(s_RK: Any) -> Any:
        print(s_RK)
        raise ValueError(str(s_RK))

    verdict = firth.check(tells, "softmax", key="ab" * 32)
    assert (verdict.kind, verdict.message, verdict.arguments, verdict.traceback) == (
        "exception",
        "It raises an exception.",
        {},
        (),
    )
    named = firth.check(find_exercise("softmax").wrong[1].program, "softmax", key="ab" * 32)
    assert named.message.startswith("Your result equals a softmax over the rows")
    assert "\n" not in named.text()
    with pytest.raises(ConfigError, match="hexadecimal"):
        firth.check(tells, "softmax", key="not a key")


# What is handed in


def problem(path: Path, tmp_path: Path) -> str:
    to = tmp_path / "staged"
    to.mkdir()
    with pytest.raises(BadSubmission) as refused:
        staged(Submission("ann", path), "week05", to)
    return str(refused.value)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


def in_folder(path: Path, *names: str) -> None:
    path.mkdir(parents=True)
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("x = 1\n")


def linked(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def many(path: Path) -> None:
    path.mkdir()
    for number in range(2001):
        (path / f"{number}.txt").touch()


@pytest.mark.skipif(sys.platform == "win32", reason="links and named pipes of POSIX")
@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("a.py", large, "has 104,857,600 bytes; at most 1,000,000"),
        ("a.ipynb", large, "has 104,857,600 bytes; at most 10,000,000"),
        ("a.py", linked, "is a link"),
        ("a.py", os.mkfifo if hasattr(os, "mkfifo") else large, "is not a plain file"),
        ("a.zip", lambda path: zipfile.ZipFile(path, "w").close(), "It is an archive"),
        ("a.pdf", Path.touch, "neither a .py nor an .ipynb"),
        ("a", Path.mkdir, "There is no .py or .ipynb file."),
        ("a", lambda path: in_folder(path, "mine.zip"), "mine.zip is an archive"),
        ("a", lambda path: in_folder(path, "one.py", "two.py"), "Several files could be meant (one.py, two.py)"),
        ("a", lambda path: in_folder(path, "week05.py", "week05.ipynb"), "Several files could be meant"),
        ("a", many, "more than 2,000 files"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_submission_has_a_clear_reason_before_it_is_read(
    name: str, write: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    write(path)
    assert message in problem(path, tmp_path)


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "week05.py").write_text("secret")
    folder = tmp_path / "ann"
    folder.mkdir()
    (folder / "there").symlink_to(tmp_path / "secret")
    assert "There is no .py" in problem(folder, tmp_path)
    (folder / "week05.py").symlink_to(tmp_path / "secret" / "week05.py")
    to = tmp_path / "again"
    to.mkdir()
    with pytest.raises(BadSubmission, match="is a link"):
        staged(Submission("ann", folder), "week05", to)


def test_the_file_of_the_assignment_is_chosen_and_its_neighbours_come_along(tmp_path: Path) -> None:
    folder, to = tmp_path / "ann", tmp_path / "to"
    in_folder(folder, "inner/week05.py", "inner/helper.py", "old.py", "inner/notes.txt", "__MACOSX/week05.py", ".hidden.py")
    to.mkdir()
    assert staged(Submission("ann", folder), "week05", to).name == "week05.py"
    assert sorted(path.name for path in to.iterdir()) == ["helper.py", "week05.py"]


def test_students_are_sorted_and_told_apart(tmp_path: Path) -> None:
    for name in ("zoe.py", "ann.py", "ann.ipynb", ".DS_Store", "bad\x1b[2J.py"):
        (tmp_path / name).touch()
    assert [one.student for one in submissions_in(tmp_path)] == ["ann.ipynb", "ann.py", "bad�[2J", "zoe"]


# Grading


@pytest.fixture
def grader(tmp_path: Path) -> Path:
    return made(tmp_path / "made", assignment=Assignment("week05", (GradedExercise("softmax", 2.0),), seconds=20)).grader


def test_a_class_is_graded_by_hidden_inputs_in_the_order_of_names(grader: Path, tmp_path: Path) -> None:
    special = RIGHT + "right = softmax\ndef softmax(s):\n    return right(s) if len(s) < 5 else s\n"
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "ann.py").write_text(RIGHT)
    (folder / "zoe.py").write_text(special)
    report = grade_folder(folder, grader, jobs=2)
    assert [(one.student, one.points, one.verdict()) for one in report.grades] == [
        ("ann", 2.0, "right"), ("zoe", 0.0, "softmax: value (hidden)"),
    ]  # fmt: skip
    assert "right for the public ones. It gives another result than the equation." in report.text()
    assert "s_RK" not in report.text()
    shown = GradeReport(report.assignment, report.grades, show_inputs=True)
    assert "s_RK = [[" in shown.text()
    assert "s_RK" not in json.dumps(report.facts())
    assert "s_RK" in json.dumps(shown.facts())


HOSTILE = {
    "a_reads_keys.py": ("def softmax(s): return s\nopen({keys!r}).read()", "forbidden"),
    "b_catches.py": ("try: open({keys!r})\nexcept Exception: pass\n" + RIGHT, "forbidden"),
    "c_lists.py": ("import os\ndef softmax(s): return os.listdir({grader!r})", "forbidden"),
    "d_others.py": ("def softmax(s): return open({folder!r} + '/z_right.py').read()", "forbidden"),
    "e_imports.py": ("def softmax(s):\n    from firth.oracles.attention import softmax as f\n    return f(s)", "forbidden"),
    "f_finder.py": (
        "import sys\nsys.meta_path[:] = sys.meta_path[1:]\ndef softmax(s):\n    import firth.oracles.attention\n    return s",
        "forbidden",
    ),
    "g_source.py": ("def softmax(s): return open({source!r}).read()", "forbidden"),
    "h_loops.py": ("def softmax(s):\n    while True: pass", "timeout"),
    "i_prints.py": ("def softmax(s):\n    while True: print('x' * 999)", "timeout"),
    "j_exits.py": ("import os\nos._exit(0)", "crash"),
    "k_memory.py": ("import numpy as np\ndef softmax(s): return np.ones(3 << 27)", "memory"),
    "l_syntax.py": ("def softmax(s:", "syntax"),
    "m_broken.ipynb": ('{{"cells": [', "syntax"),
    "n_deep.ipynb": ("[" * 100_000, "syntax"),
    "o_shadows.py": ("import numpy\n1 / 0", "exception"),
    "p_forges.py": (
        "import os\ndef softmax(s):\n    for n in range(3, 9):\n        try: os.write(n, b'{{\"value\": 3}}\\n' * 99)\n"
        "        except OSError: pass\n    return s",
        "type",
    ),
    "q_environment.py": ("def softmax(s): return open('/proc/self/environ').read()", "exception"),
    "r_none.py": ("", "missing"),
    "z_right.py": (RIGHT, "right"),
}


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_hostile_submissions_get_their_verdicts_and_stop_nobody(grader: Path, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    toml = grader / "assignment.toml"
    toml.write_text(toml.read_text().replace("seconds = 20", "seconds = 5"))
    places = {"keys": str(grader / "keys.json"), "grader": str(grader), "folder": str(folder)}
    places["source"] = str(Path(str(firth.__file__)).parent / "oracles" / "attention.py")
    for name, (source, _) in HOSTILE.items():
        (folder / name).write_text(source.format(**places) if "{" in source and name[0] not in "n" else source)
    before = contents(tmp_path)
    report = grade_folder(folder, grader, jobs=2)
    assert {one.student: one.answers[0].kind for one in report.grades} == {
        name.partition(".")[0]: kind for name, (_, kind) in HOSTILE.items()
    }
    assert [one.points for one in report.grades] == [0.0] * (len(HOSTILE) - 1) + [2.0]
    assert contents(tmp_path) == before
    assert json.loads((grader / "keys.json").read_text())["softmax"] not in report.text()


@pytest.mark.long
def test_a_module_beside_the_file_cannot_run_before_its_limits(grader: Path, tmp_path: Path) -> None:
    """torch imports typing_extensions, and the student's folder has one."""
    folder = tmp_path / "class"
    in_folder(folder / "ann", "week05.py")
    (folder / "ann" / "week05.py").write_text("import torch\n" + RIGHT)
    for name in ("typing_extensions", "sympy", "networkx", "numpy"):
        (folder / "ann" / f"{name}.py").write_text("import time\ntime.sleep(600)")
    report = grade_folder(folder, grader)
    assert report.grades[0].verdict() == "right"


@pytest.mark.skipif(sys.platform == "win32" or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_process_of_another_user_has_neither_its_rights_nor_its_groups() -> None:
    import subprocess

    told = subprocess.run(["/usr/bin/id"], capture_output=True, text=True, check=True, cwd="/", **as_user("nobody")).stdout
    assert "uid=65534(nobody)" in told
    assert "root" not in told
    assert as_user(None) == {}
    assert Walls({}).user is None


# Reports


def graded(student: str, kind: Any = "right", mistake: str | None = None, points: float = 2.0) -> StudentGrade:
    verdict = ExerciseVerdict("softmax", kind, f"Your result equals {mistake}." if mistake else "Told.", mistake=mistake)
    return StudentGrade(student, (GradedAnswer("softmax", points if verdict.passed else 0.0, points, verdict, hidden=True),))


def test_no_cell_of_the_csv_file_is_a_formula() -> None:
    names = ["=1+1", "+x", "-x", "@x", "ann"]
    report = GradeReport(assignment_of("x", "softmax", "2"), tuple(map(graded, names)))
    assert [line.split(",")[0] for line in report.csv().splitlines()] == ["student", "'=1+1", "'+x", "'-x", "'@x", "ann"]
    assert report.csv().splitlines()[-1] == "ann,2,2,right,"


def test_the_table_has_one_row_per_student() -> None:
    report = GradeReport(
        assignment_of("x", "softmax", "2"), (graded("ann"), graded("bob", "value", "the logarithm of the softmax"))
    )
    assert report.tables().splitlines() == [
        "student  points  softmax  verdict",
        "ann           2        2  right",
        "bob           0        0  softmax: the logarithm of the softmax (hidden)",
    ]


def test_results_have_the_form_that_gradescope_documents() -> None:
    """Fields and values of https://gradescope-autograders.readthedocs.io/en/latest/specs/."""
    entry = EntryResult("ann", None, 1.25, 60.0, 1000, 2000, 3.0)
    results = gradescope.results(graded("ann"), entry, show_inputs=False)
    assert results.keys() <= {
        "score", "execution_time", "output", "output_format", "test_output_format", "test_name_format", "visibility",
        "stdout_visibility", "extra_data", "tests", "leaderboard",
    }  # fmt: skip
    visible = {"hidden", "after_due_date", "after_published", "visible"}
    assert {results["visibility"], results["stdout_visibility"]} <= visible
    [test] = results["tests"]
    assert test.keys() <= {
        "score", "max_score", "status", "name", "name_format", "number", "output", "output_format", "tags", "visibility",
        "extra_data",
    }  # fmt: skip
    assert (test["score"], test["max_score"], test["status"], results["score"]) == (2.0, 2.0, "passed", 2.0)
    assert results["leaderboard"][0] == {"name": "bits per character", "value": 1.25, "order": "asc"}
    wrong = gradescope.results(graded("bob", "value", "the logarithm of the softmax"), None, show_inputs=False)
    assert wrong["tests"][0]["status"] == "failed"
    assert "the logarithm of the softmax" in wrong["tests"][0]["output"]
    assert json.loads(json.dumps(wrong)) == wrong


def test_a_leaderboard_is_sorted_and_refused_entries_come_last() -> None:
    entries = (EntryResult("ann", "too large"), EntryResult("bob", None, 2.0, 9.0, 10), EntryResult("cat", None, 1.0, 4.0, 10))
    report = GradeReport(assignment_of("x", "softmax", None), (), entries)
    assert [(row[0], row[1]) for row in report.leaderboard().rows] == [("1", "cat"), ("2", "bob"), ("–", "ann")]
