"""Lessons of the lab: files that ask before they show, and answers that come from the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firth.errors import ConfigError
from firth.figures.figure import Number
from firth.serving.lab import streaming
from firth.serving.lab.lab_lesson import LessonStep, answers, lesson_files, read_lesson
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import rooms
from firth.serving.lab.rooms.lesson import offered

SHIPPED = list(lesson_files())
HEADINGS = ("query", "at", "key", "at", "weight")
ROWS = [("a", "0", "a", "0", Number(1)), ("b", "1", "a", "0", Number(0.3)), ("b", "1", "b", "1", Number(0.7))]


def silent(what: str, done: int, total: int) -> None:
    pass


def asked(library: RunLibrary, **settings: Any) -> Any:
    return rooms()["lesson"].views["step"](ViewRequest(settings), library, silent)


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(f'title = "Mine"\nabout = "My own."\n{text}', encoding="utf-8")
    return path


def test_the_lessons_stand_in_the_order_of_the_course() -> None:
    assert len(SHIPPED) >= 10
    courses = [read_lesson(path).course for path in lesson_files().values()]
    assert courses == sorted(courses)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_step_of_a_shipped_lesson_shows_a_view_that_exists_and_reads_a_page_that_exists(name: str) -> None:
    lesson = read_lesson(lesson_files()[name])
    for one in lesson.step:
        assert not one.room or one.view in rooms()[one.room].views
    assert (Path(__file__).parents[2] / "docs" / lesson.read).is_file()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_step_that_needs_no_run_can_be_shown(name: str) -> None:
    lesson = read_lesson(lesson_files()[name])
    for number, one in enumerate(lesson.step, 1):
        if one.room in ("", "playground", "describe"):
            seen = asked(RunLibrary(), lesson=name, step=number, shown="true")
            assert len(seen.figures) == bool(one.room)
            assert not one.question or seen.facts["right"] in seen.facts["options"]


def test_the_right_answer_is_the_entry_with_the_largest_number_in_the_chosen_rows() -> None:
    one = LessonStep(says="", room="attention", view="head", question="?", asks="key", where={"query": "b"})
    assert answers(one, HEADINGS, ROWS) == (["a", "b"], "b")
    smallest = LessonStep(says="", room="attention", view="head", question="?", asks="key", where={"at": "1"}, smallest=True)
    assert answers(smallest, HEADINGS, ROWS) == (["a", "b"], "a")


def test_of_many_answers_eight_are_left_in_their_order_and_the_right_one_among_them() -> None:
    rows = [(str(n), Number(-abs(n - 17))) for n in range(40)]
    options, right = answers(LessonStep(says="", room="words", view="x", question="?", asks="word"), ("word", "cosine"), rows)
    assert right == "17"
    assert right in options
    assert len(options) == 8
    assert options == sorted(options, key=int)


def test_the_order_of_a_ranking_does_not_give_the_answer_away() -> None:
    rows = [("tuple", Number(0.9)), ("array", Number(0.5)), ("list", Number(0.2))]
    one = LessonStep(says="", room="words", view="neighbours", question="?", asks="word")
    assert answers(one, ("word", "cosine"), rows) == (["array", "list", "tuple"], "tuple")


def test_rows_without_two_answers_are_refused() -> None:
    one = LessonStep(says="", room="attention", view="head", question="?", asks="key", where={"query": "a"})
    with pytest.raises(ConfigError, match="1 answers where query a"):
        answers(one, HEADINGS, ROWS)


def test_the_figure_and_the_answer_come_only_after_an_answer() -> None:
    library = RunLibrary()
    before = asked(library, lesson="query-key-value", step=2)
    assert not before.figures
    assert not {"right", "because"} & set(before.facts)
    assert before.facts["options"] == ["0.88 and 0.12", "0.54 and 0.46", "1.00 and 0.00"]
    after = asked(library, lesson="query-key-value", step=2, answer="0.54 and 0.46")
    assert list(after.figures) == ["weights"]
    assert (after.facts["right"], after.facts["given"]) == ("0.88 and 0.12", "0.54 and 0.46")
    shown = asked(library, lesson="query-key-value", step=2, shown="true")
    assert list(shown.figures) == ["weights"]
    assert not shown.facts["given"]


def test_facts_of_the_view_are_filled_in_before_the_answer(vectors_file: Path) -> None:
    library = RunLibrary([], [vectors_file])
    before = asked(library, lesson="words", step=3)
    assert "king - man + woman" in before.facts["says"]
    assert "king - man + woman" in before.facts["question"]


def test_nothing_of_a_figure_is_streamed_before_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamics shows its points before its curves are computed."""
    shown = 'says = "Points."\nroom = "dynamics"\nview = "path"\nfigure = "curves"\nsettings = { depth = 2 }\n'
    path = written(tmp_path, f'[[step]]\n{shown}question = "?"\noptions = ["1", "2"]\nanswer = "1"\n')
    monkeypatch.setattr(streaming, "_INTERVAL", 0.0)
    lines: list[str] = []
    progress = streaming.StreamedProgress(lines.append)
    seen = rooms()["lesson"].views["step"](ViewRequest({"lesson": "mine", "step": 1}), RunLibrary(lessons=[path]), progress)
    assert not seen.figures
    assert not [line for line in lines if '"part"' in line]


def test_the_lesson_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    text = page.partition('```toml title="gates-again.toml"\n')[2].partition("```")[0]
    path = tmp_path / "gates-again.toml"
    path.write_text(text, encoding="utf-8")
    assert asked(RunLibrary(lessons=[path]), lesson="gates-again", step=1, answer="all of it").facts["right"] == "nothing"
    assert read_lesson(path).step[1].asks == "token"


def test_the_name_that_was_asked_for_gets_the_weight() -> None:
    seen = asked(RunLibrary(), lesson="query-key-value", step=1, shown="true")
    assert seen.facts["right"] == "Ravi"


def test_a_step_without_its_run_says_what_it_needs() -> None:
    seen = asked(RunLibrary(), lesson="gates", step=2)
    assert seen.facts["lacking"] == {"what": "a run of LSTM", "command": "firth tour"}


def test_a_lesson_of_ones_own_stands_beside_the_shipped_ones(tmp_path: Path) -> None:
    path = written(tmp_path, '[[step]]\nsays = "Two."\nquestion = "1 + 1?"\noptions = ["2", "3"]\nanswer = "2"\n')
    library = RunLibrary(lessons=[path])
    assert [one.value for one in offered(library)["lesson"]] == [*SHIPPED, "mine"]
    assert asked(library, lesson="mine", step=1, answer="3").facts["right"] == "2"


@pytest.mark.parametrize("view", ["lesson/step", "build/train", "build/stop", "walk/whol", "nowhere/step"])
def test_a_view_that_acts_or_is_not_there_or_is_a_lesson_cannot_be_shown(tmp_path: Path, view: str) -> None:
    room, _, name = view.partition("/")
    path = written(
        tmp_path, f'[[step]]\nsays = "x"\nroom = "{room}"\nview = "{name}"\nsettings = {{ lesson = "mine", step = 1 }}\n'
    )
    with pytest.raises(ConfigError, match=f'a lesson cannot show "{view}"'):
        asked(RunLibrary(lessons=[path]), lesson="mine", step=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[step]]\nsays = "x"\nquestion = "?"\n', "either options, or asks"),
        ('[[step]]\nsays = "x"\nquestion = "?"\noptions = ["a"]\nanswer = "b"\n', "not among the options"),
        ('[[step]]\nsays = "x"\nroom = "walk"\n', "a room and a view"),
        ('[[step]]\nsays = "x"\ncolour = "red"\n', "colour"),
        ("step = []\n", "0 steps"),
        ("[[step", "not valid TOML"),
        ("#" * 300_000, "at most 200,000"),
    ],
)
def test_a_file_that_is_no_lesson_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_lesson(written(tmp_path, text))
    assert "mine.toml" in str(refused.value)
