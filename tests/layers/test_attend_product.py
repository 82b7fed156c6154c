"""attend() over the product of scores × masks × positions × head sharings: the reference against the loops of the oracle, in
value and in gradient; every other kernel that runs here against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from attention_cases import POSITIONS, SCORES, SHAPES, SHARINGS, B, Case, H, K, Parameters, pull, rules, saying, with_gradients
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import chunked, flex, mask, reference, sdpa
from firth.layers.attention.call import Call
from firth.layers.kernels import attention as fused

STEP = 1e-5
# A central difference is off by STEP²/6 of the third derivative and by 1e-16/STEP of the value: both some 1e-10, of numbers up
# to some 10.
DIFFERENCE = 1e-7
KERNELS: dict[str, Any] = {"sdpa": sdpa, "chunked": chunked}
LOW = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def shifted(given: Parameters, along: Parameters, step: float) -> Parameters:
    return {name: tensor + step * along[name] for name, tensor in given.items()}


def shape_of(rule_number: int, score: str, where: str, G: int) -> str:
    """The shapes take turns, so that every two of score, mask, position, sharing and shape meet."""
    turn = rule_number + list(SCORES).index(score) + list(POSITIONS).index(where) + SHARINGS.index(G)
    return list(SHAPES)[turn % len(SHAPES)]


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "ELEMENTS", 2 * B * H * K)  # two queries a time, or one where a tensor has D per pair


def product() -> Iterator[Any]:
    """`make test` takes half of the pairs of a score and a position: 2 query heads share a head of keys, or all, or none do."""
    for (m, score), (n, where), G in itertools.product(enumerate(SCORES), enumerate(POSITIONS), SHARINGS):
        quick = {0: SHARINGS[0], 2: 2, 4: SHARINGS[-1], 6: 2}.get((m + n) % 8)
        yield pytest.param(score, where, G, marks=[] if quick == G else [pytest.mark.long])


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize(("score", "where", "G"), list(product()))
def test_every_attention_equals_the_oracle_in_value_and_gradient_on_every_kernel(score: str, where: str, G: int) -> None:
    oracles: dict[str, Any] = {}
    for number, (name, rule) in enumerate(rules().items()):
        case = Case(score, where, G, shape_of(number, score, where, G))
        given, along = case.tensors(), case.tensors(seed=1)
        if case.shape not in oracles:
            oracles[case.shape] = [case.oracle_scores(shifted(given, along, step)) for step in (0.0, STEP, -STEP)]
        here, ahead, behind = oracles[case.shape]
        with saying(name, case.shape):
            p, o = case.oracle_output(here, given, rule.allowed)
            assert_equal(reference.weights(case.call(given, rule.mask).reduced()), p)
            by_reference = with_gradients(case, given, rule.mask, "reference")
            assert_equal(by_reference["o"], o)
            rise = sum(
                sign * (case.oracle_output(scores, shifted(given, along, sign * STEP), rule.allowed)[1] * pull(o)).sum()
                for sign, scores in ((1, ahead), (-1, behind))
            ) / (2 * STEP)
            slope = sum((by_reference[name] * along[name]).sum() for name in given)
            assert abs(slope - rise) <= DIFFERENCE * max(1.0, sum(by_reference[n].abs().sum().item() for n in given))
            # What chunked does to the queries has nothing to do with how heads share keys: once is enough.
            for kernel, module in KERNELS.items() if G == 2 else [("sdpa", sdpa)]:
                with saying(kernel):
                    if reason := module.why_not(case.call(given, rule.mask).reduced()):
                        refused(case, given, rule.mask, kernel, reason)
                        continue
                    for of, value in with_gradients(case, given, rule.mask, kernel).items():
                        with saying(of):
                            assert_equal(value, by_reference[of])


def refused(case: Case, given: Parameters, rule: mask.Mask, kernel: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        case.attend(given, rule, kernel)
    assert str(caught.value) == f'kernel "{kernel}" cannot run this call: {reason}; kernel="auto" picks one that can'


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize(
    ("score", "where", "dtype"),
    [  # `make test` takes the types in turns
        pytest.param(score, where, dtype, marks=[] if (k + m + n) % 4 == 0 else [pytest.mark.long])
        for k, score in enumerate(SCORES)
        for m, where in enumerate(POSITIONS)
        for n, dtype in enumerate(LOW)
    ],
)
def test_every_kernel_in_low_precision_is_as_accurate_as_the_reference(score: str, where: str, dtype: str) -> None:
    for name, shape in (("causal", "Q=K"), ("causal & lengths", "per row")):
        case, rule = Case(score, where, 2, shape), rules()[name].mask
        low = case.tensors(LOW[dtype])
        plain = with_gradients(case, low, rule, "reference")
        exact = with_gradients(case, {of: tensor.double() for of, tensor in low.items()}, rule, "reference")
        kernel = "sdpa"
        if reason := sdpa.why_not(case.call(low, rule).reduced()):
            refused(case, low, rule, "sdpa", reason)
            kernel = "chunked"
        for of, value in with_gradients(case, low, rule, kernel).items():
            with saying(name, shape, kernel, of):
                assert_as_accurate(value, plain[of], exact[of])


@pytest.mark.parametrize("where", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
def test_auto_takes_sdpa_where_it_can_and_chunks_where_not(score: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, for everything: the result is that of the kernel it should have taken, to the last bit."""
    case = Case(score, where, 2)
    taken: list[str] = []
    for kernel, module in {**KERNELS, "reference": reference, "triton": fused, "flex": flex}.items():
        monkeypatch.setattr(module, "run", noting(taken, kernel, module.run))
    o = case.attend(case.tensors(), mask.CAUSAL, "auto")
    additive, chunked = score.startswith("additive"), where.startswith(("shaw", "disentangled"))
    assert taken[0] == ("chunked" if additive or chunked else "sdpa")
    assert torch.equal(o, case.attend(case.tensors(), mask.CAUSAL, taken[0]))


def noting(taken: list[str], kernel: str, run: Any) -> Any:
    def noted(call: Call) -> Tensor:
        taken.append(kernel)
        o: Tensor = run(call)
        return o

    return noted


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without a GPU answers")
@pytest.mark.parametrize(("kernel", "words"), [("triton", r"triton is not installed|need a GPU; q is on cpu"), ("flex", "GPU")])
def test_a_kernel_for_gpus_says_so_on_a_machine_without(kernel: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_INTERPRETED", False)
    case = Case("scaled dot", "none", 2)
    with pytest.raises(ConfigError, match=rf'kernel "{kernel}" cannot run this call: .*({words}).*kernel="auto"'):
        case.attend(case.tensors(), mask.CAUSAL, kernel)
