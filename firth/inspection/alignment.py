"""The alignment of target and source words: RNNsearch's α, or the cross-attention of a Transformer.

Letters: H heads, T target, S source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.figures.alignment import MOST_CELLS, alignment_html, alignment_map, alignment_text
from firth.figures.figure import Drawn, Figure
from firth.inspection.merge_pieces import merge, words_of
from firth.layers.attention.weights import weights
from firth.layers.cross_attention import Source
from firth.layers.tap import attention_calls
from firth.models import ConditionalDecoder, PrefixDecoder, RecurrentDecoder, TransformerDecoder
from firth.models.prefix import RightAligned

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Drawn):
    """Rows are target words, columns are source words; both end with <eos>. A row holds the attention weights from which its
    word was predicted, and sums to 1. The first matrix of `weights` is the recommended one; for a Transformer there is one for
    each layer (the mean over its heads) and one for each head."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Mapping[str, Array]

    @property
    def best(self) -> Array:
        """α_TS, the first of the weights."""
        return next(iter(self.weights.values()))

    def figure(self) -> Figure:
        return alignment_map(self.source, self.target, {name: rows.tolist() for name, rows in self.weights.items()})

    def _repr_html_(self) -> str:
        if len(self.source) * len(self.target) > MOST_CELLS:
            return super()._repr_html_()
        return alignment_html(self.source, self.target, self.best.tolist(), next(iter(self.weights)))

    def text(self, width: int = 80) -> str:
        return alignment_text(self.source, self.target, self.best.tolist(), width)


def alignment(
    network: ConditionalDecoder,
    source_S: Ints,
    target_T: Ints,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    *,
    merged: bool,
    start: int | None = None,
) -> Alignment:
    """Both sides end with <eos>. `merged`: merge subwords into words, see merge_pieces.py. `start`: the decoder's first input, if
    it is not <eos>."""
    source, columns = words_of(source_pieces, merged=merged)
    target, rows = words_of(target_pieces, merged=merged)
    device = next(network.parameters()).device
    source_1S = torch.from_numpy(source_S).unsqueeze(0).to(device)
    length_1 = torch.tensor([len(source_S)], device=device)
    alphas = attention_weights(network, lambda: network.encode(source_1S, length_1), target_T, start)
    return Alignment(tuple(source), tuple(target), {name: merge(alpha_TS, rows, columns) for name, alpha_TS in alphas.items()})


@torch.inference_mode()
def attention_weights(
    network: ConditionalDecoder, encode: Callable[[], Any], target_T: Ints, start: int | None = None
) -> dict[str, Array]:
    """α_TS by name: the weights with which each token of `target_T` attends to what `encode` returns, a memory of one row."""
    device = next(network.parameters()).device
    first = target_T[-1] if start is None else start  # <eos>, then the target shifted by one
    input_1T = torch.from_numpy(np.append(first, target_T[:-1])).unsqueeze(0).to(device)
    match network:
        case RecurrentDecoder() if network.config.attention == "none":
            raise ConfigError(
                'this model has no attention (model.attention = "none"), so there is no alignment. Use a run with attention'
            )
        case RecurrentDecoder():
            return {"α": _plain(network.alignment_to(encode(), input_1T)[0])}
        case TransformerDecoder():
            return _named([_plain(p_HTS) for p_HTS in _cross(network, encode(), input_1T)])
        case PrefixDecoder():
            return _named([_plain(p_HTS) for p_HTS in _prefix(network, encode(), input_1T)])
    raise ConfigError(f"{type(network).__name__} has no alignment. Use a translation model with attention")


def _cross(network: TransformerDecoder, memory: tuple[Source, ...], input_1T: Tensor) -> list[Tensor]:
    """The weights of each layer, recomputed after a forward pass on the model's usual kernel."""
    with ExitStack() as stack:
        noted = [stack.enter_context(attention_calls(block.cross)) for block in network.decoder.blocks]  # type: ignore[arg-type]
        network.teacher_forced(input_1T, memory)
    return [weights(calls[0])[0] for calls in noted]


def _prefix(network: PrefixDecoder, memory: RightAligned, input_1T: Tensor) -> list[Tensor]:
    """The attention from target to source. Target tokens also attend to each other, so the source weights are renormalised."""
    S = memory.token_BS.shape[1]
    with attention_calls(network.stack) as calls:
        network.teacher_forced(input_1T, memory)
    rows_of_layers = [weights(call, rows=slice(S, None))[0, :, :, :S] for _, call in sorted(calls.items())]
    return [p_HTS / p_HTS.sum(-1, keepdim=True) for p_HTS in rows_of_layers]


def _named(layers: Sequence[Array]) -> dict[str, Array]:
    """First the second-to-last layer, which aligns best (Garg et al. 2019, §4.1), then the other layers, then every head."""
    first = max(0, len(layers) - 2)
    order = [first, *(layer for layer in range(len(layers)) if layer != first)]
    means = {f"layer {layer + 1}": layers[layer].mean(0) for layer in order}
    heads = {
        f"layer {layer + 1}, head {head + 1}": alpha_TS
        for layer, alpha_HTS in enumerate(layers)
        for head, alpha_TS in enumerate(alpha_HTS)
    }
    return means | (heads if len(layers[0]) > 1 else {})


def _plain(x: Tensor) -> Array:
    array: Array = x.double().cpu().numpy()
    return array
