"""Random models, small enough to be checked by looking at every possibility."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn

from firth.layers.recurrent import CELLS
from firth.models import LanguageModel, ModelConfig, RecurrentConfig, TransformerConfig, language_model

M = TypeVar("M", bound=nn.Module)
CONFIGS: dict[str, ModelConfig] = {
    "linear": TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=12, attention="linear", position="none"),
    "gated linear": TransformerConfig(
        kind="transformer", width=16, depth=2, heads=2, context=12, attention="gated_linear", position="none"
    ),
    "based": TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=12, attention="based", span=4),
    **{kind: RecurrentConfig(kind=kind, width=9, depth=1 if kind == "lstm" else 2) for kind in CELLS.shipped_kinds},
    "gru, reset before": RecurrentConfig(kind="gru", width=9, reset="before"),
    "transformer, rotary": TransformerConfig(kind="transformer", width=16, depth=2, heads=4, kv_heads=2, context=12),
    "transformer, learned": TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=12, position="learned"),
    "transformer, sinusoidal": TransformerConfig(
        kind="transformer", width=16, depth=1, heads=2, context=12, position="sinusoidal"
    ),
    "transformer, no positions": TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=12, position="none"),
    "transformer, shaw, window": TransformerConfig(
        kind="transformer",
        width=16,
        depth=2,
        heads=4,
        kv_heads=1,
        context=12,
        position="shaw",
        max_distance=3,
        mask="window",
        span=5,
    ),
    "transformer, t5, additive": TransformerConfig(
        kind="transformer",
        width=16,
        depth=1,
        heads=2,
        context=12,
        position="t5",
        distance_buckets=6,
        max_distance=8,
        score="additive",
    ),
    "transformer, alibi, strictly causal": TransformerConfig(
        kind="transformer", width=16, depth=2, heads=4, kv_heads=2, context=12, position="alibi", mask="strictly_causal"
    ),
}


def randomise(module: M, mean: float = 0.0, std: float = 0.5, seed: int | torch.Generator = 0) -> M:
    """Every parameter drawn anew, gains and biases too, whose first values would hide a mistake. `seed` may be a generator."""
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(mean, std, generator=generator)
    return module


def random_model(name: str, vocab: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> LanguageModel:
    return randomise(language_model(CONFIGS[name], vocab), seed=seed).to(dtype).eval()


def lengths_read(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens per row of each call of the model from now on."""
    read: list[int] = []
    hidden: Callable[..., Any] = model.hidden

    def counting(token_BT: Tensor, state: Any = None) -> Any:
        read.append(token_BT.shape[1])
        return hidden(token_BT, state)

    monkeypatch.setattr(model, "hidden", counting)
    return read
