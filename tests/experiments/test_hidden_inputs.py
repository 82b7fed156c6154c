"""Hidden inputs of exercises: secret, the same for the same key, and hard enough that no wrong program passes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import solved_in_loops
import solved_in_numpy

from firth.experiments.exercises import answers
from firth.experiments.exercises.catalog import EXERCISES, find_exercise
from firth.experiments.exercises.child import LARGEST, encoded
from firth.experiments.exercises.exercise import Exercise, computed, lengths
from firth.experiments.exercises.judge import difference, hidden_cases, judged


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def plain(exercise: Exercise, key: str) -> str:
    return json.dumps([[encoded(value) for value in case] for case in hidden_cases(exercise, key)])


def holds(exercise: Exercise, key: str) -> None:
    cases = hidden_cases(exercise, key)
    known = {lengths(case) for case in exercise.cases()}
    assert all(lengths(case) not in known for case in cases[:12])
    assert len(cases) >= 24
    expected = [exercise.expected(case) for case in cases]

    def passes(program: Callable[..., Any]) -> bool:
        pairs = zip(cases, expected, strict=True)
        return all(difference(exercise, right, encoded(computed(program, case))) is None for case, right in pairs)

    for style in (solved_in_numpy, solved_in_loops):
        assert passes(getattr(style, exercise.name))
    for wrong in exercise.wrong:
        assert not passes(wrong.program), wrong.sentence
    for result in expected:
        assert all(np.size(part) <= LARGEST for part in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_right_programs_pass_hidden_inputs_of_new_lengths_and_wrong_ones_fail(exercise: Exercise) -> None:
    holds(exercise, key(1))


@pytest.mark.long
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_the_same_holds_for_many_keys(exercise: Exercise) -> None:
    for number in range(2, 22):
        holds(exercise, key(number))


@pytest.mark.parametrize("name", ["attention", "bpe_merge", "beam_search"])
def test_hidden_inputs_differ_by_key_and_not_by_run(name: str) -> None:
    exercise = find_exercise(name)
    assert plain(exercise, key(1)) == plain(exercise, key(1))
    assert plain(exercise, key(1)) != plain(exercise, key(2))


def test_no_hidden_search_hangs_on_a_tie() -> None:
    """Two texts of the same bigrams in another order are equally probable: a b a a and a a b a."""
    exercise = find_exercise("beam_search")
    log_p, *_ = exercise.cases()[1]
    assert exercise.clear(*exercise.cases()[1])
    assert not exercise.clear(np.full_like(log_p, -np.log(len(log_p))), 1, 0, 2, 3, 1.0)
    unclear = 0
    for number in range(40):
        generator = np.random.default_rng(number)
        unclear += not exercise.clear(*exercise.draw(generator))
    assert unclear < 10
    assert all(exercise.clear(*case) for number in range(5) for case in hidden_cases(exercise, key(number)))


GOOD = [
    {"ready": True},
    {"changed": 1},
    {"value": [{"dtype": "float64", "shape": [2], "values": [1.0, None]}, 3.0]},
    {"value": {"dtype": "int64", "shape": [2], "values": [1, 2]}},
    {"raised": {"type": "ValueError", "message": "no", "frames": ["line 1"], "memory": False}},
    {"stopped": {"forbidden": {"imports": "firth"}}},
    {"stopped": {"missing": "softmax"}},
]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"[" * 1_000_000, b"[" * 60 + b"]" * 60, b"1" * 5000, b'{"value": ' + b"[" * 60 + b"]" * 60 + b"}", b"3",
        b"{}", b'{"changed": 2}', b'{"changed": -1}', b'{"changed": true}', b'{"raised": 3}', b'{"raised": {"type": "E"}}',
        b'{"stopped": {}}', b'{"stopped": {"raised": {}}}', b'{"stopped": {"forbidden": {}}}', b'{"ready": true, "value": 1}',
        b'{"value": {"dtype": "float64", "shape": [2], "values": [1.0]}}', b'{"value": {"other": 3}}',
        b'{"value": {"dtype": 3, "shape": [], "values": [1.0]}}',
        b'{"value": {"dtype": "f", "shape": [-1], "values": []}}', b'{"value": {"dtype": "f", "shape": [1], "values": ["x"]}}',
        b'{"value": {"dtype": "f", "shape": [1], "values": [' + b"9" * 400 + b"]}}", b'{"value": {}}',
    ],
    ids=lambda line: line[:40].decode(),
)  # fmt: skip
def test_a_forged_answer_is_none(line: bytes) -> None:
    assert answers.read(line, 2) is None


def test_damaged_answers_are_none_or_can_be_judged() -> None:
    draw, exercise = random.Random(0), find_exercise("softmax")
    cases = exercise.cases()[:1]
    read = 0
    for _ in range(3000):
        line = bytearray(json.dumps(draw.choice(GOOD)).encode())
        line[draw.randrange(len(line))] = draw.choice(b'0123456789[]{}",:aetn')
        answer = answers.read(bytes(line), 1)
        if answer and answer.keys() & {"value", "raised", "changed"}:
            read += judged(exercise, [answer], cases=cases).text() != ""
    assert read > 100
