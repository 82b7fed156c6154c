"""Norms and feed-forward networks against their formulas, the block against torch's encoder layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.attention.config import AttentionConfig
from firth.layers.block import Block
from firth.layers.block_config import BlockConfig
from firth.layers.feedforward import FeedForward, FeedForwardConfig, default_hidden
from firth.layers.norm import NormConfig, norm

WIDTH, HIDDEN, HEADS = 12, 20, 4


def draw(module: nn.Module, seed: int = 0) -> None:
    randomise(module, mean=0.3, seed=seed)


def some(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def by_formula(kind: str, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray | float) -> np.ndarray:
    if kind == "rms":
        return x / np.sqrt((x**2).sum(-1, keepdims=True) / x.shape[-1] + 1e-5) * gamma
    mean = x.sum(-1, keepdims=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(-1, keepdims=True) / x.shape[-1]  # biased: over n, not n − 1
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_equals_its_formula(kind: Any, bias: bool, size: float) -> None:
    """`size` = 10⁻³ makes ε matter, so that an ε outside the root would show."""
    layer = norm(kind, WIDTH, bias).double()
    draw(layer)
    x, parameters = size * some(2, 5, WIDTH), {n: p.detach().numpy() for n, p in layer.named_parameters()}
    assert set(parameters) == ({"weight", "bias"} if bias and kind == "layer" else {"weight"})
    truth = by_formula(kind, x.numpy(), parameters["weight"], parameters.get("bias", 0.0))
    assert_equal(layer(x).detach(), torch.from_numpy(truth))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_in_float32_is_as_accurate_as_its_formula_in_float32(kind: Any) -> None:
    layer = norm(kind, WIDTH, False)
    draw(layer)
    x, gamma = 5 * some(8, WIDTH, seed=3).float(), layer.get_parameter("weight").detach()
    plain = torch.from_numpy(by_formula(kind, x.numpy(), gamma.numpy(), np.float32(0)))
    exact = torch.from_numpy(by_formula(kind, x.double().numpy(), gamma.double().numpy(), 0.0))
    assert_as_accurate(layer(x).detach(), plain, exact)


def gelu(x: float) -> float:
    """x Φ(x), the exact one."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_a_feedforward_network_equals_its_formula(activation: Any, bias: bool) -> None:
    layer = FeedForward(
        BlockConfig(width=WIDTH, feedforward=FeedForwardConfig(hidden=HIDDEN, activation=activation), bias=bias)
    ).double()
    draw(layer)
    x = some(2, 3, WIDTH)
    up = x.numpy() @ layer.up.weight.detach().numpy().T + (layer.up.bias.detach().numpy() if bias else 0.0)
    match activation:
        case "relu":
            inner = np.where(up > 0, up, 0.0)
        case "gelu":
            inner = np.vectorize(gelu)(up)
        case "swiglu":
            inner = np.vectorize(silu)(up[..., :HIDDEN]) * up[..., HIDDEN:]
    truth = inner @ layer.down.weight.detach().numpy().T + (layer.down.bias.detach().numpy() if bias else 0.0)
    assert_equal(layer(x).detach(), torch.from_numpy(truth))
    assert (layer.up.bias is not None) == (layer.down.bias is not None) == bias


def test_the_inner_width_is_4d_and_two_thirds_of_it_rounded_up_to_16_for_swiglu() -> None:
    assert default_hidden(48, "relu") == default_hidden(48, "gelu") == 192
    assert default_hidden(48, "swiglu") == 128
    assert default_hidden(49, "swiglu") == 144  # 130.67 → 144


def block(
    placement: Any,
    activation: Any = "gelu",
    norm_kind: Any = "layer",
    bias: bool = True,
    dropout: float = 0.0,
    parallel: bool = False,
) -> Block:
    layer = Block(
        BlockConfig(
            width=WIDTH,
            attention=AttentionConfig(heads=HEADS),
            feedforward=FeedForwardConfig(hidden=HIDDEN, activation=activation, parallel=parallel),
            norm=NormConfig(kind=norm_kind, placement=placement),
            bias=bias,
            dropout=dropout,
        )
    ).double()
    draw(layer)
    return layer


NAMES = {
    "attention.qkv.weight": "self_attn.in_proj_weight",
    "attention.qkv.bias": "self_attn.in_proj_bias",
    "attention.out.weight": "self_attn.out_proj.weight",
    "attention.out.bias": "self_attn.out_proj.bias",
    "feedforward.up.weight": "linear1.weight",
    "feedforward.up.bias": "linear1.bias",
    "feedforward.down.weight": "linear2.weight",
    "feedforward.down.bias": "linear2.bias",
    "attention_norm.weight": "norm1.weight",
    "attention_norm.bias": "norm1.bias",
    "feedforward_norm.weight": "norm2.weight",
    "feedforward_norm.bias": "norm2.bias",
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_equals_torchs_encoder_layer_in_value_and_gradient(placement: str, activation: str, causal: bool) -> None:
    ours = block(placement, activation)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=placement == "pre"
    ).double()
    theirs.load_state_dict({NAMES[name]: value for name, value in ours.state_dict().items()})
    x = some(2, 6, WIDTH).requires_grad_()
    forbidden = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64) if causal else None
    y, state = ours(x, mask.CAUSAL if causal else mask.FULL)
    truth = theirs(x, src_mask=forbidden)
    assert state is None
    assert_equal(y.detach(), truth.detach())
    pull = some(2, 6, WIDTH, seed=5)
    grads = torch.autograd.grad((y * pull).sum(), [x, *(ours.get_parameter(n) for n in NAMES)])
    truths = torch.autograd.grad((truth * pull).sum(), [x, *(theirs.get_parameter(n) for n in NAMES.values())])
    for mine, exact in zip(grads, truths, strict=True):
        assert_equal(mine, exact)


@pytest.mark.parametrize("norm_kind", ["layer", "rms"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_a_block_is_the_residual_equation_twice_or_once_for_both(norm_kind: str, activation: str) -> None:
    x = some(2, 6, WIDTH)

    def attention(layer: Block, x: Tensor) -> Tensor:
        return layer.attention(x, mask.CAUSAL, None, None)[0]  # type: ignore[no-any-return]

    pre = block("pre", activation, norm_kind, bias=False)
    middle = x + attention(pre, pre.attention_norm(x))
    assert_equal(pre(x, mask.CAUSAL)[0].detach(), (middle + pre.feedforward(pre.feedforward_norm(middle))).detach())
    side = block("pre", activation, norm_kind, bias=False, parallel=True)
    n = side.attention_norm(x)
    assert_equal(side(x, mask.CAUSAL)[0].detach(), (x + attention(side, n) + side.feedforward(n)).detach())
    assert not list(side.feedforward_norm.parameters())
    post = block("post", activation, norm_kind, bias=False)
    middle = post.attention_norm(x + attention(post, x))
    assert_equal(post(x, mask.CAUSAL)[0].detach(), post.feedforward_norm(middle + post.feedforward(middle)).detach())


@pytest.mark.parametrize(("placement", "parallel"), [("pre", False), ("post", False), ("pre", True)])
def test_dropout_acts_only_in_training(placement: str, parallel: bool) -> None:
    x, layer = some(2, 6, WIDTH), block(placement, dropout=0.5, parallel=parallel)
    assert not torch.equal(layer(x, mask.CAUSAL)[0], layer(x, mask.CAUSAL)[0])
    assert torch.equal(layer.eval()(x, mask.CAUSAL)[0], block(placement, parallel=parallel)(x, mask.CAUSAL)[0])
