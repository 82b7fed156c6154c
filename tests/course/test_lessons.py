"""The lessons: each asks before it tells, ends in three exercises, runs from top to bottom, and opens as a notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from shell import Firth
from test_documentation import Reader, fences

from firth.course.lesson import Lesson, find_lesson, lessons, write_lesson
from firth.errors import ConfigError
from firth.experiments.exercises.catalog import NAMES

LESSONS = lessons()
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])
_TARGET = re.compile(r"\]\(([^)#\s]+)")


def test_there_are_fourteen_lessons_in_order() -> None:
    assert [lesson.number for lesson in LESSONS] == list(range(1, 15))
    assert len({lesson.title for lesson in LESSONS}) == 14


@each_lesson
def test_a_lesson_has_a_title_a_summary_and_a_drawing(lesson: Lesson) -> None:
    assert lesson.text.startswith(f"# {lesson.number}. {lesson.title}\n")
    assert lesson.title
    assert 60 < len(lesson.about) < 500
    assert "![" in lesson.text
    assert any(file.parts[0] == "drawings" for file in lesson.files())


@each_lesson
def test_a_lesson_asks_before_it_tells(lesson: Lesson) -> None:
    questions = [part.partition("```python")[0] for part in lesson.text.split("> **Predict.**")[1:]]
    assert questions
    assert "```python" in lesson.text.split("> **Predict.**")[-1]
    assert all("?" in question for question in questions)


@each_lesson
def test_a_lesson_ends_in_three_exercises_of_which_the_last_is_open(lesson: Lesson) -> None:
    exercises = lesson.text.partition("\n## Exercises\n")[2]
    assert re.findall(r"^(\d)\. ", exercises, re.M) == ["1", "2", "3"]
    assert re.findall(r"^\d\. \*\*Open\.\*\* ", exercises, re.M) == ["3. **Open.** "]
    assert set(re.findall(r"`(?:firth exercise|firth check \S+) (\w+)`", lesson.text)) <= set(NAMES)
    assert "firth lab" in exercises


@each_lesson
def test_whatever_a_lesson_links_to_is_there(lesson: Lesson) -> None:
    assert [target for target in _TARGET.findall(lesson.text) if not (lesson.path.parent / target).is_file()] == []


@each_lesson
def test_a_notebook_has_the_code_of_the_lesson_in_its_cells(lesson: Lesson, tmp_path: Path) -> None:
    path = write_lesson(lesson, tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert cells == [fence.code.rstrip("\n") for fence in fences(lesson.text)]
    assert all((tmp_path / file).is_file() for file in lesson.files())
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert ".md)" not in re.sub(r" \(docs/[\w-]+\.md\)", "", prose), "a link that leads nowhere from the student's folder"


@pytest.mark.long
@each_lesson
def test_a_lesson_runs_from_top_to_bottom(lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(tmp_path)
    monkeypatch.chdir(reader.folder)
    reader.follow(write_lesson(lesson, reader.folder, "markdown"))


@pytest.mark.long
def test_a_notebook_runs_in_jupyter(tmp_path: Path) -> None:
    notebook = nbformat.read(write_lesson(find_lesson(5), tmp_path), as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<svg" in str(output.get("data", {})) for output in outputs), "the drawing is not shown"


def test_the_verb_lists_lessons_and_opens_one(firth: Firth, tmp_path: Path) -> None:
    listed = firth("lesson")
    assert listed.out.splitlines() == [f"{lesson.number:>2}  {lesson.title}" for lesson in LESSONS]
    answer = firth("lesson", 5, "--out", tmp_path, "--json")
    path = Path(json.loads(answer.out)["file"])
    assert path == tmp_path / "05-lstm-and-gru.ipynb"
    assert jupytext.read(path).cells[0].source.startswith("# 5. LSTM and GRU")
    assert [row["lesson"] for row in json.loads(firth("lesson", "--json").out)] == list(range(1, 15))


def test_work_in_a_lesson_is_not_overwritten_unless_asked(firth: Firth, tmp_path: Path) -> None:
    path = write_lesson(find_lesson(5), tmp_path, "markdown")
    path.write_text("my answers", encoding="utf-8")
    refusal = firth("lesson", 5, "--out", tmp_path, "--form", "markdown")
    assert refusal.code == 2
    assert "--overwrite" in refusal.err
    assert path.read_text(encoding="utf-8") == "my answers"
    assert firth("lesson", 5, "--out", tmp_path, "--form", "markdown", "--overwrite").code == 0
    assert path.read_text(encoding="utf-8").startswith("# 5. LSTM")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [((15,), "there is no lesson 15; choose one from 1 to 14"), ((5, "--form", "word"), "choose one of: notebook, markdown"),
     (("--overwrite",), "--overwrite needs the number of a lesson")],
)  # fmt: skip
def test_a_lesson_that_cannot_be_written_is_refused(
    arguments: tuple[object, ...], complaint: str, firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = firth("lesson", *arguments)
    assert answer.code == 2
    assert complaint in answer.err
    assert not list(tmp_path.iterdir())


def test_a_notebook_without_jupytext_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jupytext", None)
    with pytest.raises(ConfigError, match=r'pip install "firth\[course\]"'):
        write_lesson(find_lesson(5), tmp_path)
    assert not list(tmp_path.iterdir())
