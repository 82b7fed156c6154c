"""Capped scores, c tanh(s / c): every kernel computes them as the loops in float64 do, or refuses them with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, flex, mask, position, score
from firth.layers.attention.call import Call
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.weights import weights
from firth.layers.block_config import BlockConfig
from firth.layers.cap import capped
from firth.layers.self_attention import SelfAttention
from firth.models import TransformerConfig, language_model
from firth.oracles import attention as oracle
from firth.oracles import position as oracle_position

B, H, G, T, D, CAP, SCALE = 2, 4, 2, 7, 4, 1.5, 0.9
_table_RD = np.random.default_rng(3).normal(size=(5, D))
POSITIONS: dict[str, tuple[Any, oracle_position.Position]] = {
    "none": (None, oracle_position.ABSENT),
    "alibi": (position.alibi(H), oracle_position.alibi(position.alibi(H).slope_H.numpy())),
    "shaw": (position.shaw(torch.from_numpy(_table_RD)), oracle_position.shaw(_table_RD, None)),
}
SCORES = {"dot": (score.DOT, oracle.DOT), "gaussian": (score.GAUSSIAN, oracle.GAUSSIAN)}


SHAPES = ((B, 1, 1, 1), (1, H, 1, 1), (1, 1, T, 1), (1, 1, 1, T))


def qkv(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, H, T, D), (B, G, T, D), (B, G, T, D))
    return [torch.randn(shape, generator=generator, dtype=dtype).mul(2).requires_grad_() for shape in shapes]


def exact(of: str, where: str) -> Tensor:
    arrays = [tensor.detach().numpy() for tensor in qkv()]
    settings = {"scale": SCALE, "score": SCORES[of][1], "position": POSITIONS[where][1], "cap": CAP}
    return torch.from_numpy(oracle.attend(*arrays, lambda b, h, q, k: k <= q, **settings))


@pytest.mark.parametrize("of", SCORES)
@pytest.mark.parametrize("where", POSITIONS)
@pytest.mark.parametrize("kernel", ["auto", "reference", "chunked"])
def test_capped_attention_is_that_of_the_loops(of: str, where: str, kernel: Any) -> None:
    settings = {"score": SCORES[of][0], "position": POSITIONS[where][0], "scale": SCALE, "mask": mask.CAUSAL}
    o = attend(*qkv(), cap=CAP, kernel=kernel, **settings)
    assert_equal(o, exact(of, where))
    assert (o - attend(*qkv(), **settings)).abs().max() > 0.01, "the cap matters"


@pytest.mark.parametrize("where", ["none", "alibi"])
def test_what_flex_attention_is_told_to_do_with_each_score_gives_the_same(where: str) -> None:
    """All pairs at once, so that no GPU is needed."""
    q, k, v = (tensor.detach() for tensor in qkv())
    change = flex._score_mod(Call(q, k, v, SCALE, score.DOT, mask.CAUSAL, POSITIONS[where][0], cap=CAP), None)
    assert change is not None
    b, h, n, m = (index.view(shape) for index, shape in zip(map(torch.arange, (B, H, T, T)), SHAPES, strict=True))
    score_BHQK = change(SCALE * q @ k.repeat_interleave(H // G, 1).mT, b, h, n, m)
    p_BHQK = score_BHQK.masked_fill(m > n, -torch.inf).softmax(-1)
    torch.testing.assert_close(p_BHQK @ v.repeat_interleave(H // G, 1), exact("dot", where), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", ["sdpa", "triton"])
def test_the_other_kernels_refuse_a_cap(kernel: Any) -> None:
    with pytest.raises(ConfigError, match=r"cap the scores; the cap is 1\.5"):
        attend(*qkv(torch.float32), cap=CAP, kernel=kernel)


def test_flex_attention_refuses_a_capped_gaussian() -> None:
    """It leaves out −½‖q‖², which cancels in a softmax, but not in a tanh."""
    with pytest.raises(ConfigError, match="a cap needs all of it"):
        attend(*qkv(torch.float32), score=score.GAUSSIAN, cap=CAP, kernel="flex")


@pytest.mark.parametrize("cap", [0.0, -1.0, float("inf"), float("nan")])
def test_a_cap_that_is_no_bound_is_refused(cap: float) -> None:
    with pytest.raises(ConfigError, match="expected a number above 0"):
        attend(*qkv(), cap=cap)
    for name, where in {"score_cap": "attention.cap", "logit_cap": "logit_cap", "score_scale": "attention.scale"}.items():
        with pytest.raises(ConfigError, match=rf"model\.{where} is "):
            TransformerConfig(kind="transformer", **{name: cap})


def test_linear_attention_has_no_scores_to_scale_or_cap() -> None:
    for name in ("cap", "scale"):
        with pytest.raises(
            ConfigError, match=rf'model\.attention\.{name} = 2\.0 only applies to model\.attention\.kind = "softmax"'
        ):
            TransformerConfig(kind="transformer", attention={"kind": "linear", name: 2.0}, position="none")


def test_the_gradient_is_that_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, cap=CAP, scale=SCALE, mask=mask.CAUSAL), qkv())


def test_weights_on_demand_are_capped_and_scaled_as_in_the_layer() -> None:
    q, k, v = (tensor.detach() for tensor in qkv())
    layer = SelfAttention(BlockConfig(width=H * D, attention=AttentionConfig(heads=H, kv_heads=G, scale=SCALE, cap=CAP)))
    call = layer.attend.call(q, k, v, mask.CAUSAL, None, 0)
    truth = oracle.weights(q.numpy(), k.numpy(), lambda b, h, q, k: k <= q, SCALE, cap=CAP)
    assert_equal(weights(call), torch.from_numpy(truth))


def test_logits_never_exceed_their_cap() -> None:
    config = TransformerConfig(kind="transformer", width=16, depth=1, heads=2, context=8, logit_cap=0.5)
    model = language_model(config, 9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
        token_BT = torch.arange(8).unsqueeze(0)
        x_BTd, _ = model.hidden(token_BT)
        plain = torch.nn.functional.linear(x_BTd, *model.output_layer())
        torch.testing.assert_close(model(token_BT)[0], 0.5 * torch.tanh(plain / 0.5))
        assert model(token_BT)[0].abs().max() <= 0.5 < plain.abs().max()
    assert capped(plain, None) is plain
