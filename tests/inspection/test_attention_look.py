"""A look at attention: plain numbers that equal the definition, from a model that runs as always."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from firth.api import load
from firth.errors import ConfigError, DataError
from firth.layers.attention import reference
from firth.layers.tap import attention_calls

TEXT = "the cat sat"


def test_weights_are_those_of_the_reference_for_every_layer_and_head(transformer_run: Path) -> None:
    model = load(transformer_run)
    seen = model.attention(TEXT)
    assert seen.tokens == tuple(TEXT)
    assert seen.layers == tuple(range(model.recipe.model.depth))
    with torch.no_grad(), attention_calls(model.network) as calls:
        model.network(torch.from_numpy(model.ids(TEXT)).unsqueeze(0))
    for layer in seen.layers:
        truth = reference.weights(calls[layer].reduced())[0].numpy()
        np.testing.assert_allclose(seen.weights(layer), truth, rtol=0, atol=1e-6)
        np.testing.assert_allclose(seen.weights(layer, heads=1, rows=[2, 0]), truth[1:2][:, [2, 0]], rtol=0, atol=1e-6)
        p = seen.weights(layer).astype(np.float64)
        away = np.abs(np.arange(len(TEXT)) - np.arange(len(TEXT))[:, None])
        found = seen.rows(layer)
        np.testing.assert_allclose(found.distance_HQ, (p * away).sum(-1), atol=1e-5)
        np.testing.assert_allclose(found.maximum_HQ, p.max(-1), atol=1e-6)
        np.testing.assert_allclose(found.entropy_HQ, -(p * np.log(np.where(p > 0, p, 1))).sum(-1), atol=1e-5)


def test_only_the_layers_asked_for_are_kept(transformer_run: Path) -> None:
    seen = load(transformer_run).attention(TEXT, layers=[0])
    assert seen.layers == (0,)
    with pytest.raises(ConfigError, match=r"layer 1 was not looked at, only 0; name it in layers="):
        seen.weights(1)
    with pytest.raises(ConfigError, match=r"layer 99 is asked for; the model has \d+ attention layers"):
        load(transformer_run).attention(TEXT, layers=[99])


def test_a_model_without_attention_and_a_text_without_tokens_are_refused(char_run: Path, transformer_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"RecurrentLM has no attention to look at; model.kind = \"transformer\" has"):
        load(char_run).attention(TEXT)
    with pytest.raises(DataError, match="the text is empty"):
        load(transformer_run).attention("")
