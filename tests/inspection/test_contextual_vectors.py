"""Layers of a model: torch's and a shallower model's as oracles, padding that changes nothing, and a model left as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import random_model, randomise
from tolerance import assert_equal
from torch import Tensor, nn
from translations import random_translator

from firth.errors import ConfigError
from firth.inspection.contextual_vectors import depth, layer_number, layers, longest
from firth.layers.tap import outputs
from firth.models import (
    AverageConfig,
    ConditionalDecoder,
    Network,
    PrefixConfig,
    RecurrentDecoder,
    RecurrentEncoderConfig,
    TransformerConfig,
    TransformerDecoder,
    TransformerEncoderConfig,
    classifier,
    masked_lm,
    seq2seq,
)
from firth.models.tagger import tagger

VOCAB, CLASSES = 11, 3
TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [7, 0, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 1])


def drawn(model: Any, seed: int = 0) -> Any:
    return randomise(model, seed=seed).double().eval()


def transformer(**options: Any) -> TransformerEncoderConfig:
    return TransformerEncoderConfig(**({"kind": "transformer", "width": 8, "depth": 3, "heads": 2, "context": 8} | options))


def lstm(**options: Any) -> RecurrentEncoderConfig:
    return RecurrentEncoderConfig(**({"kind": "lstm", "width": 6, "depth": 2, "embedding": 5} | options))


DECODER = TransformerConfig(kind="transformer", width=8, depth=2, heads=2, context=8)
# Rotary angles are float32, and rows of this one stand elsewhere in a longer batch.
PREFIX = PrefixConfig(kind="transformer", width=8, depth=2, heads=2, context=16, position="learned")
MODELS: dict[str, tuple[Any, int]] = {  # and how deep it is
    "rnn": (lambda: random_model("rnn", VOCAB), 2),
    "gru, reset before": (lambda: random_model("gru, reset before", VOCAB), 1),
    "transformer": (lambda: random_model("transformer, rotary", VOCAB), 2),
    "average": (lambda: drawn(classifier(AverageConfig(kind="average", width=4), VOCAB, CLASSES)), 0),
    "lstm encoder": (lambda: drawn(classifier(lstm(), VOCAB, CLASSES)), 2),
    "transformer encoder": (lambda: drawn(classifier(transformer(segments=2), VOCAB, CLASSES)), 3),
    "masked": (lambda: drawn(masked_lm(transformer(), VOCAB)), 3),
    "decoder as classifier": (lambda: drawn(classifier(DECODER, VOCAB, CLASSES)), 2),
    "tagger": (lambda: drawn(tagger(lstm(), VOCAB, CLASSES)), 2),
    "rnnenc, reversed": (lambda: random_translator("rnnenc", VOCAB, 5), 2),
    "rnnsearch": (lambda: random_translator("rnnsearch", VOCAB, 5), 1),
    "translating transformer": (lambda: random_translator("transformer", VOCAB, 5), 2),
    "prefix": (
        lambda: drawn(seq2seq(PREFIX, VOCAB, VOCAB)),
        2,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_there_is_the_embedding_and_a_layer_for_each_block_or_level(name: str) -> None:
    build, deep = MODELS[name]
    model = build()
    vectors = layers(model, TOKENS, LENGTHS)
    assert (depth(model), len(vectors)) == (deep, deep + 1)
    table = model.source_embedding if isinstance(model, ConditionalDecoder) else model.embedding
    assert_equal(vectors[0], table.weight[TOKENS].detach())
    assert all(x_BTd.shape[:2] == TOKENS.shape for x_BTd in vectors)


@pytest.mark.parametrize("name", MODELS)
def test_padding_and_the_other_rows_change_nothing(name: str) -> None:
    model = MODELS[name][0]()
    together = layers(model, TOKENS, LENGTHS)
    padded = torch.where(torch.arange(TOKENS.shape[1]) < LENGTHS[:, None], TOKENS, 8)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = layers(model, TOKENS[row : row + 1, :length], LENGTHS[row : row + 1])
        other = layers(model, padded, LENGTHS)
        for mine, own, same in zip(together, alone, other, strict=True):
            assert_equal(mine[row, :length], own[0])
            assert_equal(mine[row, :length], same[row, :length])


def read_by_itself(model: Network, token_BT: Tensor, length_B: Tensor) -> Tensor:
    """The final hidden states, with the encoder or the layers called directly."""
    if isinstance(model, TransformerDecoder):
        with outputs([model.encoder.norm]) as x:
            model.encode(token_BT, length_B)
        return x[0]
    if isinstance(model, RecurrentDecoder):
        return model.encode(token_BT, length_B).memory_BSm
    return model.hidden(token_BT)[0] if hasattr(model, "step") else model.encoder(token_BT, length_B)  # type: ignore[operator, union-attr, return-value]


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"prefix", "rnnenc, reversed", "average"}))
def test_the_last_layer_is_what_the_model_reads_from(name: str) -> None:
    model = MODELS[name][0]()
    last_BTd, expected = layers(model, TOKENS, LENGTHS)[-1], read_by_itself(model, TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert_equal(last_BTd[row, :length], expected[row, :length].detach())


def test_a_source_that_is_read_backwards_has_its_vectors_where_its_tokens_are() -> None:
    model = MODELS["rnnenc, reversed"][0]()
    last_BSd = layers(model, TOKENS, LENGTHS)[-1]
    memory_BSm = model.encode(TOKENS, LENGTHS).memory_BSm  # the last token first
    for row, length in enumerate(LENGTHS.tolist()):
        assert_equal(last_BSd[row, :length], memory_BSm[row, :length].flip(0).detach())


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_levels_are_those_of_torchs_layers_one_by_one(kind: str, bidirectional: bool) -> None:
    model = drawn(classifier(lstm(kind=kind, bidirectional=bidirectional), VOCAB, CLASSES))
    holder = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[kind]
    whole = holder(5, 6, num_layers=2, bidirectional=bidirectional, batch_first=True).double()
    first = holder(5, 6, num_layers=1, bidirectional=bidirectional, batch_first=True).double()
    weights = {
        name.replace("_l0", f"_l{level}"): weight
        for level, layer in enumerate(model.encoder.recurrent.layers)
        for name, weight in layer.state_dict().items()
    }
    whole.load_state_dict(weights)
    first.load_state_dict(model.encoder.recurrent.layers[0].state_dict())
    vectors = layers(model, TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        x_1Te = model.embedding.weight[TOKENS[row : row + 1, :length]]
        assert_equal(vectors[1][row, :length], first(x_1Te)[0][0].detach())
        assert_equal(vectors[2][row, :length], whole(x_1Te)[0][0].detach())


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_layer_is_the_last_of_a_model_with_fewer(placement: str) -> None:
    """But for the norm above the blocks, which only the last one has passed."""
    deep = drawn(masked_lm(transformer(norm_placement=placement), VOCAB))
    vectors = layers(deep, TOKENS, LENGTHS)
    for blocks in (1, 2):
        short = masked_lm(transformer(norm_placement=placement, depth=blocks), VOCAB).double().eval()
        short.load_state_dict(deep.state_dict(), strict=False)
        own = layers(short, TOKENS, LENGTHS)[-1]
        with torch.inference_mode():
            expected = short.encoder.stack.norm(vectors[blocks])  # nothing at all where the norm stands in the block
        for row, length in enumerate(LENGTHS.tolist()):
            assert_equal(own[row, :length], expected[row, :length].detach())


@pytest.mark.parametrize("name", ["lstm encoder", "transformer encoder"])
def test_dropout_is_off_and_the_model_is_left_as_it_was(name: str) -> None:
    settings = lstm(dropout=0.5) if name == "lstm encoder" else transformer(dropout=0.5)
    model = drawn(classifier(settings, VOCAB, CLASSES))
    quiet = layers(model, TOKENS, LENGTHS)
    model.train()
    for one, other in zip(quiet, layers(model, TOKENS, LENGTHS), strict=True):
        assert torch.equal(one, other)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_nothing_stays_on_the_modules_when_a_reading_fails() -> None:
    model = drawn(masked_lm(transformer(position="learned"), VOCAB))
    with pytest.raises(ConfigError, match=r"position 9 is beyond model\.context = 8, where learned"):
        layers(model, torch.zeros(1, 9, dtype=torch.int64), torch.tensor([9]))
    assert not any(module._forward_hooks for module in model.modules())


def test_layers_are_counted_from_either_end() -> None:
    model = MODELS["masked"][0]()
    assert [layer_number(model, layer) for layer in (0, 3, -1, -4)] == [0, 3, 3, 0]
    for layer in (4, -5):
        with pytest.raises(ConfigError, match=rf"layer is {layer}, but this model has layers 0 \(the embedding\) to 3"):
            layer_number(model, layer)
    with pytest.raises(ConfigError, match=r"this model has only layer 0 \(the embedding\)"):
        layer_number(MODELS["average"][0](), 1)


def test_only_learned_positions_end() -> None:
    assert longest(drawn(masked_lm(transformer(position="learned"), VOCAB))) == 8
    assert longest(drawn(masked_lm(transformer(), VOCAB))) is None
    assert longest(MODELS["rnn"][0]()) is None


def test_a_tagger_that_reads_spellings_has_no_vectors_of_tokens_alone() -> None:
    model = drawn(tagger(lstm(characters=4), VOCAB, CLASSES))
    with pytest.raises(ConfigError, match=r"encodes the characters of its words \(model\.spelling\)"):
        layers(model, TOKENS, LENGTHS)
