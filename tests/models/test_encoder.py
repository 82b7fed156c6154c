"""The classifier of averaged word vectors: what it computes, and that padding and order change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from firth.config import build
from firth.errors import ConfigError
from firth.models import AverageConfig, Classifier, classifier, network, parameters
from firth.models.encoder import mean
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
    found = logits(model, [1, 4, 4], [7]).detach().numpy()
    for text, row in zip(([1, 4, 4], [7]), found, strict=True):
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


def test_the_mean_of_nothing_is_zero() -> None:
    assert mean(torch.ones(1, 2, 3), torch.tensor([0])).tolist() == [[0.0, 0.0, 0.0]]


def test_dropout_acts_in_training_only() -> None:
    model = made(dropout=0.5)
    assert torch.equal(logits(model.eval(), [1, 2]), logits(model.eval(), [1, 2]))
    assert not torch.equal(logits(model.train(), [1, 2]), logits(model.eval(), [1, 2]))


def test_it_is_counted_without_allocating_it() -> None:
    config = AverageConfig(kind="average", width=WIDTH)
    assert parameters(config, VOCAB, CLASSES) == VOCAB * WIDTH + WIDTH * CLASSES + CLASSES
    assert isinstance(network(config, VOCAB, classes=CLASSES), Classifier)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "average", "width": 0}, r"model\.width is 0"),
        ({"kind": "average", "dropout": 1.0}, r"model\.dropout is 1\.0"),
        ({"kind": "average", "vectors_fixed": True}, r"model\.vectors_fixed keeps"),
    ],
)
def test_what_does_not_fit_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(AverageConfig, table, "model")
