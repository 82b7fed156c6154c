"""Looking inside a model that runs as always: what the tap notes is what the model computed with, and nothing stays behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import randomise
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers import attention
from firth.layers.attention import reference, sdpa
from firth.layers.attention.weights import weights
from firth.layers.tap import attention_calls
from firth.models import LanguageModel, RecurrentConfig, TransformerConfig, language_model

VOCAB, T, DEPTH, HEADS = 11, 6, 2, 4
SETTINGS: dict[str, dict[str, Any]] = {
    "scaled dot, rotary": {},
    "grouped": {"kv_heads": 2, "position": "learned"},
    "window": {"mask": "window", "span": 3, "position": "sinusoidal"},
    "strictly causal": {"mask": "strictly_causal", "position": "none", "score": "dot"},
    "gaussian, alibi": {"score": "gaussian", "position": "alibi"},
    "bilinear, t5": {"score": "bilinear", "position": "t5", "distance_buckets": 4, "max_distance": 5},
    "cosine, rotary": {"score": "cosine", "kv_heads": 2},
    "additive, shaw": {"score": "additive", "position": "shaw", "max_distance": 2, "kv_heads": 1},
}


def model_of(name: str, dtype: torch.dtype = torch.float64) -> LanguageModel:
    config = TransformerConfig(kind="transformer", width=16, depth=DEPTH, heads=HEADS, context=12, **SETTINGS[name])
    return randomise(language_model(config, VOCAB)).to(dtype).eval()


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, (2, T), generator=torch.Generator().manual_seed(seed))


def weights_of_the_reference(model: LanguageModel, token_BT: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """p of each layer, noted in the run of a model that computes by the definition."""
    noted: list[Tensor] = []
    plain = reference.weights

    def noting(call: Any) -> Tensor:
        noted.append(plain(call))
        return noted[-1]

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(attention, "_first_that_can", lambda call: reference)
        patch.setattr(reference, "weights", noting)
        model(token_BT)
    return noted


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_of_every_layer_are_those_of_a_run_on_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(name)
    truths = weights_of_the_reference(model, tokens(), monkeypatch)
    assert len(truths) == DEPTH
    with attention_calls(model) as calls, torch.no_grad():
        model(tokens())
    assert sorted(calls) == list(range(DEPTH))
    for layer, truth in enumerate(truths):
        assert_equal(weights(calls[layer]), truth, share=1e-11)  # the layers below ran on another kernel: a few roundings more
        assert_equal(weights(calls[layer], heads=[3], rows=[2, 4]), truth[:, [3]][:, :, [2, 4]], share=1e-11)


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_of_a_cached_step_are_the_last_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, token_BT = model_of(name), tokens()
    truths = weights_of_the_reference(model, token_BT, monkeypatch)
    with torch.no_grad():
        _, state = model.step(token_BT[:, :-1], model.start(2))
        with attention_calls(model) as calls:
            model.step(token_BT[:, -1:], state)
    kept = SETTINGS[name].get("span", T)  # a window has no older keys in its cache
    for layer, truth in enumerate(truths):
        assert_equal(weights(calls[layer])[..., :kept], truth[:, :, -1:, T - kept :], share=1e-11)
        assert not truth[:, :, -1:, : T - kept].any()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_tap_changes_not_a_bit_of_the_output(name: str) -> None:
    model = model_of(name, torch.float32)
    before, _ = model(tokens())
    with attention_calls(model):
        during, _ = model(tokens())
    after, _ = model(tokens())
    assert torch.equal(before, during)
    assert torch.equal(before, after)


def test_a_tapped_model_stays_on_its_fast_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ran = model_of("scaled dot, rotary"), []
    plain = sdpa.run
    monkeypatch.setattr(sdpa, "run", lambda call: (ran.append(call), plain(call))[1])
    monkeypatch.setattr(reference, "run", lambda call: pytest.fail("the reference ran"))
    with attention_calls(model):
        model(tokens())
    assert len(ran) == DEPTH


def hooks(model: LanguageModel) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def test_nothing_stays_on_the_modules_not_even_after_an_error() -> None:
    model = model_of("grouped")
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    with attention_calls(model, [1]):
        assert hooks(model) == 1
        model(tokens())
    assert hooks(model) == 0

    def fails() -> None:
        with attention_calls(model):
            model(tokens())
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fails()
    assert hooks(model) == 0
    assert attributes == {name: set(vars(module)) for name, module in model.named_modules()}


def test_only_the_chosen_layers_are_noted_and_of_those_the_newest_call() -> None:
    model = model_of("grouped")
    with attention_calls(model, [1]) as calls, torch.no_grad():
        model(tokens(0))
        model(tokens(1))
    assert list(calls) == [1]
    with attention_calls(model) as again, torch.no_grad():
        model(tokens(1))
    assert torch.equal(calls[1].q_BHQD, again[1].q_BHQD)


@pytest.mark.parametrize("name", ["scaled dot, rotary", "bilinear, t5", "additive, shaw"])
def test_a_model_under_autocast_shows_its_weights_too(name: str) -> None:
    """Its q and k are bfloat16 and its parameters float32; the weights are asked for outside."""
    model = model_of(name, torch.float32)
    with attention_calls(model) as calls, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model(tokens())
    for call in calls.values():
        assert call.q_BHQD.dtype == torch.bfloat16
        p = weights(call)
        assert p.dtype == torch.float32
        assert (p.sum(-1) - 1).abs().max() <= T * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("layer", [-1, 2, 7])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    words = rf"there is no attention layer {layer}; the model has 2 attention layers, 0 … 1"
    with pytest.raises(ConfigError, match=words), attention_calls(model_of("grouped"), [layer]):
        pytest.fail("the block was entered")


def test_a_model_without_attention_says_so() -> None:
    model = language_model(RecurrentConfig(kind="gru", width=4), VOCAB)
    words = r"there is no attention layer 0; the model has no attention layers"
    with pytest.raises(ConfigError, match=words), attention_calls(model, [0]):
        pytest.fail("the block was entered")
    with attention_calls(model) as calls:
        assert calls == {}
