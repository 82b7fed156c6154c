"""A decoder-only model of sentence pairs: equal to one pass with a prefix mask, whatever it is batched with, cached or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from searches import beam
from small_models import randomise
from torch import Tensor
from translations import random_pairs

from firth.errors import ConfigError
from firth.inspection.alignment import alignment
from firth.layers.attention import mask
from firth.models import PrefixConfig, PrefixDecoder, seq2seq
from firth.models.initialise import initialise

V = 11
FORMS: dict[str, dict[str, Any]] = {
    "rotary, grouped": {"kv_heads": 1},
    "learned, untied": {"position": "learned", "tied": False},
    "2017": {"position": "sinusoidal", "norm": "layer", "norm_placement": "post", "activation": "relu", "bias": True},
    "t5": {"position": "t5", "distance_buckets": 8, "max_distance": 20},
    "shaw": {"position": "shaw", "max_distance": 2},
    "alibi, bilinear": {"position": "alibi", "score": "bilinear"},
    "none, additive": {"position": "none", "score": "additive"},
}


def model_of(form: str) -> PrefixDecoder:
    config = PrefixConfig(kind="prefix", width=8, heads=2, depth=2, context=12, **FORMS[form])
    model = seq2seq(config, V, V)
    assert isinstance(model, PrefixDecoder)
    initialise(model, torch.Generator().manual_seed(0))
    return model.double().eval()


def in_one_pass(model: PrefixDecoder, source_S: Tensor, token_T: Tensor) -> Tensor:
    """The oracle: source and target as one text without padding, and the mask as published."""
    stack = model.stack
    token_1N = torch.cat((source_S, token_T)).unsqueeze(0)
    x_1Nd, _ = stack.run_blocks(stack.embed_positions(model.embedding(token_1N), 0), mask.prefix([len(source_S)]))
    return model.readout(x_1Nd)[0, len(source_S) :]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_one_pass_with_a_prefix_mask_whatever_is_in_the_batch(form: str) -> None:
    model = model_of(form)
    # A row that stands further right is turned further, by angles that are rounded to float32.
    tolerance = 10 * torch.finfo(torch.float32).eps if model.stack.scheme.turns else 1e-9
    source_BS, length_B, token_BT = random_pairs(V, V, 7, 4, 1)
    logits_BTV = model(source_BS, length_B, token_BT)
    for b, length in enumerate(length_B.tolist()):
        expected_TV = in_one_pass(model, source_BS[b, :length], token_BT[b])
        torch.testing.assert_close(logits_BTV[b], expected_TV, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_what_stands_behind_a_source_changes_nothing(form: str) -> None:
    model = model_of(form)
    source_BS, length_B, token_BT = random_pairs(V, V, 7, 4, 1)
    other_BS = source_BS.clone()
    other_BS[1, 4:], other_BS[2, 1:] = 5, 6
    assert torch.equal(model(source_BS, length_B, token_BT), model(other_BS, length_B, token_BT))


@pytest.mark.parametrize("form", FORMS)
def test_step_by_step_is_the_same_as_all_at_once(form: str) -> None:
    model = model_of(form)
    source_BS, length_B, token_BT = random_pairs(V, V, 7, 4, 1)
    expected_BTV = model(source_BS, length_B, token_BT)
    state = model.start(model.encode(source_BS, length_B))
    first_B2V, state = model.step(token_BT[:, :2], state)
    rest = []
    for t in range(2, 5):
        logits_B1V, state = model.step(token_BT[:, t : t + 1], state)
        rest.append(logits_B1V)
    torch.testing.assert_close(torch.cat((first_B2V, *rest), 1), expected_BTV, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["rotary, grouped", "learned, untied"])
def test_selected_rows_go_on_as_they_would_have(form: str) -> None:
    model = model_of(form)
    source_BS, length_B, token_BT = random_pairs(V, V, 7, 4, 1)
    expected_BTV = model(source_BS, length_B, token_BT)
    _, state = model.step(token_BT[:, :3], model.start(model.encode(source_BS, length_B)))
    rows = torch.tensor([2, 1, 1])  # the longest is gone, so that there is padding before all
    logits_B2V, _ = model.step(token_BT[rows, 3:], state.select(rows))
    torch.testing.assert_close(logits_B2V, expected_BTV[rows, 3:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["t5", "shaw"])
def test_what_comes_later_in_the_source_is_told_by_its_distance(form: str) -> None:
    config = PrefixConfig(kind="prefix", width=8, heads=2, depth=1, context=12, **FORMS[form])
    model: Any = randomise(seq2seq(config, V, V)).double().eval()
    source_BS = torch.tensor([[3, 4, 5, 6], [3, 6, 5, 4]])  # the same tokens behind the first one, at other distances
    x_BSd, _ = model.stack.run_blocks(model.stack.embed_positions(model.embedding(source_BS), 0), mask.prefix([4, 4]))
    assert (x_BSd[0, 0] - x_BSd[1, 0]).abs().max() > 1e-3


def test_the_source_is_read_both_ways_and_the_target_is_not() -> None:
    model = model_of("rotary, grouped")
    source_BS, length_B, token_BT = random_pairs(V, V, 4)
    logits_BTV = model(source_BS, length_B, token_BT)
    changed_BT = token_BT.clone()
    changed_BT[0, 3] = (token_BT[0, 3] + 1) % V
    other_BTV = model(source_BS, length_B, changed_BT)
    assert torch.equal(other_BTV[:, :3], logits_BTV[:, :3])
    assert not torch.allclose(other_BTV[:, 3], logits_BTV[:, 3])
    causal_1Nd, _ = model.stack.run_blocks(
        model.stack.embed_positions(model.embedding(torch.cat((source_BS, token_BT), 1)), 0), mask.CAUSAL
    )
    assert not torch.allclose(model.readout(causal_1Nd)[:, 4:], logits_BTV)


def test_gradients_reach_every_weight_and_none_comes_from_padding() -> None:
    model = model_of("learned, untied").train()
    source_BS, length_B, token_BT = random_pairs(V, V, 4, 2)
    source_BS[1, 2:] = 9  # a token that is nowhere else
    source_BS[0], token_BT = source_BS[0] % 9, token_BT % 9
    model(source_BS, length_B, token_BT).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    assert model.embedding.weight.grad is not None
    assert not model.embedding.weight.grad[9].any()


def test_a_beam_finds_the_best_continuation_for_each_source_of_a_batch() -> None:
    model = model_of("rotary, grouped")
    source_BS, length_B, _ = random_pairs(V, V, 6, 2)

    def search(source_BS: Tensor, length_B: Tensor) -> Any:
        state = model.start(model.encode(source_BS, length_B))
        return beam(model, state, torch.zeros(len(length_B), 1, dtype=torch.long), size=3, limits=[4] * len(length_B), end=0)

    together = search(source_BS, length_B)
    for b, length in enumerate(length_B.tolist()):
        (alone,) = search(source_BS[b : b + 1, :length], length_B[b : b + 1])
        assert [one.tokens for one in together[b]] == [one.tokens for one in alone]


def test_an_alignment_is_the_attention_to_the_source() -> None:
    model = model_of("rotary, grouped")
    source_S, target_T = torch.tensor([3, 4, 5, 0]).numpy(), torch.tensor([7, 8, 0]).numpy()
    aligned = alignment(model, source_S, target_T, ["a", "b", "c", "<eos>"], ["x", "y", "<eos>"], merged=False)
    assert list(aligned.weights)[:2] == ["layer 1", "layer 2"]
    assert aligned.best.shape == (3, 4)
    assert aligned.best.sum(1) == pytest.approx([1, 1, 1])
    # The same from the definition: the first layer's queries and keys.
    attention, stack = model.stack.blocks[0].attention, model.stack
    x_1Nd = stack.blocks[0].attention_norm(model.embedding(torch.tensor([[3, 4, 5, 0, 0, 7, 8]])))  # type: ignore[operator, union-attr]
    q_1HND, k_1GND, _ = attention.split(attention.qkv(x_1Nd), stack.scheme.turn(0, 7))  # type: ignore[operator, union-attr]
    p_HTS = (q_1HND @ k_1GND.mT / 2)[0, :, 4:, :4].softmax(-1)  # a head has 4 numbers
    assert aligned.weights["layer 1"] == pytest.approx(p_HTS.mean(0).detach().numpy())


def test_it_has_one_stack_and_one_embedding() -> None:
    model = seq2seq(PrefixConfig(kind="prefix", width=8, heads=2, depth=3, context=12), V, V)
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names == {"embedding", "stack"}


def test_learned_positions_end() -> None:
    with pytest.raises(ConfigError, match=r"position 13 is beyond model\.context = 12"):
        model_of("learned, untied")(*random_pairs(V, V, 8))
