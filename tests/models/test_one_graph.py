"""torch.compile sees a whole model as one graph: where a graph ends, fused kernels end, and a GPT-2 trains 8 % slower."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo
from shares import some

from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise

MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {"position": "learned", "norm": "layer", "activation": "gelu"},
    "llama": {"kv_heads": 2},
    "window, alibi, post": {"position": "alibi", "mask": "window", "span": 4, "norm_placement": "post"},
    "t5, gaussian, sandwich": {"position": "t5", "score": "gaussian", "norm_placement": "sandwich"},
    "gated linear": {"attention": "gated_linear", "position": "none"},
    "olmo 2": {"norm_placement": "after", "qk_norm": "whole"},
}


@pytest.mark.parametrize("name", some(MODELS, "t5, gaussian, sandwich"))
def test_a_compiled_model_is_one_graph(name: str) -> None:
    model = language_model(TransformerConfig(kind="transformer", width=32, depth=2, heads=4, context=16, **MODELS[name]), 50)
    initialise(model, torch.Generator().manual_seed(0))
    token_BT = torch.randint(50, (2, 16), generator=torch.Generator().manual_seed(1))
    torch._dynamo.reset()
    explained = torch._dynamo.explain(lambda: model.hidden(token_BT)[0])()
    torch._dynamo.reset()
    assert (explained.graph_count, [reason.reason for reason in explained.break_reasons]) == (1, [])
