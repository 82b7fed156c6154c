"""A prompt that is read in chunks: the same logits and the same text as in one call, without the memory of one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from largest_tensor import Largest
from shares import half, third
from small_models import CONFIGS, lengths_read, random_model
from torch import Tensor

from firth.decoding import prefill as module
from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.decoding.prefill import prefill
from firth.layers.state import AttentionState, KeyValue
from firth.models import LanguageModel, TransformerConfig, language_model

VOCAB, B = 11, 3


def prompt(length: int, batch: int = B) -> Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("chunk", [1, 4, 5, 11])
@pytest.mark.parametrize("name", half(CONFIGS))
@torch.inference_mode()
def test_chunks_give_the_logits_of_one_call_and_the_same_state(name: str, chunk: int) -> None:
    model, token_BT, next_B1 = random_model(name, VOCAB), prompt(11), prompt(12)[:, -1:]
    x_BTd, once = model.hidden(token_BT, model.start(B))
    x_B1d, state = prefill(model, token_BT, model.start(B), chunk)
    torch.testing.assert_close(x_B1d, x_BTd[:, -1:], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(model.step(next_B1, state)[0], model.step(next_B1, once)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", third(CONFIGS))
def test_the_text_does_not_depend_on_the_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = random_model(name, VOCAB), DecodingConfig(tokens=20, temperature=0.0)
    once = torch.stack(list(generate(model, prompt(10), config)))
    read = lengths_read(model, monkeypatch)
    monkeypatch.setattr(module.prefill, "__defaults__", (3,))
    assert torch.equal(torch.stack(list(generate(model, prompt(10), config))), once)
    assert read[:5] == [3, 3, 3, 1, 1]
    assert max(read) == 3  # also when a full context slides


LONG = ["transformer, rotary", "transformer, shaw, window", "transformer, alibi, strictly causal", "linear", "based"]


def long_model(name: str, context: int) -> LanguageModel:
    config = CONFIGS[name]
    assert isinstance(config, TransformerConfig)
    return language_model(dataclasses.replace(config, context=context), VOCAB).eval()


@pytest.mark.parametrize("name", half(LONG))
def test_no_tensor_is_larger_than_a_chunk_times_the_length(name: str) -> None:
    T, chunk = 512, 32
    model, token_1T = long_model(name, T), prompt(T, 1)
    config = model.config
    assert isinstance(config, TransformerConfig)
    features = (
        1 + config.width // config.attention.heads + (config.width // config.attention.heads) ** 2
    )  # of Based's Taylor expansion
    bound = max(config.attention.heads * chunk * T, 2 * T * config.width, chunk * config.width * features)
    with torch.inference_mode(), Largest() as in_chunks:
        prefill(model, token_1T, model.start(1), chunk)
    assert in_chunks.numel <= bound
    with torch.inference_mode(), Largest() as at_once:
        prefill(model, token_1T, model.start(1), T)
    assert at_once.numel > 2 * in_chunks.numel


def test_the_memory_of_keys_and_values_is_allocated_once() -> None:
    model, stores, states = long_model("transformer, rotary", 400), set(), []
    hidden: Callable[..., Any] = model.hidden

    def noting(token_BT: Tensor, state: Any = None) -> Any:
        x_BTd, state = hidden(token_BT, state)
        stores.add(id(state.layers[0].store))
        states.append(state)  # kept, so that an id is not used again
        return x_BTd, state

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(model, "hidden", noting)
        _, state = prefill(model, prompt(300, 1), model.start(1), 16)
    assert len(stores) == 1
    assert isinstance(state, AttentionState)
    (layer, *_) = state.layers
    assert isinstance(layer, KeyValue)
    assert layer.store is not None
    assert layer.store.k_BGCD.shape[2] == 400  # not 600: the context is bounded
