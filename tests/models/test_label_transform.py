"""The hidden layer before the output layer of classifiers, taggers and question answerers, and the masked language model's."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch
from torch import nn

from firth.errors import ConfigError
from firth.interop.formats.onnx_graphs import graphs
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer
from firth.models.initialise import initialise
from firth.models.network import Network
from firth.models.question_answering import question_answerer
from firth.models.readouts import Transform, classifier, masked_lm
from firth.models.tagger import tagger

VOCAB = 20
N = TypeVar("N", bound=Network)


def config(**settings: object) -> TransformerEncoderConfig:
    table = {"width": 16, "depth": 1, "context": 12, "norm.kind": "layer", "norm.eps": 0.1, "transform": True, "dropout": 0.1}
    return transformer(TransformerEncoderConfig, table | settings)


def drawn(network: N) -> N:
    initialise(network, torch.Generator().manual_seed(0))
    for parameter in network.parameters():  # biases and gains of their own
        parameter.data += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(parameter))) / 4
    return network.eval()


@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_it_is_the_hidden_layer_of_a_masked_language_model(bias: bool) -> None:
    settings = config(transform_bias=bias)
    masked, network = drawn(masked_lm(settings, VOCAB)), drawn(tagger(settings, VOCAB + 1, 3))
    network.encoder.load_state_dict(masked.encoder.state_dict())
    transform = network.transform
    assert transform is not None
    transform.dense.load_state_dict(masked.transform.state_dict())
    transform.norm.load_state_dict(masked.norm.state_dict())
    token_BT, length_B = torch.arange(8).view(2, 4), torch.tensor([4, 3])
    expected_BTC = network.output(masked.hidden(token_BT, length_B))
    every_BT = torch.arange(4).expand(2, 4)
    logits_BTC = network(token_BT, length_B, every_BT, torch.zeros(2, 4, 1, dtype=torch.int64))
    assert torch.equal(logits_BTC, expected_BTC)
    assert not torch.allclose(logits_BTC, network.output(network.encoder(token_BT, length_B)))


@torch.inference_mode()
def test_a_classifier_pools_first_and_a_reader_transforms_every_token() -> None:
    token_BT, length_B = torch.arange(8).view(2, 4), torch.tensor([4, 3])
    one = drawn(classifier(config(pool="mean"), VOCAB, 3))
    x_BTd = one.encoder(token_BT, length_B)
    assert one.transform is not None
    mean_Bd = torch.stack([x_BTd[0].mean(0), x_BTd[1, :3].mean(0)])
    torch.testing.assert_close(one(token_BT, length_B), one.output(one.transform(mean_Bd)))
    reader = drawn(question_answerer(config(), VOCAB))
    assert reader.transform is not None
    ends_BT2 = reader.output(reader.transform(reader.encoder(token_BT, length_B)))
    start_BT, _ = reader(token_BT, length_B, torch.tensor([1, 1]))
    assert torch.equal(start_BT[0, 1:3], ends_BT2[0, 1:3, 0])


def test_without_the_setting_there_is_none_and_with_a_pooler_it_is_refused() -> None:
    networks: list[nn.Module] = [classifier(config(transform=False), VOCAB, 3), tagger(config(transform=False), VOCAB, 3)]
    assert not any(isinstance(module, Transform) for network in networks for module in network.modules())
    with pytest.raises(ConfigError, match=r'model\.transform = true and model\.pooler = "tanh"'):
        config(pooler="tanh")


@torch.inference_mode()
def test_an_exported_graph_of_a_tagger_has_it() -> None:
    network = drawn(tagger(config(), VOCAB, 3))
    token_BT, length_B = torch.arange(8).view(2, 4), torch.tensor([4, 3])
    every_BT = torch.arange(4).expand(2, 4)
    expected_BTC = network(token_BT, length_B, every_BT, torch.zeros(2, 4, 1, dtype=torch.int64))
    (graph,) = graphs(network)
    logits_BTC = graph.module(token_BT, (every_BT < length_B[:, None]).long())
    assert torch.equal(logits_BTC[0], expected_BTC[0])
    assert torch.equal(logits_BTC[1, :3], expected_BTC[1, :3])
