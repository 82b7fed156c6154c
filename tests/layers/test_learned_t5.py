"""Learned positions and T5's buckets in one scheme: each alone where the other's table is zero, and MPNet's buckets."""

from __future__ import annotations

import pytest
import torch

from firth.errors import ConfigError
from firth.layers.position.t5 import bucket
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer
from firth.models.encoder import EmbeddingEncoder, encoder
from firth.models.initialise import initialise
from firth.models.readouts import masked_lm

CONTEXT, VOCAB = 8, 20
TOKEN_BT, LENGTH_B = torch.arange(12).view(2, 6), torch.tensor([6, 4])
BUCKETS = {"position.buckets": 6, "position.max_distance": 5}


def reader(kind: str, **settings: object) -> EmbeddingEncoder:
    table = {"width": 16, "depth": 2, "context": CONTEXT, "position.kind": kind} | settings
    return encoder(transformer(TransformerEncoderConfig, table), VOCAB).eval()


def tables() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(CONTEXT, 16, generator=generator), torch.randn(6, 4, generator=generator)


@pytest.mark.parametrize("alone", ["learned", "t5"])
@torch.inference_mode()
def test_with_one_table_of_zeros_it_is_the_other_scheme(alone: str) -> None:
    table_Td, table_NH = tables()
    both, one = reader("learned_t5", **BUCKETS), reader(alone, **(BUCKETS if alone == "t5" else {}))
    for name, parameter in both.named_parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) / 4)
    own = {"table_Td": table_Td * (alone == "learned"), "table_NH": table_NH * (alone == "t5")}
    for name, table in own.items():
        both.get_parameter(f"stack.position.{name}").copy_(table)
    weights = {name.replace("position.table_NH", "relative.table_NH"): one for name, one in both.state_dict().items()}
    one.load_state_dict({name: weights[name] for name in one.state_dict()})
    torch.testing.assert_close(both(TOKEN_BT, LENGTH_B), one(TOKEN_BT, LENGTH_B))
    both.get_parameter("stack.position.table_Td").copy_(table_Td)
    both.get_parameter("stack.position.table_NH").copy_(table_NH)
    assert not torch.allclose(both(TOKEN_BT, LENGTH_B), one(TOKEN_BT, LENGTH_B))


def test_at_first_vectors_are_as_large_as_tokens_and_buckets_zero_and_they_end_with_the_context() -> None:
    settings = transformer(TransformerEncoderConfig, {"width": 64, "depth": 1, "context": 64, "position.kind": "learned_t5"})
    network = masked_lm(settings, VOCAB)
    initialise(network, torch.Generator().manual_seed(0))
    position = network.encoder.get_submodule("stack.position")
    assert position.get_parameter("table_Td").std().item() == pytest.approx(64**-0.5, rel=0.1)
    assert not position.get_parameter("table_NH").any()
    assert network.context == 64
    with pytest.raises(ConfigError, match=r"position 65 is beyond model\.context = 64"):
        network(torch.zeros(1, 65, dtype=torch.int64))


def test_buckets_that_cannot_widen_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.position\.max_distance = 3 leaves no room"):
        reader("learned_t5", **{"position.buckets": 8, "position.max_distance": 3})


def test_the_bucket_of_every_distance_is_mpnets() -> None:
    modeling = pytest.importorskip("transformers.models.mpnet.modeling_mpnet")
    distance = torch.arange(-300, 301)
    theirs = modeling.MPNetEncoder.relative_position_bucket(distance)
    assert torch.equal(bucket(distance, 32, True, 128), theirs)
