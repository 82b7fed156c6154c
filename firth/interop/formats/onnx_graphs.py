"""The ONNX graphs of a network, with their inputs and outputs.

    language model    input_ids_BT → logits_BTV
                      input_ids_BT, past.{n}.key_BGPD, past.{n}.value_BGPD → logits_BTV, present.{n}.key, present.{n}.value
    encoder           input_ids_BT, attention_mask_BT → logits: of each token (masked LM, tagger) or of each text (classifier)
    encoder–decoder   input_ids_BS, attention_mask_BS → source.{n}.key_BGSD, source.{n}.value_BGSD
                      input_ids_BT, attention_mask_BS, source.…, past.… → logits_BTV, present.…

A past may be empty, so that a prompt is the first step of decoding; every row of a batch has the same past. Rows of different
lengths are padded on the right, and their attention_mask is 0 there.

Letters: B batch, T new tokens, P tokens before them, S source, V vocabulary, G key/value heads, D head width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.cross_attention import Source
from firth.layers.recurrent import Recurrent
from firth.layers.self_attention import SelfAttention
from firth.layers.state import AttentionState
from firth.models import Classifier, MaskedLM, Network, TransformerDecoder, TransformerLM
from firth.models.conditional import Translated
from firth.models.stack import Stack
from firth.models.tagger import Tagger

Axes = Mapping[int, str]  # the axes of an input that may have any size, and what they are called
TOKENS, SOURCE_TOKENS = {0: "batch", 1: "length"}, {0: "batch", 1: "source"}
PAST, SOURCE = {0: "batch", 2: "past"}, {0: "batch", 2: "source"}
_B, _T, _P, _S = 2, 3, 4, 5  # of the examples: no two axes have the same size


@dataclass(frozen=True)
class Graph:
    file: str
    module: nn.Module
    inputs: Mapping[str, tuple[Tensor, Axes]]  # an example of each
    outputs: tuple[str, ...]


def graphs(network: Network) -> list[Graph]:
    """All graphs of a network; a ConfigError for a network that has none."""
    if any(isinstance(module, Recurrent) for module in network.modules()):
        raise ConfigError(
            "recurrent layers process a text step by step, so a traced graph would only fit texts of one length. Export "
            "the run as safetensors."
        )
    if any(isinstance(module, Stack) and module.settings.position.steady is not None for module in network.modules()):
        raise ConfigError(
            'model.position.scaling = "dynamic" depends on the length of the text, and a traced graph is the same for every '
            "length. Export the run as safetensors."
        )
    match network:
        case TransformerLM():
            return [_language_model(network), _with_cache(network)]
        case MaskedLM() | Classifier():
            return [_encoder(_Encoder(network))]
        case Tagger():
            _refuse_tagger(network)
            return [_encoder(_TokenTagger(network))]
        case TransformerDecoder():
            return [_source(network), _decoder(network)]
        case _:
            raise ConfigError(
                f"{type(network).__name__} cannot be written as ONNX: only Transformers, and encoders that classify, tag or fill "
                "masks. Export it as safetensors."
            )


@dataclass(frozen=True, eq=False)
class GrownKeyValue:
    """A KeyValue whose memory is not appended to in place, because a graph has no memory: one tensor in, a longer one out."""

    k_BGPD: Tensor
    v_BGPD: Tensor

    @property
    def length(self) -> int:
        return self.k_BGPD.shape[2]

    @property
    def kept(self) -> int:
        return self.length

    def extend(self, k_BGTD: Tensor, v_BGTD: Tensor) -> tuple[Tensor, Tensor, GrownKeyValue]:
        grown = GrownKeyValue(torch.cat((self.k_BGPD, k_BGTD), 2), torch.cat((self.v_BGPD, v_BGTD), 2))
        return grown.k_BGPD, grown.v_BGPD, grown

    def select(self, rows: Tensor) -> GrownKeyValue:
        return GrownKeyValue(self.k_BGPD[rows], self.v_BGPD[rows])


def _state(past: Sequence[Tensor]) -> AttentionState:
    return AttentionState(tuple(GrownKeyValue(*pair) for pair in zip(past[::2], past[1::2], strict=True)))


def _present(state: Any) -> list[Tensor]:
    return [part for layer in state.layers for part in (layer.k_BGPD, layer.v_BGPD)]


def _pairs(prefix: str, depth: int) -> list[str]:
    return [f"{prefix}.{layer}.{what}" for layer in range(depth) for what in ("key", "value")]


def _ids(rows: int, length: int) -> Tensor:
    return torch.zeros(rows, length, dtype=torch.long)


def _texts(length: int, axes: Axes) -> dict[str, tuple[Tensor, Axes]]:
    return {"input_ids": (_ids(_B, length), axes), "attention_mask": (torch.ones_like(_ids(_B, length)), axes)}


class _OfNetwork(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network: Any = network


# Language models


class _Logits(_OfNetwork):
    def forward(self, input_ids: Tensor) -> Tensor:
        logits_BTV: Tensor = self.network(input_ids)[0]
        return logits_BTV


class _CachedLogits(_OfNetwork):
    def forward(self, input_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        logits_BTV, state = self.network(input_ids, _state(past))
        return logits_BTV, *_present(state)


def _language_model(network: TransformerLM) -> Graph:
    return Graph("model.onnx", _Logits(network), {"input_ids": (_ids(_B, _T), TOKENS)}, ("logits",))


def _with_cache(network: TransformerLM) -> Graph:
    inputs = {"input_ids": (_ids(_B, _T), TOKENS), **_keys_and_values("past", network, _P, PAST)}
    outputs = ("logits", *_pairs("present", len(network.blocks)))
    return Graph("model_with_cache.onnx", _CachedLogits(network), inputs, outputs)


def _keys_and_values(prefix: str, stack: Stack, length: int, axes: Axes) -> dict[str, tuple[Tensor, Axes]]:
    blocks: Any = stack.blocks
    inputs: dict[str, tuple[Tensor, Axes]] = {}
    for layer, block in enumerate(blocks):
        attention = block.attention
        if not isinstance(attention, SelfAttention):
            raise ConfigError(
                f"layer {layer} is {type(attention).__name__}, whose state is not keys and values; ONNX export has no cache for "
                "it. Export it as safetensors."
            )
        example_BGPD = torch.zeros(_B, attention.kv_heads, length, attention.head_width)
        inputs |= {f"{prefix}.{layer}.{what}": (example_BGPD.clone(), axes) for what in ("key", "value")}
    return inputs


# Encoders


class _Encoder(_OfNetwork):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.network(input_ids, attention_mask.sum(1))
        return logits


class _TokenTagger(_OfNetwork):
    """Logits_BTC of every token; those of a word are those of its first token."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits_BTC: Tensor = self.network.scores(self.network.encoder(input_ids, attention_mask.sum(1)))
        return logits_BTC


def _encoder(module: nn.Module) -> Graph:
    return Graph("model.onnx", module, _texts(_T, TOKENS), ("logits",))


def _refuse_tagger(network: Tagger) -> None:
    if network.spelling is not None:
        raise ConfigError(
            "this tagger also reads the characters of words (model.spelling), for which the ONNX graph has no input."
        )
    if network.readout.kind != "softmax":
        raise ConfigError(
            f'this tagger has model.readout = "{network.readout.kind}", whose search cannot be part of an ONNX graph.'
        )


# Encoder–decoders


class _Sources(_OfNetwork):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        sources = self.network.encode(input_ids, attention_mask.sum(1))
        return tuple(part for source in sources for part in (source.k_BGSD, source.v_BGSD))


class _Decoder(_OfNetwork):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, *keys_and_values: Tensor) -> tuple[Tensor, ...]:
        of_sources = 2 * len(self.network.decoder.blocks)
        of_source, past = keys_and_values[:of_sources], keys_and_values[of_sources:]
        length_B = attention_mask.sum(1)
        sources = tuple(Source(k, v, length_B) for k, v in zip(of_source[::2], of_source[1::2], strict=True))
        logits_BTV, state = self.network.step(input_ids, Translated(_state(past), sources))
        return logits_BTV, *_present(state.own)


def _source(network: TransformerDecoder) -> Graph:
    outputs = tuple(_pairs("source", len(network.decoder.blocks)))
    return Graph("encoder.onnx", _Sources(network), _texts(_S, SOURCE_TOKENS), outputs)


def _decoder(network: TransformerDecoder) -> Graph:
    stack = network.decoder
    inputs: dict[str, tuple[Tensor, Axes]] = {
        **_texts(_S, SOURCE_TOKENS),
        "input_ids": (_ids(_B, _T), TOKENS),
        **_keys_and_values("source", stack, _S, SOURCE),
        **_keys_and_values("past", stack, _P, PAST),
    }
    outputs = ("logits", *_pairs("present", len(stack.blocks)))
    return Graph("decoder.onnx", _Decoder(network), inputs, outputs)
