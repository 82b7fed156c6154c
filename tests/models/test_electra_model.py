"""The network of ELECTRA: what the generator draws, which tokens count as replaced, and whose weights are whose."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from firth.models import RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.electra import Electra, corrupt, electra, generator_config, sample
from firth.models.initialise import initialise

VOCAB = 13
TRANSFORMER: dict[str, Any] = {"kind": "transformer", "width": 32, "depth": 2, "heads": 4, "context": 16}


def made(share: float = 0.25, **settings: Any) -> Electra:
    model = electra(TransformerEncoderConfig(**(TRANSFORMER | settings)), VOCAB, share)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def test_a_sample_that_equals_the_original_is_labelled_original() -> None:
    token_BT = torch.tensor([[13, 5, 13, 7, 8], [1, 13, 3, 4, 13]])
    place_BM = torch.tensor([[0, 2, 0], [1, 4, 0]])
    target_BM = torch.tensor([[4, 6, -1], [2, 5, -1]])  # the third place of each row is padding
    sample_BM = torch.tensor([[4, 9, 11], [12, 5, 11]])
    read_BT, replaced_BT = corrupt(token_BT, place_BM, target_BM, sample_BM)
    assert read_BT.tolist() == [[4, 5, 9, 7, 8], [1, 12, 3, 4, 5]]
    assert replaced_BT.tolist() == [[False, False, True, False, False], [False, True, False, False, False]]


def test_samples_have_the_generators_probabilities() -> None:
    logits_V = torch.tensor([2.0, 1.0, 0.0, -1.0, -torch.inf])
    count = 40_000
    drawn_N = sample(logits_V.expand(1, count, 5), torch.Generator().manual_seed(0))
    share_V = drawn_N.flatten().bincount(minlength=5).double() / count
    p_V = torch.softmax(logits_V.double(), -1)
    error_V = (p_V * (1 - p_V) / count).sqrt()
    assert ((share_V - p_V).abs() <= 4 * error_V).all(), share_V
    assert torch.equal(drawn_N, sample(logits_V.expand(1, count, 5), torch.Generator().manual_seed(0))), "a seed is a sample"


def test_the_embedding_is_shared_and_saved_once() -> None:
    model = made()
    assert [name for name in model.state_dict() if name.endswith("embedding.weight")] == ["encoder.embedding.weight"]
    assert model.generator.embedding is model.encoder.embedding
    moved = model.double()
    assert moved.generator.embedding.weight.dtype == torch.float64
    assert model.generator.output_layer()[0].shape == (VOCAB, 32), "no logit for <mask>"


@pytest.mark.parametrize(
    "config",
    [
        TransformerEncoderConfig(**(TRANSFORMER | {"width": 64, "position": "learned"})),
        RecurrentEncoderConfig(kind="lstm", width=48, embedding=64),
    ],
    ids=["transformer", "lstm"],
)
def test_the_initial_embedding_gives_the_generator_logits_of_order_one(config: Any) -> None:
    model = electra(config, 500, 0.5)
    initialise(model, torch.Generator().manual_seed(0))
    logits_BTV = model.generator(torch.randint(500, (4, 16), generator=torch.Generator().manual_seed(1)))
    assert 0.5 < float(logits_BTV.detach().std()) < 2
    assert model.embedding_std == 64**-0.5


@pytest.mark.parametrize(
    ("given", "share", "expected"),
    [
        ({}, 0.25, (8, 1, None, None)),
        ({}, 0.5, (16, 2, None, None)),
        ({}, 1.0, (32, 4, None, None)),
        ({"hidden": 96, "kv_heads": 2}, 0.5, (16, 2, 2, 48)),
        ({"kv_heads": 2}, 0.25, (8, 1, 1, None)),
        ({"heads": 1}, 0.25, (8, 1, None, None)),
        ({}, 0.01, (2, 1, None, None)),
    ],
)
def test_the_generator_is_the_discriminator_made_narrower(given: dict[str, Any], share: float, expected: tuple[Any, ...]) -> None:
    config = TransformerEncoderConfig(**(TRANSFORMER | given))
    generator = generator_config(config, share)
    assert isinstance(generator, TransformerEncoderConfig)
    assert (generator.width, generator.attention.heads, generator.attention.kv_heads, generator.feedforward.hidden) == expected
    assert (generator.depth, generator.context, generator.position.kind, generator.norm.kind) == (2, 16, "rotary", "rms")
    assert electra(config, VOCAB, share)(torch.zeros(1, 4, dtype=torch.int64)).shape == (1, 4)


def test_widths_that_agree_need_no_projection() -> None:
    assert not any("project" in name for name in made(1.0).state_dict())
    assert made(0.5).state_dict()["generator.encoder.project.weight"].shape == (16, 32)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_recurrent_encoders_can_be_both(kind: Any) -> None:
    config = RecurrentEncoderConfig(kind=kind, width=12, embedding=10)
    small = generator_config(config, 0.25)
    assert isinstance(small, RecurrentEncoderConfig)
    assert (small.width, small.embedding.width) == (3, None)
    model = electra(config, VOCAB, 0.25)
    token_BT = torch.zeros(2, 5, dtype=torch.int64)
    assert model(token_BT).shape == (2, 5)
    assert model.generator(token_BT).shape == (2, 5, VOCAB)


def test_the_generator_reads_segments_through_the_shared_embedding() -> None:
    model = made(segments=2)
    token_BT = torch.zeros(1, 3, dtype=torch.int64)
    before = model.generator(token_BT).detach()
    with torch.no_grad():
        model.encoder.get_parameter("segment.weight").add_(torch.arange(32.0))
    assert not torch.allclose(before, model.generator(token_BT).detach())


def test_padding_does_not_change_the_other_tokens() -> None:
    model, length_B = made().double().eval(), torch.tensor([4])
    token_BT = torch.tensor([[1, 2, 3, 4, 9, 9]])
    assert torch.allclose(model(token_BT, length_B)[:, :4], model(token_BT[:, :4]), rtol=1e-10)
