"""What views have computed: kept until it changes, with its warnings, and never half."""

from __future__ import annotations

import threading

import pytest

from firth.progress import silent
from firth.serving.lab import computed, notes
from firth.serving.lab.computed import Computed
from firth.serving.lab.room import Cancelled


def test_a_result_is_kept_until_its_stamp_changes() -> None:
    memory = Computed()
    values = iter((1, 2, 3))
    assert [memory.once("a", lambda: next(values), silent, stamp) for stamp in (5, 5, 6)] == [1, 1, 2]
    assert memory.once("b", lambda: next(values), silent) == 3


def test_what_failed_is_computed_again() -> None:
    memory = Computed()
    for error in (Cancelled, ValueError):
        with pytest.raises(error):
            memory.once("a", lambda: (_ for _ in ()).throw(error()), silent)  # noqa: B023
    assert memory.once("a", lambda: 4, silent) == 4


def test_notes_come_again_with_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_thread", threading.local())
    memory = Computed()
    for _ in range(2):
        notes.begin()
        memory.once("a", lambda: notes.taken().append("an unknown word"), silent)
        assert notes.taken() == ["an unknown word"]


def test_two_requests_for_the_same_compute_it_once_and_the_second_may_be_cancelled() -> None:
    memory, began, go = Computed(), threading.Event(), threading.Event()

    def slow() -> int:
        began.set()
        assert go.wait(10)
        return 7

    first = threading.Thread(target=memory.once, args=("a", slow, silent))
    first.start()
    assert began.wait(10)
    told: list[str] = []

    def impatient(what: str, done: int, total: int) -> None:
        told.append(what)
        raise Cancelled

    with pytest.raises(Cancelled):
        memory.once("a", slow, impatient)
    go.set()
    first.join(10)
    assert memory.once("a", lambda: 8, silent) == 7
    assert told == ["waiting: another request computes the same"]


def test_the_oldest_results_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed, "_MOST", 2)
    memory = Computed()
    for key in "abc":
        memory.once(key, lambda: 1, silent)
    assert memory.once("c", lambda: 2, silent) == 1
    assert memory.once("a", lambda: 2, silent) == 2
