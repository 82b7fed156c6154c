"""attend(kernel="triton") over scores × masks × positions, on a CPU in Triton's interpreter: that each call reaches the kernels
with the right arguments. How accurate the kernels are is asked in the files beside this one, and on a GPU."""

from __future__ import annotations

import pytest
import torch
from attention_cases import POSITIONS, SCORES, SHAPES, Case, rules, saying, with_gradients
from interpreter import INTERPRETED

from firth.errors import ConfigError
from firth.layers.kernels import attention as fused

pytest.importorskip("triton", reason="the fused kernels are written in Triton")
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED, reason="runs in Triton's interpreter: TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter is numpy, which warns of 0/0 in unseen rows
]
ROUNDINGS = 2e-5  # some hundreds of float32's; a wrong argument is off by 0.01 and more


@pytest.mark.parametrize("where", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
def test_every_call_that_can_be_fused_equals_the_reference(score: str, where: str) -> None:
    turn = list(SCORES).index(score) + list(POSITIONS).index(where)
    for number, (name, rule) in list(enumerate(rules().items()))[turn % 3 :: 3]:  # the masks take turns
        case = Case(score, where, (1, 2, 4)[number % 3], list(SHAPES)[(number + len(score)) % len(SHAPES)])
        given = {key: tensor.float() for key, tensor in case.tensors().items()}
        with saying(name, case.shape):
            trained = {key: tensor.clone().requires_grad_() for key, tensor in given.items()}
            if fused.why_not(case.call(trained, rule.mask).reduced()):
                with pytest.raises(ConfigError, match='kernel "triton" cannot run this call'):
                    case.attend(trained, rule.mask, "triton")
                continue
            exact = with_gradients(case, {key: tensor.double() for key, tensor in given.items()}, rule.mask, "reference")
            for of, value in with_gradients(case, given, rule.mask, "triton").items():
                with saying(of):
                    off = (value.double() - exact[of]).abs().max().item() if value.numel() else 0.0
                    assert off <= ROUNDINGS * max(1.0, exact[of].abs().max().item())


@pytest.mark.parametrize("score", ["scaled dot", "gaussian", "bilinear"])
def test_slopes_that_are_not_trained_are_fused(score: str) -> None:
    for number, (name, rule) in enumerate(rules().items()):
        case = Case(score, "alibi", (1, 2, 4)[number % 3], list(SHAPES)[number % len(SHAPES)])
        given = {key: tensor.float() for key, tensor in case.tensors().items()}
        if name not in ("causal, by head", "window | documents"):  # no runs of keys
            exact = case.attend({key: tensor.double() for key, tensor in given.items()}, rule.mask, "reference")
            with saying(name, case.shape):
                assert (case.attend(given, rule.mask, "triton").double() - exact).abs().max() <= ROUNDINGS * exact.abs().max()


def test_what_cannot_be_fused_says_why() -> None:
    def reason(score: str, where: str, rule: str, dtype: torch.dtype = torch.float32) -> str | None:
        case = Case(score, where, 2, next(iter(SHAPES)))
        given = {key: tensor.to(dtype) for key, tensor in case.tensors().items()}
        return fused.why_not(case.call(given, rules()[rule].mask).reduced())

    assert reason("scaled dot", "none", "causal") is None
    assert reason("additive", "none", "causal") is None
    assert "no relative positions" in str(reason("additive", "alibi", "causal"))
    assert "dot products only" in str(reason("gaussian", "shaw", "causal"))
    assert "one interval of keys" in str(reason("scaled dot", "none", "causal, by head"))
    slope = Case("scaled dot", "alibi", 2, next(iter(SHAPES)))
    learned = {key: tensor.float().requires_grad_() for key, tensor in slope.tensors().items()}
    assert "no gradient for ALiBi's slopes" in str(fused.why_not(slope.call(learned, rules()["causal"].mask).reduced()))
    assert "cannot give torch.float64" in str(reason("scaled dot", "none", "causal", torch.float64))
