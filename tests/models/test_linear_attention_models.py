"""Language models with linear attention: settings that do not fit, torch.compile, attention maps, generating without end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tolerance import assert_equal

from firth.decoding.generate import EndlessText
from firth.errors import ConfigError
from firth.layers.attention.weights import statistics, weights
from firth.layers.linear_attention import LinearState
from firth.layers.state import RecentKeyValue
from firth.layers.tap import attention_calls
from firth.models import LanguageModel, TransformerConfig, TransformerLM, language_model
from firth.models.initialise import initialise

VOCAB, T = 11, 20
KINDS = (("linear", "none"), ("gated_linear", "none"), ("based", "rotary"))


def config(attention: str, position: str = "none", **more: Any) -> TransformerConfig:
    options = {"kind": "transformer", "width": 16, "depth": 2, "heads": 2, "context": T, "attention": attention}
    return TransformerConfig(**(options | {"position": position} | more))


def model(attention: str, position: str = "none", **more: Any) -> LanguageModel:
    made = language_model(config(attention, position, **more), VOCAB)
    initialise(made, torch.Generator().manual_seed(0))
    return made.double().eval()


def tokens(time: int = T) -> torch.Tensor:
    return torch.randint(VOCAB, (2, time), generator=torch.Generator().manual_seed(1))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rotary": ({"attention": "linear", "position": "rotary"}, r'model.position = "rotary" needs softmax attention'),
    "alibi": ({"attention": "gated_linear", "position": "alibi"}, r'Set model.position to "none" or one of: learned, sinusoidal'),
    "t5": ({"attention": "based", "position": "t5"}, r"one of: learned, sinusoidal, rotary"),
    "score": (
        {"attention": "linear", "score": "additive"},
        r'attention\.score = "additive" only applies to model\.attention\.kind = "softmax"',
    ),
    "mask": (
        {"attention": "linear", "mask": "strictly_causal"},
        r'attention\.mask = "strictly_causal" only applies to model\.attention\.kind = "softmax"',
    ),
    "window": (
        {"attention": "based", "position": "rotary", "mask": "window", "span": 4},
        r'model\.attention\.mask = "window" only applies',
    ),
    "kv_heads": ({"attention": "gated_linear", "kv_heads": 1}, r"model\.attention\.kv_heads = 1 only applies"),
    "span": ({"attention": "linear", "span": 4}, r"model.attention.span = 4 only applies"),
    "features": ({"attention": "linear", "feature_width": 8}, r'only applies to model.attention.kind = "based"; given "linear"'),
    "depth": ({"attention": "based", "depth": 1}, r"alternates two kinds of layers"),
    "width": ({"attention": "gated_linear", "width": 18, "heads": 6}, r"must be a multiple of 2 · model.attention.heads = 12"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_have_no_place_are_refused(name: str) -> None:
    settings, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=reason):
        config(**settings)


@pytest.mark.long
@pytest.mark.parametrize("time", [20, 130])
@pytest.mark.parametrize(("attention", "position"), KINDS)
def test_a_compiled_model_is_the_same(attention: str, position: str, time: int) -> None:
    made = model(attention, position)
    parameters = list(made.parameters())

    def loss(token_BT: torch.Tensor) -> torch.Tensor:
        square: torch.Tensor = made(token_BT)[0].square().mean()
        return square

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=False)
    for one, other in zip(*(torch.autograd.grad(f(tokens(time)), parameters) for f in (loss, compiled)), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(("attention", "position"), [("linear", "none"), ("based", "rotary")])
def test_attention_maps_are_those_the_layers_apply(attention: str, position: str) -> None:
    made = model(attention, position)
    with torch.no_grad(), attention_calls(made) as calls:
        made(tokens())
    for call in calls.values():
        p_BHQK = weights(call)
        assert_equal(p_BHQK.sum(-1), torch.ones(2, 2, T, dtype=torch.float64))
        assert_equal(p_BHQK, p_BHQK.tril())
        assert (statistics(call).entropy_BHQ >= 0).all()
    assert isinstance(made, TransformerLM)
    call, block = calls[0], made.blocks[0]
    x_BTd = block.attention_norm(made.embed_positions(made.embedding(tokens()), 0))  # type: ignore[operator, union-attr]
    o_BHTE = weights(call) @ call.v_BGKE
    expected, _ = block.attention(x_BTd, None, None, None)  # type: ignore[operator, union-attr]
    assert_equal(block.attention.out(o_BHTE.transpose(1, 2).flatten(2)), expected)  # type: ignore[operator, union-attr]


def test_gated_linear_attention_has_no_maps() -> None:
    made = model("gated_linear")
    with pytest.raises(ConfigError, match="has no attention weights"), attention_calls(made):
        made(tokens())


def test_gated_linear_attention_generates_without_end_from_one_state() -> None:
    made = model("gated_linear")
    endless, state = EndlessText(made), None
    state = endless.start(2)
    for token_B1 in tokens(5 * T).split(1, dim=1):
        logits_B1V, state = endless.step(token_B1, state)
    assert state.pieces == ()
    assert_equal(logits_B1V, made(tokens(5 * T))[0][:, -1:].detach())


def test_based_alternates_a_state_of_sums_with_the_last_tokens() -> None:
    made = model("based", "rotary", depth=3, span=5)
    _, state = made.step(tokens(), made.start(2))
    kinds = [type(layer) for layer in state.layers]
    assert kinds == [LinearState, RecentKeyValue, LinearState]
    assert state.layers[1].k_BGCD.shape[2] == 4
    assert state.layers[0].S_BHFE.shape == (2, 2, 1 + 16 + 256, 8 + 1)
