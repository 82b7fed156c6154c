"""firth answer, and what train and evaluate print of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from questions import trained_on_questions
from shell import Firth, firth

__all__ = ["firth"]

CONTEXT = "Bert lives in Rome . Dora lives in New York ."
WHERE = "Where does Dora live ?"


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_questions()


def test_the_answer_and_its_probability_are_printed_a_line_per_question(firth: Firth, run: Path) -> None:
    answer = firth("answer", run, "--context", CONTEXT, WHERE, "Where does Bert live ?")
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == ["New York", "Rome"]
    assert all(0 < float(line[1]) <= 1 for line in lines)


def test_the_context_may_be_a_file_or_standard_input(firth: Firth, run: Path, tmp_path: Path) -> None:
    (tmp_path / "town.txt").write_text(CONTEXT)
    (answer,) = json.loads(firth("answer", run, "--context", tmp_path / "town.txt", WHERE, "--json").out)
    assert answer.keys() == {"question", "text", "probability", "start"}
    assert (answer["question"], answer["text"], answer["start"]) == (WHERE, "New York", CONTEXT.index("New York"))
    assert firth("answer", run, "--context", "-", WHERE, stdin=CONTEXT.encode()).out.startswith("New York\t")


def test_a_long_text_is_no_file_name(firth: Firth, run: Path) -> None:
    assert firth("answer", run, "--context", CONTEXT * 200, WHERE).out.startswith("New York\t")


def test_evaluate_prints_both_measures(firth: Firth, run: Path) -> None:
    out = firth("evaluate", run).out
    assert "questions           80, read in 80 windows" in out
    assert "exact match         100.00%" in out
    assert "F1                  100.00%" in out


def test_a_run_of_another_kind_is_refused(firth: Firth, char_run: Path) -> None:
    answer = firth("answer", char_run, "--context", CONTEXT, WHERE)
    assert answer.code == 2
    assert "this run is a language model and cannot answer; it can: generate" in answer.err
