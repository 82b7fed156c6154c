"""Contextual vectors: the output of each layer of a model for the tokens of a text.

Layer 0 is the embedding, without positions: the same vector for every occurrence of a token. Layer n is the output of layer n. In
a pre-norm Transformer, the last layer is taken after the final norm, because that is the model's output.
Letters: B batch, T time, d width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.recurrent import Recurrent
from firth.layers.tap import outputs
from firth.models import (
    ConditionalDecoder,
    LanguageModel,
    Network,
    Readout,
    RecurrentDecoder,
    RecurrentLM,
    TransformerDecoder,
    TransformerLM,
)
from firth.models.encoder import Encoder, RecurrentEncoder, TransformerEncoder, WordEncoder
from firth.models.prefix import PrefixDecoder
from firth.models.readouts import CausalEncoder
from firth.models.seq2seq import reversed_rows
from firth.models.stack import Stack
from firth.models.tagger import Tagger


def depth(network: Network) -> int:
    """The number of layers above the embedding."""
    match _reader(network):
        case Stack() as stack:
            return len(stack.mixers)
        case Recurrent() as recurrent:
            return len(recurrent.layers)
        case _:
            return 0


def layer_number(network: Network, layer: int) -> int:
    """`layer` as a number from 0 to depth; negative numbers count from the end, −1 is the last."""
    most = depth(network)
    if not -most - 1 <= layer <= most:
        there = f"layers 0 (the embedding) to {most}" if most else "only layer 0 (the embedding)"
        raise ConfigError(f"layer is {layer}, but this model has {there}. Negative numbers count from the end")
    return layer % (most + 1)


def longest(network: Network) -> int | None:
    """The largest number of tokens the model accepts; None means no limit. Only learned positions have one."""
    match _reader(network):
        case Stack(settings=settings):
            return settings.longest
        case _:
            return None


@torch.inference_mode()
def layers(network: Network, token_BT: Tensor, length_B: Tensor) -> list[Tensor]:
    """x_BTd of every layer 0 … depth from one forward pass; ignore positions from length_B[b] on.

    A Transformer runs normally with taps on its blocks. The layers of a recurrent model are run one by one."""
    was_training = network.training
    network.eval()
    try:
        return [_embedded(network, token_BT), *_above(network, token_BT, length_B)]
    finally:
        network.train(was_training)


def _above(network: Network, token_BT: Tensor, length_B: Tensor) -> list[Tensor]:
    match network:
        case Tagger() if network.spelling is not None:
            raise ConfigError(
                "this tagger also encodes the characters of its words (model.spelling), so its tokens have no vectors of their "
                "own. Use a run without model.spelling"
            )
        case Readout(encoder=CausalEncoder() as encoder):
            return _of_language(encoder.decoder, token_BT, length_B)
        case Readout():
            return _of_encoder(network.encoder, token_BT, length_B)
        case LanguageModel():
            return _of_language(network, token_BT, length_B)
        case ConditionalDecoder(reads_text=True):
            return _of_source(network, token_BT, length_B)
        case _:
            raise _unknown(network)


def _of_language(network: LanguageModel, token_BT: Tensor, length_B: Tensor) -> list[Tensor]:
    match network:
        case RecurrentLM():
            return _levels(network.recurrent, network.embedding(token_BT), length_B)
        case TransformerLM():
            return _blocks(network, lambda: network.hidden(token_BT))
    raise _unknown(network)


def _of_encoder(encoder: Encoder, token_BT: Tensor, length_B: Tensor) -> list[Tensor]:
    match encoder:
        case RecurrentEncoder():
            return _levels(encoder.recurrent, encoder.embedding(token_BT), length_B)
        case TransformerEncoder():
            return _blocks(encoder.stack, lambda: encoder(token_BT, length_B))
        case WordEncoder():
            return []
    raise _unknown(encoder)


def _of_source(network: ConditionalDecoder, token_BT: Tensor, length_B: Tensor) -> list[Tensor]:
    match network:
        case RecurrentDecoder() if network.encoder.reverse:  # it encodes the last token first
            x_BTe = network.source_embedding(reversed_rows(token_BT, length_B))
            place_BT = reversed_rows(_places(token_BT), length_B)
            return [_at(x_BTd, place_BT) for x_BTd in _levels(network.encoder, x_BTe, length_B)]
        case RecurrentDecoder():
            return _levels(network.encoder, network.source_embedding(token_BT), length_B)
        case TransformerDecoder():
            return _blocks(network.encoder, lambda: network.encode(token_BT, length_B))
        case PrefixDecoder():  # its rows are padded on the left
            prompt = network.encode(token_BT, length_B)
            place_BT = (_places(token_BT) + prompt.before_B[:, None]).clamp(max=token_BT.shape[1] - 1)
            return [_at(x_BTd, place_BT) for x_BTd in _blocks(network.stack, lambda: network.start(prompt))]
    raise _unknown(network)


def _blocks(stack: Stack, read: Callable[[], Any]) -> list[Tensor]:
    with outputs([*stack.blocks, stack.norm]) as x:  # a block of several layers runs once for each
        read()
    return [*x[:-2], x[-1]]


def _levels(recurrent: Recurrent, x_BTi: Tensor, length_B: Tensor) -> list[Tensor]:
    state, levels = recurrent.initial_state(len(x_BTi)), []
    for n in range(len(recurrent.layers)):
        x_BTi, _ = recurrent.run_layer(n, x_BTi, state, length_B)
        levels.append(x_BTi)
    return levels


def _embedded(network: Network, token_BT: Tensor) -> Tensor:
    x_BTe: Tensor = network.source_embedding(token_BT)
    return x_BTe


def _reader(network: Network) -> Stack | Recurrent | None:
    """The layers above the embedding; None if there are none."""
    match network.encoder if isinstance(network, Readout) else network:
        case CausalEncoder(decoder=TransformerLM() as stack) | (TransformerLM() as stack):
            return stack
        case CausalEncoder(decoder=RecurrentLM() as model) | (RecurrentLM() as model) | (RecurrentEncoder() as model):
            return model.recurrent
        case TransformerEncoder() | PrefixDecoder() as model:
            return model.stack
        case TransformerDecoder(reads_text=True, encoder=above) | RecurrentDecoder(reads_text=True, encoder=above):
            read_by: Stack | Recurrent = above
            return read_by
        case WordEncoder():
            return None
        case other:
            raise _unknown(other)


def _places(token_BT: Tensor) -> Tensor:
    return torch.arange(token_BT.shape[1], device=token_BT.device).expand_as(token_BT)


def _at(x_BTd: Tensor, place_BT: Tensor) -> Tensor:
    return x_BTd.take_along_dim(place_BT.unsqueeze(-1), dim=1)


def _unknown(module: nn.Module) -> ConfigError:
    return ConfigError(f"{type(module).__name__} has no contextual vectors. Use a language model, an encoder or a seq2seq model")
