"""Products with what stands around them, and the placing of q, k and v, against torch in float64, on a GPU or in Triton's
interpreter (TRITON_INTERPRET=1); whole blocks on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from interpreter import INTERPRETED
from torch import Tensor, nn

triton = pytest.importorskip("triton", reason="the kernels are written in Triton")

from firth.layers.activation import gated, gelu_tanh  # noqa: E402
from firth.layers.kernels.triton.one_row import place, product  # noqa: E402
from firth.layers.norm import NormConfig, norm  # noqa: E402
from firth.layers.position import ALiBiConfig, RotaryTurn, rotate  # noqa: E402
from firth.layers.state import FixedKeyValue  # noqa: E402
from firth.models import TransformerConfig, language_model  # noqa: E402
from firth.models.initialise import initialise  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or TRITON_INTERPRET=1"),
]
PHI: dict[str, Any] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "swiglu": lambda x: gated(F.silu, x),
    "geglu": lambda x: gated(F.gelu, x),
    "geglu_tanh": lambda x: gated(gelu_tanh, x),
}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@torch.inference_mode()
@pytest.mark.parametrize("kind", [None, "layer", "rms"])
@pytest.mark.parametrize("biased", [False, True])
def test_norm_product_and_residual_are_computed_at_once(kind: Any, biased: bool) -> None:
    x, W, b, residual = 3 + drawn(1, 1, 70), drawn(33, 70), drawn(33) if biased else None, drawn(1, 1, 33, seed=1)
    of_x: nn.Module | None = None if kind is None else norm(kind, 70, biased, 1e-5).to(DEVICE)
    if of_x is not None:
        for n, parameter in enumerate(of_x.parameters()):
            parameter.copy_(1 + drawn(70, seed=n))
    got = product(x, W, b, norm=of_x, residual=residual, tile=(8, 32, 4))
    wide = x.double() if of_x is None else of_x.double()(x.double())
    expected = residual.double() + F.linear(wide, W.double(), None if b is None else b.double())
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", PHI)
def test_a_product_applies_its_activation(activation: Any, biased: bool) -> None:
    x, W, b = drawn(1, 1, 40), drawn(26, 40, seed=1) / 4, drawn(26) if biased else None
    got = product(x, W, b, activation=activation, tile=(4, 64, 4))
    expected = PHI[activation](F.linear(x.double(), W.double(), None if b is None else b.double()))
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("turned", [False, True])
def test_place_turns_queries_and_keys_and_stores_keys_and_values(turned: bool) -> None:
    B, T, H, G, D, C = 2, 3, 4, 2, 12, 9
    qkv, memory = drawn(B, T, (H + 2 * G) * D), drawn(2, B, G, C, D, seed=1)
    length_B = torch.tensor([5, 0], device=DEVICE)
    turn = RotaryTurn(*drawn(2, B, 1, T, D, seed=2)) if turned else None
    past = FixedKeyValue(memory[0].clone(), memory[1].clone(), length_B)
    q_BHTD = place(qkv, turn, past, H)
    q, k, v = qkv.view(B, T, -1, D).transpose(1, 2).split((H, G, G), dim=1)
    if turn is not None:
        q, k = rotate(q, turn), rotate(k, turn)
    torch.testing.assert_close(q_BHTD, q)
    for b, start in enumerate(length_B.tolist()):
        memory[0, b, :, start : start + T], memory[1, b, :, start : start + T] = k[b], v[b]
    torch.testing.assert_close(past.k_BGCD, memory[0])
    torch.testing.assert_close(past.v_BGCE, memory[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [
        *({"position": name} for name in ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "shaw", "disentangled")),
        {"position": "rotary", "kv_heads": 2, "norm": "rms", "activation": "swiglu", "bias": False},
        {"mask": "window", "span": 5},
        {"mask": "strictly_causal"},
        {"score": "gaussian"},
        {"score_cap": 2.0, "norm_placement": "sandwich", "activation": "geglu_tanh"},
        {"qk_norm": True, "parallel_block": True},
        {"norm_placement": "post"},
        {"norm_placement": "after", "qk_norm": "whole"},
        {"norm": NormConfig(kind="layer", bias=True), "activation": "gelu"},
        {"position": ALiBiConfig(scaled=True)},
    ],
    ids=str,
)
def test_steps_in_fixed_memory_equal_those_of_growing_states(settings: dict[str, Any], rows: int) -> None:
    config = TransformerConfig(kind="transformer", **{"width": 64, "depth": 3, "heads": 4, "context": 64, **settings})
    model = language_model(config, 301)
    initialise(model, torch.Generator().manual_seed(0))
    model = model.cuda().eval()
    model.reach(64)  # type: ignore[operator]
    text = torch.randint(301, (rows, 20), generator=torch.Generator().manual_seed(1)).cuda()
    _, state = model.step(text[:, :12], model.start(rows))
    fixed = state.fixed(40)
    for n in range(12, 20):
        got, fixed = model.step(text[:, n : n + 1], fixed)
        expected = model.double().step(text[:, : n + 1], model.start(rows))[0][:, -1:]
        model.float()
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)
