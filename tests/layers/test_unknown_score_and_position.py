"""A score and a position that no kernel has heard of: each kernel computes them rightly or refuses them with a reason."""

from __future__ import annotations

import math
import pickle
from contextlib import nullcontext
from typing import Any, get_args

import numpy as np
import pytest
import torch
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import Kernel, attend, chunked, flex, mask, position, reference, score, sdpa
from firth.layers.attention.call import Call
from firth.layers.kernels import attention as fused
from firth.layers.kernels.triton import few_queries
from firth.oracles import attention as oracle
from firth.oracles import position as oracle_position

B, H, G, T, D = 2, 4, 2, 5, 16


class Cauchy(score.Score):
    """a(q, k) = −ln(1 + ‖q − k‖²)."""

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        if k_BGJKD.ndim < 6:
            k_BGJKD = k_BGJKD.unsqueeze(-3)
        return -torch.log1p((q_BGJQD.unsqueeze(-2) - k_BGJKD).square().sum(-1))


class NotReallyDot(score.Dot):
    """A subclass of a score that kernels know; only its own `between` is right."""

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        return super().between(q_BGJQD, k_BGJKD).abs()


class Parity(position.Bias):
    """+1 for keys at an even distance."""

    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        return 1.0 - distance_BHQK.abs().remainder(2).double()

    def of_heads(self, head_H: Tensor) -> Parity:
        return self


SCORES: dict[str, tuple[score.Score, oracle.ScoreFunction]] = {
    "cauchy": (Cauchy(), oracle.ScoreFunction(lambda q, k, h: -math.log1p(float(((q - k) ** 2).sum())))),
    "subclass of dot": (NotReallyDot(scaled=False), oracle.ScoreFunction(lambda q, k, h: abs(float(q @ k)))),
    "dot": (score.DOT, oracle.DOT),
}
_table_RD = np.random.default_rng(3).normal(size=(5, D))
POSITIONS: dict[str, tuple[Any, oracle_position.Position]] = {
    "parity": (Parity(), oracle_position.Position(bias=lambda h, distance: float(distance % 2 == 0))),
    "none": (None, oracle_position.ABSENT),
    "shaw": (position.shaw(torch.from_numpy(_table_RD)), oracle_position.shaw(_table_RD, None)),
    "rotary": (position.rotary(100.0), oracle_position.rotary(100.0)),
}
UNKNOWN = [(s, p) for s in SCORES for p in POSITIONS if s != "dot" or p == "parity"]


def some(heads: int, seed: int) -> Tensor:
    return torch.randn(B, heads, T, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kernel", get_args(Kernel))
@pytest.mark.parametrize(("how", "where"), UNKNOWN)
def test_a_kernel_is_right_about_what_it_does_not_know_or_refuses_it(how: str, where: str, kernel: Any) -> None:
    q, k, v = some(H, 0), some(G, 1), some(G, 2)
    (mine, theirs), (placed, truly_placed) = SCORES[how], POSITIONS[where]
    truth = oracle.attend(q.numpy(), k.numpy(), v.numpy(), lambda b, h, i, j: j <= i, score=theirs, position=truly_placed)
    can = {"sdpa": how == "dot", "triton": False, "few_queries": False, "flex": False}.get(kernel, True)
    with nullcontext() if can else pytest.raises(ConfigError, match=rf'kernel "{kernel}" cannot run this call: '):
        o = attend(q, k, v, score=mine, mask=mask.CAUSAL, position=placed, kernel=kernel)
        assert_equal(o, torch.from_numpy(truth))


def on_a_gpu(how: str, where: str) -> Call:
    """As a GPU would be asked. On "meta" nothing is computed, but each kernel answers why_not()."""
    q, k, v = (torch.empty(B, heads, T, D, dtype=torch.bfloat16, device="meta") for heads in (H, G, G))
    return Call(q, k, v, 1.0, SCORES[how][0], mask.FULL, POSITIONS[where][0])


@pytest.mark.parametrize(("how", "where"), [pair for pair in UNKNOWN if pair[1] != "rotary"])
def test_the_kernels_of_a_gpu_refuse_by_score_and_position_not_by_device_alone(
    how: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernel in (fused, few_queries):
        monkeypatch.setattr(kernel, "no_triton", lambda device: None)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    call = on_a_gpu(how, where)
    for kernel in (fused, few_queries, flex):
        name = type(call.score).__name__ if how != "dot" else "Parity"
        reason = kernel.why_not(call)
        assert reason is not None
        assert name in reason or "dot products; this score is not one" in reason
    assert reference.why_not(call) is None
    assert chunked.why_not(call) is None
    assert (sdpa.why_not(call) is None) == (how == "dot")  # any bias is written out for it


def test_a_position_that_is_neither_a_bias_nor_shaws_is_refused_by_every_kernel() -> None:
    class Odd(position.Relative):
        def of_heads(self, head_H: Tensor) -> Odd:
            return self

    q = some(H, 0)
    for kernel in get_args(Kernel)[1:]:
        with pytest.raises(ConfigError, match=rf'kernel "{kernel}" cannot run this call'):
            attend(q, q, q, position=Odd(), kernel=kernel)
    with pytest.raises(ConfigError, match=r"no kernel can run this call: Odd is neither a position\.Bias nor position\.Shaw"):
        attend(q, q, q, position=Odd())


def test_every_scheme_names_its_oracle() -> None:
    for scheme in position.SCHEMES:
        assert scheme.oracle is None or hasattr(oracle_position, scheme.oracle)
    assert [scheme.kind for scheme in position.SCHEMES if scheme.oracle is None] == ["learned"]  # nothing to compute


def test_the_settings_of_every_scheme_reach_another_process() -> None:
    """As the runs of a study do. Classes that are made for a scheme must be found under its module and name."""
    for scheme in position.SCHEMES:
        settings = scheme.Config()
        assert pickle.loads(pickle.dumps(settings)) == settings
