"""A class that answers the questions of a lesson: one question at a time, one answer for each student, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from firth.errors import ConfigError
from firth.serving.lab import classroom as module
from firth.serving.lab.app import build
from firth.serving.lab.classroom import Classroom, build_classroom
from firth.serving.lab.library import RunLibrary


@pytest.fixture
def room() -> Classroom:
    room = Classroom()
    room.ask("1 + 1?", ["2", "3"])
    return room


def student(room: Classroom) -> TestClient:
    return TestClient(build_classroom(room), base_url="http://192.168.1.5:8422")


def answered(client: TestClient, room: Classroom, option: int, **more: Any) -> Any:
    given = {"code": room.code, "student": "student-1", "number": 1, "option": option}
    return client.post("/api/answer", json={**given, **more})


def test_the_last_answer_of_each_student_counts(room: Classroom) -> None:
    client = student(room)
    assert answered(client, room, 1).json()["chosen"] == 1
    assert answered(client, room, 0).json()["chosen"] == 0
    assert answered(client, room, 1, student="student-2").status_code == 200
    assert room.counts() == [1, 1]


def test_a_new_question_begins_without_answers_and_the_same_one_keeps_them(room: Classroom) -> None:
    room.answer("student-1", 1, 0)
    room.ask("1 + 1?", ["2", "3"])
    assert room.counts() == [1, 0]
    room.ask("2 + 2?", ["4", "5", "6"])
    assert room.counts() == [0, 0, 0]
    late = answered(student(room), room, 0)
    assert late.status_code == 409
    assert "over" in late.json()["error"]


def test_without_the_code_nothing_is_shown_or_counted(room: Classroom) -> None:
    client = student(room)
    assert client.get("/api/question", params={"code": "AAAAAA"}).status_code == 403
    assert answered(client, room, 0, code="").status_code == 403
    assert room.counts() == [0, 0]
    assert client.get("/api/question", params={"code": room.code.lower()}).json()["question"] == "1 + 1?"


@pytest.mark.parametrize("given", [{"option": 2}, {"option": -1}, {"number": 0}])
def test_an_answer_that_is_none_is_refused(room: Classroom, given: dict[str, Any]) -> None:
    assert answered(student(room), room, **{"option": 0, **given}).status_code == 409
    assert room.counts() == [0, 0]


def test_a_class_has_a_largest_size(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STUDENTS", 2)
    room.answer("student-1", 1, 0)
    room.answer("student-2", 1, 0)
    with pytest.raises(ConfigError, match="no more can join"):
        room.answer("student-3", 1, 0)
    room.answer("student-2", 1, 1)
    assert room.counts() == [1, 1]


def test_students_reach_the_question_and_no_part_of_the_lab(room: Classroom) -> None:
    client = student(room)
    assert "Join" in client.get("/").text
    assert client.get("/join.js").status_code == client.get("/style.css").status_code == 200
    for path in ("/api/lab", "/plotly.js", "/page/app.js", "/openapi.json", "/docs"):
        assert client.get(path).status_code == 404
    assert "default-src 'self'" in client.get("/").headers["content-security-policy"]


def test_the_lab_without_a_class_says_how_to_let_one_join() -> None:
    client = TestClient(build(RunLibrary()), base_url="http://127.0.0.1:8421")
    told = client.post("/api/lesson/answers", json={"question": "?", "options": ["a", "b"]}).text
    assert "firth lab --classroom" in told


def test_the_lab_puts_the_question_and_counts_the_answers() -> None:
    library = RunLibrary()
    library.classroom = Classroom()
    client = TestClient(build(library), base_url="http://127.0.0.1:8421")
    asked = {"question": "1 + 1?", "options": ["2", "3"]}
    assert '"counts": [0, 0]' in client.post("/api/lesson/answers", json=asked).text
    library.classroom.answer("student-1", 1, 0)
    assert '"counts": [1, 0]' in client.post("/api/lesson/answers", json=asked).text
