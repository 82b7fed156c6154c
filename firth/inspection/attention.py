"""The attention of a model on a text, for all layers and heads, as one object.

Letters: L layers, H heads, Q queries (rows), K keys (columns), T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError, DataError, did_you_mean, index_range
from firth.figures.alignment import MOST_CELLS, alignment_html, alignment_text
from firth.figures.attention import HeadFacts, attention_lines, attention_map, attention_overview, entropy_map, entropy_text
from firth.figures.figure import Drawn, Figure
from firth.inspection.inputs import Reading, word_numbers
from firth.inspection.merge_pieces import merge
from firth.inspection.rollout import rollout
from firth.layers.attention.call import Call
from firth.layers.attention.chunked import ELEMENTS_ON_GPU
from firth.layers.attention.weights import Some, statistics, weights
from firth.layers.self_attention import Tapped
from firth.layers.tap import attention_layers, calls_noticed
from firth.models import PrefixDecoder, RecurrentDecoder, TransformerDecoder

Array = npt.NDArray[np.float32]

ELEMENTS = 1 << 20  # weights computed at a time: 4 MB stay in the processor's cache over several passes
MOST_TOKENS = 2048  # in a figure of one head: a browser cannot draw more than about four million cells


class QueryStatistics(NamedTuple):
    """For each query: the entropy of its weights in nats, its largest weight, and its mean attention distance in tokens."""

    entropy_HQ: Array
    maximum_HQ: Array
    distance_HQ: Array


@dataclass(frozen=True, eq=False)
class AttentionPart:
    """One kind of attention of a model, with the calls of its layers (q and k)."""

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    calls: Mapping[int, Call]


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Drawn):
    """The attention of one forward pass. Weights are computed from q and k on demand.

    `parts` is "self" for a model with a single text; "cross", "encoder" and "decoder" for an encoder–decoder Transformer; and
    "cross" for RNNsearch. A row of "cross" is the output token being predicted; a row of "decoder" is an input token of the
    decoder, <eos> first. Layers and heads are numbered from 0.
    """

    readings: Mapping[str, AttentionPart]
    part: str
    pieces: bool = True  # whether tokens may be subwords
    words: bool = False  # whether rows and columns are words: see `merged`

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.readings)

    def of(self, part: str) -> Attention:
        """Another part of the same forward pass."""
        if part not in self.readings:
            there = ", ".join(f'"{name}"' for name in self.parts)
            raise ConfigError(f'this model has no "{part}" attention, only {there}.{did_you_mean(part, self.parts)}')
        return replace(self, part=part)

    def merged(self) -> Attention:
        """The same attention between words: the rows of a word's tokens are averaged, their columns summed (see merge_pieces.py),
        so that each row still sums to 1. Characters are merged, too."""
        return replace(self, words=True)

    def facts_in_short(self) -> list[str]:
        sizes = " × ".join(str(size) for size in (len(self.layers), self.heads, len(self.queries), len(self.keys)))
        return [f'part "{self.part}"', f"weights {sizes} (layers, heads, queries, keys)"]

    def _repr_html_(self) -> str:
        if len(self.queries) * len(self.keys) > MOST_CELLS:
            return super()._repr_html_()
        weights_QK = self.weights(self.layers[-1]).mean(0)
        caption = f"{self.part} attention in layer {self.layers[-1] + 1}, mean of {self.heads} heads; .figure() shows the others"
        return alignment_html(self.keys, self.queries, weights_QK.tolist(), caption)

    @property
    def queries(self) -> tuple[str, ...]:
        """The query tokens, one for each row."""
        return self._queries[0]

    @property
    def keys(self) -> tuple[str, ...]:
        """The key tokens, one for each column."""
        return self._keys[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.keys

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(self._part.calls)

    @property
    def heads(self) -> int:
        return next(iter(self._part.calls.values())).q_BHQD.shape[1]

    def weights(self, layer: int, heads: Some = None, rows: Some = None) -> Array:
        """p_HQK, the attention weights of the queries in `rows`."""
        call = self._call(layer)
        if not self.words:
            return _plain(weights(call, heads, rows)[0])
        number_T = np.array(self._queries[1])
        pieces = [np.flatnonzero(number_T == word).tolist() for word in _chosen(rows, len(self.queries))]
        place, row = [t for some in pieces for t in some], [n for n, some in enumerate(pieces) for _ in some]
        return merge(_plain(weights(call, heads, place)[0]), row, self._keys[1]).astype(np.float32)

    def rows(self, layer: int, heads: Some = None, rows: Some = None) -> QueryStatistics:
        """Statistics of the rows; also for texts whose weights would not fit into memory."""
        if not self.words:
            per_query = statistics(self._call(layer), heads, rows)
            return QueryStatistics(
                *(_plain(of_rows[0]) for of_rows in (per_query.entropy_BHQ, per_query.maximum_BHQ, per_query.distance_BHQ))
            )
        p_HQK = self.weights(layer, heads, rows)
        away_QK = np.abs(np.array(_chosen(rows, len(self.queries)))[:, None] - np.arange(len(self.keys)))
        entropy_HQ = -(p_HQK * np.log(p_HQK, where=p_HQK > 0, out=np.zeros_like(p_HQK))).sum(-1)
        return QueryStatistics(entropy_HQ, p_HQK.max(-1), (p_HQK * away_QK).sum(-1).astype(np.float32))

    def thumbnails(self, side: int = 32) -> Array:
        """p_LHrc for all layers and heads, at most `side` rows and columns: neighbouring rows are averaged, columns summed,
        so that each row still sums to 1. Only a few rows of weights are in memory at a time."""
        return np.stack([self._summary(layer, side)[0] for layer in self.layers])

    def entropy(self) -> Array:
        """Mean entropy of each layer and head in nats: 0 if each query attends to one key, ln K if it attends to all equally."""
        return np.stack([self.rows(layer).entropy_HQ.mean(-1) for layer in self.layers])

    def rollout(self) -> npt.NDArray[np.float64]:
        """R_LTT through the first layer, the first two, …, all layers. See rollout.py for the formula."""
        if self.part == "cross":
            raise ConfigError(
                'rollout needs self-attention, and this is "cross". Use of("encoder") or of("decoder")'
                if len(self.parts) > 1
                else "rollout needs self-attention, and this model has none. Use a Transformer"
            )
        if self.layers != tuple(range(len(self.layers))):
            raise ConfigError(f"rollout needs all layers, but only layers {self.layers} were recorded. Leave layers= out")
        plain = replace(self, words=False)
        p_QK = rollout(plain.weights(layer).mean(0) for layer in self.layers)
        return merge(p_QK, self._queries[1], self._keys[1]) if self.words else p_QK

    def figure(self, layer: int | None = None, head: int | None = None) -> Figure:
        """One head; the mean over heads if only a layer is given; an overview of all heads if neither is given."""
        if layer is None and head is None:
            return self.overview()
        return attention_map(self.queries, self.keys, self._map(layer, head), self._title(layer, head))

    def overview(self, side: int = 32) -> Figure:
        """Thumbnails of every layer and head in one figure."""
        small, rows = zip(*(self._summary(layer, side) for layer in self.layers), strict=True)
        facts = [fact for layer, some in zip(self.layers, rows, strict=True) for fact in _facts(layer, some)]
        return attention_overview(self.layers, np.stack(small), facts, self.queries, self.keys)

    def lines(self, layer: int | None = None, head: int | None = None) -> Figure:
        """Lines from queries to keys; thicker means more weight."""
        return attention_lines(self.queries, self.keys, self._map(layer, head), self._title(layer, head))

    def entropy_figure(self) -> Figure:
        return entropy_map(self.layers, self.entropy(), len(self.keys))

    def rollout_figure(self, layer: int = -1) -> Figure:
        """Through all layers up to `layer`."""
        R_LTT, count = self.rollout(), len(self.layers)
        if not -count <= layer < count:
            raise ConfigError(f"layer is {layer}; expected {index_range(count)}")
        number = self.layers[layer]
        title = f"attention rollout through layers 1 to {number + 1}: contribution of each input token to a position"
        return attention_map(self.queries, self.keys, R_LTT[layer], title)

    def plot(self, layer: int | None = None, head: int | None = None) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure(layer, head).plot

    def text(self, width: int = 80, layer: int | None = None, head: int | None = None) -> str:
        """For a terminal: one attention map, or the entropy of every head if no layer or head is given."""
        if layer is None and head is None:
            return entropy_text(self.layers, self.entropy())
        return alignment_text(self.keys, self.queries, self._map(layer, head).tolist(), width)

    @property
    def _part(self) -> AttentionPart:
        return self.readings[self.part]

    @cached_property
    def _queries(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self._named(self._part.queries)

    @cached_property
    def _keys(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self._named(self._part.keys)

    def _named(self, tokens: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The names of the rows or columns, and the index of each token's row or column."""
        return word_numbers(tokens, self.pieces) if self.words else (tokens, tuple(range(len(tokens))))

    def _call(self, layer: int) -> Call:
        if layer not in self._part.calls:
            there = ", ".join(map(str, self.layers))
            raise ConfigError(f"layer is {layer}; expected one of {there}")
        return self._part.calls[layer]

    def _summary(self, layer: int, side: int) -> tuple[Array, QueryStatistics]:
        """The thumbnails of a layer's heads and the statistics of their rows, from one computation of its weights."""
        if side < 1:
            raise ConfigError(f"side is {side}; expected at least 1")
        row_rQ, column_Kc = _averaging(self._queries[1], side), _averaging(self._keys[1], side, summed=True).T
        small, rows = _reduced(self._call(layer), row_rQ, column_Kc)
        return small, self.rows(layer) if self.words else rows

    def _map(self, layer: int | None, head: int | None) -> Array:
        if max(len(self.queries), len(self.keys)) > MOST_TOKENS:
            raise DataError(
                f"{len(self.queries):,} × {len(self.keys):,} tokens are too many for one figure (at most {MOST_TOKENS:,}). "
                "Use a shorter text, or weights(layer, heads, rows) and thumbnails()"
            )
        p_QK: Array = self.weights(self.layers[-1] if layer is None else layer, head).mean(0)
        return p_QK

    def _title(self, layer: int | None, head: int | None) -> str:
        which = f"head {head + 1}" if head is not None else f"mean of {self.heads} heads" if self.heads > 1 else "its only head"
        kind = "" if self.part == "self" else f"{self.part}, "
        return f"{kind}layer {(self.layers[-1] if layer is None else layer) + 1}, {which}"  # labels count from 1


def attention(reading: Reading, part: str | None = None, layers: Sequence[int] | None = None) -> Attention:
    """Run the model once on its usual kernel, and record the attention calls of the given layers, or of all."""
    network = reading.network
    if layers is not None and not len(layers):
        raise ConfigError("layers is empty; name at least one layer, or leave it out for all of them")
    if isinstance(network, RecurrentDecoder) and network.config.attention == "none":
        raise ConfigError(
            'this model has no attention (model.attention = "none"): its decoder gets one fixed vector. Use a run with attention'
        )
    if not any(isinstance(module, Tapped) for module in network.modules()):
        raise ConfigError(f'{type(network).__name__} has no attention. Use a run with model.kind = "transformer"')
    with ExitStack() as stack:
        taps = {name: stack.enter_context(tap) for name, tap in _taps(_modules(reading), layers).items()}
        reading.run()
    parts = {
        name: AttentionPart(queries, keys, {layer: _together(calls) for layer, calls in sorted(taps[name].items())})
        for name, (queries, keys) in _names(reading).items()
        if taps[name]
    }
    whole = Attention(parts, next(iter(parts)), reading.pieces)
    return whole if part is None else whole.of(part)


def _names(reading: Reading) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The query and key tokens of each part. The first part is the default."""
    tokens, written, given = reading.tokens, reading.written, reading.given
    match reading.network:
        case TransformerDecoder() if not written:
            return {"encoder": (tokens, tokens)}
        case TransformerDecoder():
            return {"cross": (written, tokens), "encoder": (tokens, tokens), "decoder": (given, given)}
        case RecurrentDecoder():
            return {"cross": (written, tokens)}
        case PrefixDecoder():
            return {"self": (tokens + given, tokens + given)}
    return {"self": (tokens, tokens)}


def _modules(reading: Reading) -> dict[str, list[Tapped]]:
    """The attention modules of each part, one per layer."""
    network = reading.network
    match network:
        case TransformerDecoder():
            blocks: Any = network.decoder.blocks
            modules = {
                "cross": [block.cross.attend for block in blocks],
                "encoder": attention_layers(network.get_submodule("encoder")),
                "decoder": [block.attention.attend for block in blocks],
            }
            return {name: modules[name] for name in _names(reading)}
        case RecurrentDecoder():
            return {"cross": attention_layers(network)}
    return {"self": attention_layers(network)}


def _taps(modules: Mapping[str, Sequence[Tapped]], layers: Sequence[int] | None) -> dict[str, Any]:
    """A recorder for the calls of each part, in all layers or in the given ones; parts may have different depths."""
    most = max(map(len, modules.values()))
    for layer in layers or ():
        if not 0 <= layer < most:
            raise ConfigError(f"layer is {layer}; expected {index_range(most)}")
    every = range(most) if layers is None else layers
    return {name: _noted(some, [layer for layer in every if layer < len(some)]) for name, some in modules.items()}


@contextmanager
def _noted(modules: Sequence[Tapped], layers: Sequence[int]) -> Iterator[dict[int, list[Call]]]:
    """Record all attention calls of each layer while the model runs; RNNsearch makes one call per step."""
    calls: dict[int, list[Call]] = {}

    def note(layer: int, module: Tapped, args: tuple[Any, ...]) -> None:
        calls.setdefault(layer, []).append(module.call(*args))

    with calls_noticed(modules, layers, note):
        yield calls


def _together(calls: Sequence[Call]) -> Call:
    """The queries of several steps with the same keys, joined into one call."""
    return calls[0] if len(calls) == 1 else replace(calls[0], q_BHQD=torch.cat([call.q_BHQD for call in calls], dim=2))


def _averaging(number_T: Sequence[int], most: int, *, summed: bool = False) -> Tensor:
    """W_rT that merges tokens into words, number_T[t] each, and words into at most `most` rows, by mean or by sum."""
    word_T, words = torch.tensor(number_T), number_T[-1] + 1
    rows = min(most, words)
    row_w = torch.arange(words) * rows // words
    weight_w = torch.ones(words, dtype=torch.float64)
    if not summed:
        weight_w /= word_T.bincount() * row_w.bincount()[row_w]  # tokens per word × words per row
    weight_rT = torch.zeros(rows, len(number_T), dtype=torch.float64)
    weight_rT[row_w[word_T], torch.arange(len(number_T))] = weight_w[word_T]
    return weight_rT


@torch.no_grad()
def _reduced(call: Call, row_rQ: Tensor, column_Kc: Tensor) -> tuple[Array, QueryStatistics]:
    """W_rQ p_HQK W_Kc and the statistics of the rows of p, computed from a few rows at a time."""
    (_, H, Q, _), K = call.q_BHQD.shape, call.k_BGKC.shape[2]
    at_once = max(1, (ELEMENTS_ON_GPU if call.q_BHQD.is_cuda else ELEMENTS) // (H * K))
    small_Hrc: Tensor | float = 0.0
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, Q, at_once):
        some = slice(start, start + at_once)
        p_HQK = weights(call, rows=some)[0]
        small_Hrc = small_Hrc + row_rQ[:, some].to(p_HQK) @ (p_HQK @ column_Kc.to(p_HQK))
        away_QK = call.of_rows(some).distance_BHQK()[0, 0].abs().to(p_HQK)
        distance_HQ = torch.einsum("hqk,qk->hq", p_HQK, away_QK)
        rows.append((torch.special.entr(p_HQK).sum(-1), p_HQK.amax(-1), distance_HQ))
    assert isinstance(small_Hrc, Tensor)  # there is a query
    return _plain(small_Hrc), QueryStatistics(*(_plain(torch.cat(parts, dim=1)) for parts in zip(*rows, strict=True)))


def _facts(layer: int, rows: QueryStatistics) -> list[HeadFacts]:
    means = (of_rows.mean(-1).tolist() for of_rows in rows)
    return [HeadFacts(layer, head, *numbers) for head, numbers in enumerate(zip(*means, strict=True))]


def _chosen(some: Some, count: int) -> list[int]:
    """The selected indices out of `count`."""
    if some is None or isinstance(some, slice):
        return list(range(count)[some if some is not None else slice(None)])
    asked = [some] if isinstance(some, int) else list(some)
    for one in asked:
        if not -count <= one < count:
            raise ConfigError(f"row is {one}; expected {index_range(count)}")
    return [one % count for one in asked]


def _plain(x: Tensor) -> Array:
    array: Array = x.float().cpu().numpy()
    return array
