"""Classifiers: what they compute, and that padding changes nothing."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from small_models import randomise

from firth.config import build
from firth.errors import ConfigError
from firth.layers.pool import Pool, PoolKind
from firth.layers.recurrent import CELLS
from firth.models import (
    AverageConfig,
    Classifier,
    EncoderConfig,
    LanguageConfig,
    RecurrentConfig,
    RecurrentEncoderConfig,
    TransformerConfig,
    TransformerEncoderConfig,
    classifier,
    language_model,
    size_of,
)
from firth.models.encoder import RecurrentEncoder
from firth.models.initialise import initialise

VOCAB, WIDTH, CLASSES = 11, 5, 3


def made(dropout: float = 0.0) -> Classifier:
    model = classifier(AverageConfig(kind="average", width=WIDTH, dropout=dropout), VOCAB, CLASSES)
    initialise(model, torch.Generator().manual_seed(0))
    return model.double()


def logits(model: Classifier, *texts: list[int], padding: int = 0) -> torch.Tensor:
    longest = max(map(len, texts))
    token_BT = torch.tensor([text + [padding] * (longest - len(text)) for text in texts])
    return model(token_BT, torch.tensor([len(text) for text in texts]))  # type: ignore[no-any-return]


def test_it_is_the_equation() -> None:
    model = made().eval()
    weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    logits_NC = logits(model, [1, 4, 4], [7]).detach().numpy()
    for text, row in zip(([1, 4, 4], [7]), logits_NC, strict=True):
        x_d = sum(weights["encoder.embedding.weight"][token] for token in text) / len(text)
        assert np.allclose(row, weights["output.weight"] @ x_d + weights["output.bias"], rtol=1e-12)


def test_it_equals_torchs_embedding_bag() -> None:
    model = made().eval()
    bag = torch.nn.EmbeddingBag.from_pretrained(model.embedding.weight, mode="mean")
    expected = model.output(bag(torch.tensor([3, 1, 2, 9, 9]), torch.tensor([0, 3])))
    assert torch.allclose(logits(model, [3, 1, 2], [9, 9]), expected, rtol=1e-12)


def test_padding_and_the_other_rows_change_nothing() -> None:
    model = made().eval()
    alone = logits(model, [1, 2])
    assert torch.allclose(logits(model, [1, 2], [3, 4, 5, 6, 7])[:1], alone, rtol=1e-12)
    assert torch.equal(logits(model, [1, 2], [3] * 5, padding=8), logits(model, [1, 2], [3] * 5, padding=0))


def test_what_is_padded_learns_nothing() -> None:
    model = made()
    logits(model, [1, 2], [3, 4, 5], padding=8).sum().backward()
    assert model.embedding.weight.grad is not None
    assert set(model.embedding.weight.grad.abs().sum(1).nonzero().flatten().tolist()) == {1, 2, 3, 4, 5}


def test_the_order_of_the_words_does_not_matter() -> None:
    model = made().eval()
    assert torch.allclose(logits(model, [1, 2, 3]), logits(model, [3, 1, 2]), rtol=1e-12)


ENCODERS: dict[str, EncoderConfig] = {
    **{kind: RecurrentEncoderConfig(kind=kind, width=6, embedding=4, depth=2) for kind in CELLS.shipped_kinds},
    "rnn, mean": RecurrentEncoderConfig(kind="rnn", width=6, pool="mean"),
    "gru, last": RecurrentEncoderConfig(kind="gru", width=6, bidirectional=False, pool="last"),
    "gru, attention": RecurrentEncoderConfig(kind="gru", width=6, pool="attention"),
    "transformer": TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=16),
    "transformer, first": TransformerEncoderConfig(
        kind="transformer", width=8, depth=1, heads=2, context=16, pool="first", position="learned", norm="layer", bias=True
    ),
    "transformer, t5": TransformerEncoderConfig(
        kind="transformer", width=8, depth=1, heads=2, context=16, pool="max", position="t5", distance_buckets=8, max_distance=12
    ),
}


DECODERS: dict[str, LanguageConfig] = {
    "rnn": RecurrentConfig(kind="rnn", width=6),
    "lstm": RecurrentConfig(kind="lstm", width=6, embedding=4, depth=2, tied=True),
    "transformer": TransformerConfig(kind="transformer", width=8, depth=2, heads=2, context=16, tied=False),
    "transformer, learned": TransformerConfig(kind="transformer", width=8, depth=1, heads=2, context=16, position="learned"),
}
READERS = ENCODERS | {f"decoder, {name}": config for name, config in DECODERS.items()}


def reader(name: str) -> Classifier:
    return randomise(classifier(READERS[name], VOCAB, CLASSES)).double().eval()


@pytest.mark.parametrize("name", READERS)
def test_a_text_is_read_as_it_would_be_alone_whatever_stands_behind_it(name: str) -> None:
    model = reader(name)
    texts = [[1, 2, 5], [3, 4, 5, 6, 7, 8, 9], [9]]
    together = logits(model, *texts)
    for text, row in zip(texts, together, strict=True):
        assert torch.allclose(logits(model, text)[0], row, rtol=1e-10, atol=1e-12)
    assert torch.equal(logits(model, *texts, padding=8), together)
    assert not torch.allclose(logits(model, [1, 2, 5]), logits(model, [5, 2, 1])), "order matters"


def test_a_recurrent_reader_is_torchs_lstm_and_the_maximum_of_its_outputs() -> None:
    model = reader("lstm")
    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoder)
    plain = torch.nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True).double()
    weights = {}
    for level, layer in enumerate(encoder.recurrent.layers):
        for key, value in layer.state_dict().items():
            weights[key.replace("_l0", f"_l{level}")] = value
    plain.load_state_dict(weights)
    text = torch.tensor([[3, 1, 4, 1, 5]])
    expected = model.output(plain(encoder.embedding(text))[0].amax(1))
    assert torch.allclose(model(text, torch.tensor([5])), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", get_args(PoolKind))
def test_a_pool_is_its_equation_over_the_tokens_that_are_there(kind: Any) -> None:
    x_BTd = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pool = Pool(kind, 4).double()
    query_d = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if pool.query_d is not None:
        pool.query_d.data.copy_(query_d)
    pooled_Bd = pool(x_BTd, torch.tensor([5, 2, 0]))
    for row, length in enumerate((5, 2)):
        x_Td = x_BTd[row, :length]
        expected = {
            "first": x_Td[0],
            "last": x_Td[-1],
            "mean": x_Td.mean(0),
            "max": x_Td.amax(0),
            "attention": torch.softmax(x_Td @ query_d / 2, 0) @ x_Td,
        }[kind]
        assert torch.allclose(pooled_Bd[row], expected, rtol=1e-12)
    assert pooled_Bd[2].tolist() == [0.0] * 4, "no tokens, no vector"


def test_dropout_acts_in_training_only() -> None:
    model = made(dropout=0.5)
    assert torch.equal(logits(model.eval(), [1, 2]), logits(model.eval(), [1, 2]))
    assert not torch.equal(logits(model.train(), [1, 2]), logits(model.eval(), [1, 2]))


def test_it_is_counted_without_allocating_it() -> None:
    config = AverageConfig(kind="average", width=WIDTH)
    assert size_of(lambda: classifier(config, VOCAB, CLASSES)) == VOCAB * WIDTH + WIDTH * CLASSES + CLASSES
    assert isinstance(classifier(config, VOCAB, CLASSES), Classifier)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "average", "width": 0}, r"model\.width is 0"),
        ({"kind": "average", "dropout": 1.0}, r"model\.dropout is 1\.0"),
        ({"kind": "average", "vectors_fixed": True}, r"model\.embedding\.vectors_fixed needs"),
    ],
)
def test_what_does_not_fit_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(AverageConfig, table, "model")


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_all_of_a_text(name: str) -> None:
    model, text = reader(f"decoder, {name}"), [3, 4, 5, 6, 7, 8, 9]
    changed = [logits(model, [*text[:n], 1, *text[n + 1 :]]) for n in range(7)]
    assert all(not torch.allclose(row, logits(model, text), rtol=1e-6) for row in changed), "the last token has seen every other"


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_the_language_model_without_its_output_layer(name: str) -> None:
    model = reader(f"decoder, {name}")
    alone = language_model(DECODERS[name], VOCAB).double().eval()
    weights = {key.removeprefix("encoder.decoder."): value for key, value in model.state_dict().items() if "decoder." in key}
    missing = alone.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys
    assert set(missing.missing_keys) <= {"output.weight", "output.bias", "output_bias"}
    token_BT = torch.tensor([[1, 2, 5, 7]])
    expected = alone.hidden(token_BT)[0][:, -1] @ model.output.weight.T + model.output.bias
    assert torch.allclose(model(token_BT, torch.tensor([4])), expected, rtol=1e-12)
    x_BTd = model.encoder(token_BT)
    assert torch.allclose(model.encoder(torch.tensor([[1, 2, 9, 9]]))[:, :2], x_BTd[:, :2], rtol=1e-10), "causal"


@pytest.mark.parametrize("name", DECODERS)
def test_every_weight_of_a_decoder_that_classifies_learns(name: str) -> None:
    model = reader(f"decoder, {name}")
    logits(model, [1, 2, 5], [3, 4]).sum().backward()
    assert not [key for key, parameter in model.named_parameters() if parameter.grad is None]


def test_only_learned_positions_end_somewhere() -> None:
    assert reader("decoder, transformer, learned").context == 16
    assert reader("decoder, transformer").context is None
    assert reader("decoder, lstm").context is None


@pytest.mark.parametrize("name", ["lstm", "transformer, t5"])
def test_rows_of_equal_length_are_read_without_a_mask_and_alike(name: str) -> None:
    model = reader(name)
    lengths: list[object] = []
    model.encoder.register_forward_pre_hook(lambda module, given: lengths.append(given[1]))
    texts = [[1, 2, 5], [3, 4, 5]]
    equal = logits(model, *texts)
    assert torch.allclose(logits(model, *texts, [6, 7, 8, 9])[:2], equal, rtol=1e-10)
    assert [length_B is None for length_B in lengths] == [True, False]
