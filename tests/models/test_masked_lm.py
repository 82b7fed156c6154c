"""Models of masked tokens, and segments: what they compute, of which places, and that padding changes nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from small_models import randomise
from torch import Tensor

from firth.models import (
    EncoderConfig,
    MaskedLM,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
    classifier,
    encoder,
    masked_lm,
    size_of,
)
from firth.models.encoder import TransformerEncoder
from firth.models.initialise import initialise

VOCAB = 11
TRANSFORMER = TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=16)
ENCODERS: dict[str, EncoderConfig] = {
    "transformer": TRANSFORMER,
    "transformer, as BERT": dataclasses.replace(
        TRANSFORMER, position="learned", norm="layer", norm_placement="post", activation="gelu", bias=True
    ),
    "transformer, untied": dataclasses.replace(TRANSFORMER, tied=False),
    "lstm": RecurrentEncoderConfig(kind="lstm", width=6, embedding=4),
    "gru, one way": RecurrentEncoderConfig(kind="gru", width=6, bidirectional=False),
}


def made(name: str) -> MaskedLM:
    model = masked_lm(ENCODERS[name], VOCAB)
    return randomise(model).double().eval()


@pytest.mark.parametrize("name", ENCODERS)
def test_it_reads_one_token_more_than_it_predicts(name: str) -> None:
    model = made(name)
    assert model.embedding.num_embeddings == VOCAB + 1
    assert model(torch.full((2, 5), VOCAB)).shape == (2, 5, VOCAB)
    assert size_of(lambda: masked_lm(ENCODERS[name], VOCAB)) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_and_the_other_rows_change_nothing(name: str) -> None:
    model = made(name)
    texts = [[1, 11, 5], [3, 4, 5, 11, 7, 8, 9], [9]]
    token_BT = torch.zeros(3, 7, dtype=torch.long)
    for row, text in enumerate(texts):
        token_BT[row, : len(text)] = torch.tensor(text)
    length_B = torch.tensor([len(text) for text in texts])
    together = model(token_BT, length_B)
    for row, text in enumerate(texts):
        assert torch.allclose(model(torch.tensor([text]))[0], together[row, : len(text)], rtol=1e-10, atol=1e-12)
    other_BT = torch.where(torch.arange(7) < length_B[:, None], token_BT, 8)
    again = model(other_BT, length_B)
    assert all(torch.equal(again[row, : len(text)], together[row, : len(text)]) for row, text in enumerate(texts))


@pytest.mark.parametrize("name", ENCODERS)
def test_only_the_places_asked_for_pass_the_output_layer_and_give_the_same(name: str) -> None:
    model, seen = made(name), []
    token_BT = torch.randint(VOCAB + 1, (3, 12), generator=torch.Generator().manual_seed(2))
    place_BM = torch.tensor([[0, 5], [3, 4], [11, 0]])
    expected = model(token_BT).gather(1, place_BM[..., None].expand(-1, -1, VOCAB))
    model.transform.register_forward_hook(lambda module, given, result: seen.append(given[0].shape[:-1].numel()))
    logits = model(token_BT, place_BM=place_BM)
    assert seen == [6]
    assert torch.allclose(logits, expected, rtol=1e-10, atol=1e-12)


def test_it_is_the_equation() -> None:
    model = made("transformer, as BERT")
    token_BT = torch.tensor([[1, 11, 5]])
    x_BTd = model.encoder(token_BT)
    weights = dict(model.named_parameters())
    y_BTd = torch.nn.functional.gelu(x_BTd @ weights["transform.weight"].T + weights["transform.bias"])
    mean, variance = y_BTd.mean(-1, keepdim=True), y_BTd.var(-1, keepdim=True, unbiased=False)
    y_BTd = (y_BTd - mean) / (variance + 1e-5).sqrt() * weights["norm.weight"] + weights["norm.bias"]
    expected = y_BTd @ weights["encoder.embedding.weight"][:VOCAB].T + weights["output_bias"]
    assert torch.allclose(model(token_BT), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ENCODERS)
def test_its_first_guess_is_all_tokens_alike(name: str) -> None:
    model = masked_lm(ENCODERS[name], VOCAB)
    initialise(model, torch.Generator().manual_seed(0))
    logits = model(torch.randint(VOCAB + 1, (8, 16), generator=torch.Generator().manual_seed(1)))
    assert 0.3 < float(logits.detach().std()) < 2.0


def segmented(segments: int) -> TransformerEncoder:
    model = encoder(dataclasses.replace(TRANSFORMER, segments=segments), VOCAB)
    assert isinstance(model, TransformerEncoder)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "segment" not in name:
            torch.nn.init.normal_(parameter, 0.0, 0.5, generator=generator)
    return model.double().eval()


TOKENS, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([4, 2])
SEGMENTS = torch.tensor([[0, 0, 1, 1], [1, 0, 0, 0]])


def test_segments_add_a_vector_to_each_token_of_theirs() -> None:
    plain, model = segmented(0), segmented(2)
    assert model.segment is not None
    torch.nn.init.normal_(model.segment.weight)

    def added(token_BT: Tensor, segment_BT: Tensor) -> Tensor:
        assert model.segment is not None
        return plain.read(plain.embedding(token_BT) + model.segment.weight[segment_BT], LENGTHS)

    assert torch.allclose(model(TOKENS, LENGTHS, SEGMENTS), added(TOKENS, SEGMENTS), rtol=1e-12)
    assert torch.allclose(model(TOKENS, LENGTHS), added(TOKENS, torch.zeros_like(SEGMENTS)), rtol=1e-12), "all of the first"
    assert not torch.allclose(model(TOKENS, LENGTHS), model(TOKENS, LENGTHS, SEGMENTS))


def test_without_segments_nothing_is_other_than_it_was() -> None:
    names = [name for name, _ in segmented(0).named_parameters()]
    assert not any("segment" in name for name in names)
    drawn = []
    for segments in (0, 2):
        model = classifier(dataclasses.replace(TRANSFORMER, segments=segments), VOCAB, 2)
        initialise(model, torch.Generator().manual_seed(0))
        drawn.append(model.state_dict())
    assert drawn[1].keys() - drawn[0].keys() == {"encoder.segment.weight"}
    plain = segmented(0)
    assert torch.equal(plain(TOKENS, LENGTHS, SEGMENTS), plain(TOKENS, LENGTHS)), "it does not hear of them"
