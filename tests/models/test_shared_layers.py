"""Layers that share their weights compute what the same weights in every layer compute, and are counted and saved once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from firth.errors import ConfigError
from firth.inspection.contextual_vectors import depth, layers
from firth.layers.tap import attention_calls
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer
from firth.models.counting import count
from firth.models.initialise import initialise
from firth.models.readouts import MaskedLM, masked_lm

VOCAB, DEPTH = 20, 6
TOKEN_BT, LENGTH_B = torch.arange(12).view(2, 6), torch.tensor([6, 4])


def config(**settings: object) -> TransformerEncoderConfig:
    return transformer(TransformerEncoderConfig, {"width": 16, "depth": DEPTH, "context": 12, "layer_groups": 2} | settings)


def pair(settings: TransformerEncoderConfig) -> tuple[MaskedLM, MaskedLM]:
    """A model whose layers share their weights, and one that has a copy of them in every layer."""
    shared = masked_lm(settings, VOCAB)
    initialise(shared, torch.Generator().manual_seed(0))
    copied = masked_lm(replace(settings, layer_groups=None), VOCAB)
    weights, of_each = shared.state_dict(), DEPTH // (settings.layer_groups or DEPTH)
    blocks = "encoder.stack.blocks."
    for name in copied.state_dict():
        if name.startswith(blocks):
            layer, _, rest = name.removeprefix(blocks).partition(".")
            weights[name] = shared.state_dict()[f"{blocks}{int(layer) // of_each}.{rest}"]
    copied.load_state_dict(weights)
    return shared.eval(), copied.eval()


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_logits_vectors_and_attention_are_those_of_copies_in_every_layer(groups: int) -> None:
    shared, copied = pair(config(layer_groups=groups))
    with torch.inference_mode(), attention_calls(shared) as calls, attention_calls(copied) as expected:
        assert torch.equal(shared(TOKEN_BT, LENGTH_B), copied(TOKEN_BT, LENGTH_B))
    assert list(calls) == list(expected) == list(range(DEPTH))
    assert all(torch.equal(calls[layer].q_BHQD, expected[layer].q_BHQD) for layer in calls)
    with torch.inference_mode(), attention_calls(shared, [4]) as calls:
        shared(TOKEN_BT, LENGTH_B)
    assert list(calls) == [4]
    assert torch.equal(calls[4].q_BHQD, expected[4].q_BHQD)
    assert depth(shared) == DEPTH
    states = zip(layers(shared, TOKEN_BT, LENGTH_B), layers(copied, TOKEN_BT, LENGTH_B), strict=True)
    assert all(torch.equal(one, other) for one, other in states)


def test_the_gradient_is_the_sum_over_the_layers() -> None:
    shared, copied = pair(config())
    for network in (shared, copied):
        network.double()(TOKEN_BT, LENGTH_B).square().sum().backward()
    of_layers = [copied.get_parameter(f"encoder.stack.blocks.{n}.attention.qkv.weight").grad for n in range(DEPTH)]
    assert all(one is not None for one in of_layers)
    own = shared.get_parameter("encoder.stack.blocks.1.attention.qkv.weight").grad
    torch.testing.assert_close(own, sum(of_layers[3:]))  # type: ignore[arg-type]


def test_weights_are_counted_once_and_products_in_every_layer() -> None:
    shared, copied = (count(network) for network in pair(config(**{"attention.span": 3, "attention.window_pattern": "LLLGGG"})))
    plain = count(masked_lm(config(layer_groups=None, depth=2), VOCAB))
    assert shared.parameters == plain.parameters
    assert copied.parameters > shared.parameters
    assert (shared.flops_per_token, shared.flops_per_key) == (copied.flops_per_token, copied.flops_per_key)
    assert shared.activations_per_token == copied.activations_per_token


def test_what_is_added_to_the_residual_stream_shrinks_with_the_layers_not_the_blocks() -> None:
    wide = config(width=128)
    shared, copied = masked_lm(wide, VOCAB), masked_lm(replace(wide, layer_groups=None), VOCAB)
    for network in (shared, copied):
        initialise(network, torch.Generator().manual_seed(0))
    stds = [network.get_parameter("encoder.stack.blocks.0.feedforward.down.weight").std().item() for network in (shared, copied)]
    assert stds[0] == pytest.approx(stds[1], rel=0.05)


REFUSED = {
    "none": ({"layer_groups": 0}, r"model\.layer_groups is 0; expected at least 1"),
    "uneven": ({"layer_groups": 4}, r"model\.layer_groups = 4 does not divide model\.depth = 6"),
    "windows": (
        {"attention.span": 3, "attention.window_pattern": "LG"},
        r'shares weights among layers that model\.attention\.window_pattern = "LG" makes different',
    ),
    "first norm": ({"embedding.norm": "replaces_first"}, r"removes a norm from the first layer only"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_differ_cannot_share_their_weights(name: str) -> None:
    settings, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        config(**settings)
