"""Every exercise: right programs pass, and every wrong program is named as exactly itself."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import solved_in_loops
import solved_in_numpy
import solved_in_torch
import torch
from sacrebleu.metrics import BLEU

import firth
from firth.errors import ConfigError
from firth.experiments.exercises import child
from firth.experiments.exercises.catalog import EXERCISES, find_exercise
from firth.experiments.exercises.exercise import Exercise, computed
from firth.experiments.exercises.judge import difference
from firth.experiments.exercises.stub import exercise_stub
from firth.experiments.exercises.verdict import ExerciseVerdict

WITHOUT_ARRAYS = {"bpe_merge", "bleu"}
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)


@each
@pytest.mark.parametrize("style", [solved_in_loops, solved_in_numpy, solved_in_torch], ids=lambda one: one.__name__)
def test_right_programs_of_every_style_pass(exercise: Exercise, style: ModuleType) -> None:
    program = getattr(style, exercise.name, None)
    if program is None:
        assert (style, exercise.name in WITHOUT_ARRAYS) == (solved_in_torch, True)
        return
    verdict = firth.check(program)
    assert verdict.passed, verdict
    assert verdict.text() == f"{exercise.name}: right. It agrees with the oracle on {len(exercise.cases())} inputs."


@each
def test_every_wrong_program_is_named(exercise: Exercise) -> None:
    assert len(exercise.wrong) >= 3
    for wrong in exercise.wrong:
        verdict = firth.check(wrong.program, exercise.name)
        assert verdict.mistake == wrong.sentence
        assert verdict.message == f"Your result equals {wrong.sentence}."
        assert not verdict.passed


@each
def test_no_two_programs_give_the_same(exercise: Exercise) -> None:
    """Not even nearly: some input tells each pair apart by a hundred tolerances."""
    far = Exercise(**{**vars(exercise), "tolerance": 100 * exercise.tolerance})
    cases = exercise.cases()
    programs = {"the oracle": exercise.oracle} | {one.sentence: one.program for one in exercise.wrong}
    assert len(programs) == 1 + len(exercise.wrong)
    results = {name: [computed(program, case) for case in cases] for name, program in programs.items()}
    for (name, ones), (other, others) in itertools.combinations(results.items(), 2):
        pairs = zip(ones, others, strict=True)
        assert any(difference(far, one, child.encoded(two)) is not None for one, two in pairs), f"{name} equals {other}"


@pytest.mark.parametrize(
    ("settings", "norms", "sentence"),
    [
        ({"norm_first": False}, (0, 1), "a post-norm block"),
        ({"causal": False}, (0, 1), "a block without the causal mask"),
        ({}, (0, 0), "a block that uses the gain and bias of LayerNorm_1 in both norms"),
    ],
)
def test_a_mistake_in_torchs_own_block_is_named(settings: dict[str, bool], norms: tuple[int, int], sentence: str) -> None:
    def program(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor, *weights: Any) -> torch.Tensor:
        rows = list(norms)
        return solved_in_torch.block(x, gain[rows], bias[rows], *weights, **settings)

    assert firth.check(program, "block").message.startswith(f"Your result equals {sentence}")


@each
def test_inputs_and_oracle_are_plain_finite_and_described(exercise: Exercise) -> None:
    for case in exercise.cases():
        assert len(case) == len(exercise.parameters)
        result = exercise.expected(case)
        parts = result if isinstance(result, tuple) else (result,)
        assert len(parts) == len(exercise.returns)
        for part in parts:
            if not isinstance(part, list):
                assert np.isfinite(part).all()
                assert np.asarray(part).dtype == np.float64
        for value in case:
            again = child.decoded(child.encoded(value))
            assert np.array_equal(again, value)
            assert type(again) is type(value)
    assert [str(one) for one in exercise.cases()] == [str(one) for one in exercise.cases()]


@each
def test_a_stub_is_python_that_is_not_yet_right(exercise: Exercise) -> None:
    for tensors in (False, True) if exercise.name not in WITHOUT_ARRAYS else (False,):
        names: dict[str, Any] = {}
        exec(exercise_stub(exercise.name, tensors), names)
        verdict = firth.check(names[exercise.name])
        assert verdict.message == "It raises NotImplementedError."
        assert child.wants_torch(names[exercise.name]) == (
            tensors and "Tensor" in exercise_stub(exercise.name, True).split("->")[0]
        )
        assert max(map(len, exercise_stub(exercise.name, tensors).splitlines())) <= 140


def test_a_stub_of_words_has_no_tensors() -> None:
    with pytest.raises(ConfigError, match="bleu has no arrays"):
        exercise_stub("bleu", torch=True)


def test_the_oracle_of_bleu_is_sacrebleu() -> None:
    metric = BLEU(smooth_method="none", tokenize="none", force=True)
    for candidate, reference in find_exercise("bleu").cases():
        peer = metric.corpus_score([" ".join(candidate)], [[" ".join(reference)]]).score / 100
        assert find_exercise("bleu").oracle(candidate, reference) == pytest.approx(peer, abs=1e-9)


def softmax_with(change: Callable[[np.ndarray], Any]) -> ExerciseVerdict:
    return firth.check(lambda s_RK: change(solved_in_numpy.softmax(s_RK)), "softmax")


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda p: p[:1], "shape", "p_RK has the shape (1, 2); expected (2, 2)."),
        (lambda p: p.tolist(), "type", "expected an array of shape (2, 2)"),
        (lambda p: None, "type", "It returns None for p_RK"),
        (lambda p: {"p": p}, "type", "It returns a dict for p_RK"),
        (lambda p: p + 0j, "type", "p_RK has the type complex128"),
        (lambda p: p > 2, "type", "p_RK has the type bool"),
        (lambda p: p.astype(object), "type", "p_RK has the type object"),
        (lambda p: p * math.nan, "nan", "p_RK has 4 NaN."),
        (lambda p: p + 1e-4, "value", "p_RK is not what the equation gives."),
    ],
)
def test_what_is_wrong_with_a_result_is_told(change: Callable[[np.ndarray], Any], kind: str, message: str) -> None:
    verdict = softmax_with(change)
    assert (verdict.kind, verdict.mistake) == (kind, None)
    assert message in verdict.message


def test_a_result_with_too_many_numbers_is_not_kept() -> None:
    verdict = softmax_with(lambda p: np.zeros((101, 100)))
    assert (verdict.kind, verdict.facts()["returned"]) == (
        "shape", "an array of shape (101, 100) and type float64, more than 10,000 numbers",
    )  # fmt: skip


def test_a_float32_result_is_near_enough() -> None:
    assert softmax_with(lambda p: p.astype(np.float32)).passed
    assert softmax_with(lambda p: torch.tensor(p, dtype=torch.float32)).passed


def test_the_smallest_failing_input_is_shown() -> None:
    def perplexity(log_probability: np.ndarray) -> float:
        return 0.0 if len(log_probability) > 3 else float(np.exp(-log_probability.mean()))

    verdict = firth.check(perplexity)
    failing = [case for case in find_exercise("perplexity").cases() if len(case[0]) > 3]
    assert len(verdict.arguments["log_probability_T"]) == min(len(case[0]) for case in failing)
    assert verdict.expected == pytest.approx(math.exp(-verdict.arguments["log_probability_T"].mean()))
    assert "The smallest failing input:\n    log_probability_T = [" in verdict.text()
    assert verdict.returned == 0


def test_a_function_may_not_change_its_arguments() -> None:
    def in_place(s_RK: np.ndarray) -> np.ndarray:
        s_RK -= s_RK.max(1, keepdims=True)
        return solved_in_numpy.softmax(s_RK)

    def in_torch(s_RK: torch.Tensor) -> torch.Tensor:
        return s_RK.sub_(s_RK.max()).softmax(-1)

    def bpe_merge(tokens: list[str], left: str, right: str) -> list[str]:
        merged = solved_in_loops.bpe_merge(tokens, left, right)
        tokens.clear()
        return merged

    assert firth.check(in_place, "softmax").message == "It changes its argument s_RK in place; work on a copy."
    assert firth.check(in_torch, "softmax").kind == firth.check(bpe_merge).kind == "changed"


def test_an_exception_shows_the_lines_of_the_student_only() -> None:
    def softmax(s_RK: np.ndarray) -> np.ndarray:
        return np.linalg.inv(s_RK[:, :1].T @ s_RK @ s_RK)

    verdict = firth.check(softmax)
    assert verdict.kind == "exception"
    assert [line.partition(": ")[2] for line in verdict.traceback] == ["return np.linalg.inv(s_RK[:, :1].T @ s_RK @ s_RK)"]
    assert firth.check(lambda s_RK: sys.exit(3), "softmax").message == "It raises SystemExit: 3."


def test_a_tuple_of_another_length_is_told() -> None:
    verdict = firth.check(lambda v, U, target: (0.0, v), "skip_gram")
    assert verdict.message == (
        "It returns 2 values in a tuple or list; expected a tuple of 3: loss, gradient_v_d and gradient_U_Vd."
    )


def test_a_notebook_shows_the_verdict_and_json_has_no_nan() -> None:
    verdict = firth.check(find_exercise("softmax").wrong[0].program, "softmax")
    assert "Your result equals" in repr(verdict)
    html = verdict._repr_html_()
    assert html.startswith("<pre>softmax: wrong.")
    assert "nan" in repr(verdict.returned)
    assert verdict.facts()["returned"] == [[None, 0.0], [None, None]] or None in verdict.facts()["returned"][0]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'no exercise "atention".*"attention"'):
        firth.check(lambda: None, "atention")
    with pytest.raises(ConfigError, match=r'no exercise "<lambda>".*with exercise: softmax'):
        firth.check(lambda: None)
    with pytest.raises(ConfigError, match="without a call"):
        firth.check(3)  # type: ignore[arg-type]
