from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.models import ConditionalDecoder, seq2seq
from firth.models.initialise import initialise
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig
from firth.tasks.translation import TranslationConfig, translation
from firth.text.batches.pairs import Pairs

V = 7
CONFIGS: dict[str, Any] = {
    "search": RecurrentSeq2SeqConfig(kind="gru", width=6),
    "transformer": TransformerSeq2SeqConfig(kind="transformer", width=8, heads=2, depth=1, context=9),
}


def model_of(name: str) -> ConditionalDecoder:
    model = seq2seq(CONFIGS[name], V, V)
    initialise(model, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    return model.double()


def batch(*pairs: tuple[list[int], list[int]]) -> dict[str, Tensor]:
    arrays = Pairs.of(*([np.array(ids) for ids in side] for side in zip(*pairs, strict=True))).batch(np.arange(len(pairs)))
    return {name: torch.from_numpy(getattr(arrays, name)) for name in ARRAYS}


ARRAYS = ("source_BS", "source_length_B", "input_BT", "target_BT", "target_length_B")
PAIRS = [([3, 1, 0], [2, 4, 6, 0]), ([5, 5, 2, 1, 0], [1, 0])]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_mean_over_the_tokens_of_all_targets(name: str, smoothing: float) -> None:
    """Token by token: the probability of each after those before it, in a sentence by itself."""
    model, nats = model_of(name), []
    for source, target in PAIRS:
        state = model.start(model.encode(torch.tensor([source]), torch.tensor([len(source)])))
        for before, token in zip([0, *target], target, strict=False):
            logits_11V, state = model.step(torch.tensor([[before]]), state)
            p_V = logits_11V[0, 0].detach().softmax(-1)
            spread = -sum(math.log(float(p)) for p in p_V) / V
            nats.append((1 - smoothing) * -math.log(float(p_V[token])) + smoothing * spread)
    loss, state = translation(model, **batch(*PAIRS), smoothing=smoothing)
    assert state is None
    assert float(loss.detach()) == pytest.approx(sum(nats) / len(nats), rel=1e-9)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_a_share_is_a_share(smoothing: float) -> None:
    with pytest.raises(ConfigError, match=f"objective.smoothing is {smoothing}; expected 0 ≤ smoothing < 1"):
        TranslationConfig(smoothing=smoothing)
