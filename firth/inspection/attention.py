"""Who looks at whom when a model reads a text, or writes another: every attention there is, as one object.

Letters: L layers, H heads, Q queries (who looks, the rows), K keys (at what, the columns), T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.alignment import alignment_text
from firth.figures.attention import HeadFacts, attention_lines, attention_map, attention_overview, entropy_map, entropy_text
from firth.figures.figure import Figure
from firth.inspection.inputs import Reading, word_numbers
from firth.inspection.merge_pieces import merge
from firth.inspection.rollout import rollout
from firth.layers.attention.call import Call
from firth.layers.attention.chunked import ELEMENTS_ON_GPU
from firth.layers.attention.weights import Some, statistics, weights
from firth.layers.self_attention import Attend
from firth.models import PrefixDecoder, RecurrentSeq2Seq, TransformerSeq2Seq

Array = npt.NDArray[np.float32]

ELEMENTS = 1 << 20  # weights that exist at a time: several passes go over them, and 4 MB stay in a processor's cache
MOST_TOKENS = 2048  # of a picture of one head: four million cells are as many as a browser draws


class Rows(NamedTuple):
    """Of each query: the entropy of its weights in nats, the largest of them, and how many tokens away it looks on average."""

    entropy_HQ: Array
    maximum_HQ: Array
    distance_HQ: Array


@dataclass(frozen=True, eq=False)
class Part:
    """One kind of attention of a model, and what its layers were asked: q and k."""

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    calls: Mapping[int, Call]


@dataclass(frozen=True, eq=False)
class Attention:
    """What one reading left to look at. Weights are computed when they are asked for, from q and k.

    `parts` are "self" of a model that reads one text; of a Transformer that writes another "cross", its decoder looking at the
    source, "encoder" and "decoder"; of RNNsearch "cross" alone. A row of "cross" is the token that is written next; a row of
    "decoder" the one that was just given, <eos> first. Layers and heads are numbered from 0.
    """

    readings: Mapping[str, Part]
    part: str
    pieces: bool = True  # whether tokens may be pieces of words
    words: bool = False  # whether it is between words: see `merged`

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.readings)

    def of(self, part: str) -> Attention:
        """Another part of the same reading."""
        if part not in self.readings:
            there = ", ".join(f'"{name}"' for name in self.parts)
            raise ConfigError(f'there is no attention "{part}" here, only {there}.{did_you_mean(part, self.parts)}')
        return replace(self, part=part)

    def merged(self) -> Attention:
        """The same between words: the rows of a word's pieces averaged, their columns summed (see words.py), so that a row still
        sums to 1. Characters are pieces of words, too."""
        return replace(self, words=True)

    @property
    def queries(self) -> tuple[str, ...]:
        """Who looks: a name for each row."""
        return self._queries[0]

    @property
    def keys(self) -> tuple[str, ...]:
        """What is looked at: a name for each column."""
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
        """p_HQK, how much each query of `rows` takes from each key."""
        call = self._call(layer)
        if not self.words:
            return _plain(weights(call, heads, rows)[0])
        number_T = np.array(self._queries[1])
        pieces = [np.flatnonzero(number_T == word).tolist() for word in _chosen(rows, len(self.queries))]
        place, row = [t for some in pieces for t in some], [n for n, some in enumerate(pieces) for _ in some]
        return merge(_plain(weights(call, heads, place)[0]), row, self._keys[1]).astype(np.float32)

    def rows(self, layer: int, heads: Some = None, rows: Some = None) -> Rows:
        """What the rows are like, for texts whose weights would not fit into memory."""
        if not self.words:
            found = statistics(self._call(layer), heads, rows)
            return Rows(*(_plain(of_rows[0]) for of_rows in (found.entropy_BHQ, found.maximum_BHQ, found.distance_BHQ)))
        p_HQK = self.weights(layer, heads, rows)
        away_QK = np.abs(np.array(_chosen(rows, len(self.queries)))[:, None] - np.arange(len(self.keys)))
        entropy_HQ = -(p_HQK * np.log(p_HQK, where=p_HQK > 0, out=np.zeros_like(p_HQK))).sum(-1)
        return Rows(entropy_HQ, p_HQK.max(-1), (p_HQK * away_QK).sum(-1).astype(np.float32))

    def thumbnails(self, side: int = 32) -> Array:
        """p_LHrc of all layers and heads with at most `side` rows and columns: neighbours are put together as pieces of words
        are, rows averaged and columns summed, so that a row still sums to 1. Only a few rows of weights exist at a time."""
        return np.stack([self._summary(layer, side)[0] for layer in self.layers])

    def entropy(self) -> Array:
        """Nats, the mean over the rows of each layer and head: 0 where each query takes one key alone, ln K all alike."""
        return np.stack([self.rows(layer).entropy_HQ.mean(-1) for layer in self.layers])

    def rollout(self) -> npt.NDArray[np.float64]:
        """R_LTT: through the first layer, the first two, …; the last is through all. See rollout.py for the formula."""
        if self.part == "cross":
            raise ConfigError(
                'rollout follows self-attention from layer to layer, and this is "cross"; use of("encoder") or of("decoder")'
                if len(self.parts) > 1
                else "rollout follows self-attention from layer to layer, and this model has none; take a Transformer"
            )
        if self.layers != tuple(range(len(self.layers))):
            raise ConfigError(f"rollout needs all layers up to the last; only {self.layers} were looked at; leave layers= out")
        plain = replace(self, words=False)
        found = rollout(plain.weights(layer).mean(0) for layer in self.layers)
        return merge(found, self._queries[1], self._keys[1]) if self.words else found

    def figure(self, layer: int | None = None, head: int | None = None) -> Figure:
        """One head in full, or with a layer alone the mean of its heads; all as thumbnails where neither is named."""
        if layer is None and head is None:
            return self.overview()
        return attention_map(self.queries, self.keys, self._map(layer, head), self._title(layer, head))

    def overview(self, side: int = 32) -> Figure:
        """Every layer and head in one picture."""
        small, rows = zip(*(self._summary(layer, side) for layer in self.layers), strict=True)
        facts = [fact for layer, some in zip(self.layers, rows, strict=True) for fact in _facts(layer, some)]
        return attention_overview(self.layers, np.stack(small), facts)

    def lines(self, layer: int | None = None, head: int | None = None) -> Figure:
        """A line from each query to what it takes from, the stronger the more."""
        return attention_lines(self.queries, self.keys, self._map(layer, head), self._title(layer, head))

    def entropy_figure(self) -> Figure:
        return entropy_map(self.layers, self.entropy(), len(self.keys))

    def rollout_figure(self, layer: int = -1) -> Figure:
        """Through all layers up to `layer`."""
        R_LTT, count = self.rollout(), len(self.layers)
        if not -count <= layer < count:
            raise ConfigError(f"layer {layer} is asked for; there are {count}, 0 … {count - 1}")
        number = self.layers[layer]
        title = f"rollout through layers 0 … {number}: how much of each first token is in a position"
        return attention_map(self.queries, self.keys, R_LTT[layer], title)

    def plot(self, layer: int | None = None, head: int | None = None) -> Any:
        """The Plotly figure, which a notebook shows."""
        return self.figure(layer, head).plot

    def text(self, width: int = 80, layer: int | None = None, head: int | None = None) -> str:
        """For a terminal: one map, or where none is named what each head is like."""
        if layer is None and head is None:
            return entropy_text(self.layers, self.entropy())
        return alignment_text(self.keys, self.queries, self._map(layer, head).tolist(), width)

    @property
    def _part(self) -> Part:
        return self.readings[self.part]

    @cached_property
    def _queries(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self._named(self._part.queries)

    @cached_property
    def _keys(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self._named(self._part.keys)

    def _named(self, tokens: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """What rows or columns are called, and for each token which of them it is in."""
        return word_numbers(tokens, self.pieces) if self.words else (tokens, tuple(range(len(tokens))))

    def _call(self, layer: int) -> Call:
        if layer not in self._part.calls:
            there = ", ".join(map(str, self.layers))
            raise ConfigError(f"layer {layer} was not looked at; expected one of {there}")
        return self._part.calls[layer]

    def _summary(self, layer: int, side: int) -> tuple[Array, Rows]:
        """The thumbnails of a layer's heads and what their rows are like, from one computation of its weights."""
        if side < 1:
            raise ConfigError(f"thumbnails with a side of {side} are asked for; expected at least 1")
        row_rQ, column_Kc = _averaging(self._queries[1], side), _averaging(self._keys[1], side, summed=True).T
        small, rows = _reduced(self._call(layer), row_rQ, column_Kc)
        return small, self.rows(layer) if self.words else rows

    def _map(self, layer: int | None, head: int | None) -> Array:
        if max(len(self.queries), len(self.keys)) > MOST_TOKENS:
            raise DataError(
                f"{len(self.queries):,} by {len(self.keys):,} tokens are too many for one picture; the most are {MOST_TOKENS:,}: "
                "give a shorter text, or look at weights(layer, heads, rows) and thumbnails()"
            )
        found: Array = self.weights(self.layers[-1] if layer is None else layer, head).mean(0)
        return found

    def _title(self, layer: int | None, head: int | None) -> str:
        which = f"head {head}" if head is not None else f"mean of {self.heads} heads" if self.heads > 1 else "its one head"
        kind = "" if self.part == "self" else f"{self.part}, "
        return f"{kind}layer {self.layers[-1] if layer is None else layer}, {which}"


def attention(reading: Reading, part: str | None = None, layers: Sequence[int] | None = None) -> Attention:
    """Read once, on the kernel that the model always uses, and note what the given layers of each part, or all, were asked."""
    network = reading.network
    if isinstance(network, RecurrentSeq2Seq) and network.config.attention == "none":
        raise ConfigError(
            'this run gives its decoder one fixed vector (model.attention = "none"): it looks at no source word; '
            "take a run with attention"
        )
    if not any(isinstance(module, Attend) for module in network.modules()):
        raise ConfigError(f'{type(network).__name__} has no attention to look at; model.kind = "transformer" has')
    with ExitStack() as stack:
        taps = {name: stack.enter_context(tap) for name, tap in _taps(_modules(reading), layers).items()}
        reading.run()
    parts = {
        name: Part(queries, keys, {layer: _together(calls) for layer, calls in sorted(taps[name].items())})
        for name, (queries, keys) in _names(reading).items()
        if taps[name]
    }
    found = Attention(parts, next(iter(parts)), reading.pieces)
    return found if part is None else found.of(part)


def _names(reading: Reading) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Of each part who looks, and at what. The first is the one to look at."""
    tokens, written, given = reading.tokens, reading.written, reading.given
    match reading.network:
        case TransformerSeq2Seq() if not written:
            return {"encoder": (tokens, tokens)}
        case TransformerSeq2Seq():
            return {"cross": (written, tokens), "encoder": (tokens, tokens), "decoder": (given, given)}
        case RecurrentSeq2Seq():
            return {"cross": (written, tokens)}
        case PrefixDecoder():
            return {"self": (tokens + given, tokens + given)}
    return {"self": (tokens, tokens)}


def _modules(reading: Reading) -> dict[str, list[Attend]]:
    """What computes each part, a module for each layer."""
    network = reading.network
    match network:
        case TransformerSeq2Seq():
            blocks: Any = network.decoder.blocks
            found = {
                "cross": [block.cross.attend for block in blocks],
                "encoder": _attends(network.encoder),
                "decoder": [block.attention.attend for block in blocks],
            }
            return {name: found[name] for name in _names(reading)}
        case RecurrentSeq2Seq():
            return {"cross": _attends(network)}
    return {"self": _attends(network)}


def _attends(module: nn.Module) -> list[Attend]:
    return [one for one in module.modules() if isinstance(one, Attend)]


def _taps(modules: Mapping[str, Sequence[Attend]], layers: Sequence[int] | None) -> dict[str, Any]:
    """What notes the calls of each part, of all layers or of some; those that a part does not have, others may."""
    most = max(map(len, modules.values()))
    for layer in layers or ():
        if not 0 <= layer < most:
            raise ConfigError(f"layer {layer} is asked for; the model has {most} attention layers, 0 … {most - 1}")
    every = range(most) if layers is None else layers
    return {name: _noted([(layer, some[layer]) for layer in every if layer < len(some)]) for name, some in modules.items()}


@contextmanager
def _noted(modules: Sequence[tuple[int, Attend]]) -> Iterator[dict[int, list[Call]]]:
    """All calls of each layer while a model runs as always: RNNsearch makes one for each step."""
    calls: dict[int, list[Call]] = {}

    def noting(layer: int) -> Callable[..., None]:
        def note(module: Attend, args: tuple[Any, ...], output: Tensor) -> None:
            calls.setdefault(layer, []).append(module.call(*args))

        return note

    handles = [module.register_forward_hook(noting(layer)) for layer, module in modules]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _together(calls: Sequence[Call]) -> Call:
    """The queries of steps that look at the same keys, as one call."""
    return calls[0] if len(calls) == 1 else replace(calls[0], q_BHQD=torch.cat([call.q_BHQD for call in calls], dim=2))


def _averaging(number_T: Sequence[int], most: int, *, summed: bool = False) -> Tensor:
    """W_rT that puts tokens together into words, number_T[t] each, and those into at most `most` rows: the mean, or the sum."""
    word_T, words = torch.tensor(number_T), number_T[-1] + 1
    rows = min(most, words)
    row_w = torch.arange(words) * rows // words
    weight_w = torch.ones(words, dtype=torch.float64)
    if not summed:
        weight_w /= word_T.bincount() * row_w.bincount()[row_w]  # one of so many pieces of one of so many words
    weight_rT = torch.zeros(rows, len(number_T), dtype=torch.float64)
    weight_rT[row_w[word_T], torch.arange(len(number_T))] = weight_w[word_T]
    return weight_rT


@torch.no_grad()
def _reduced(call: Call, row_rQ: Tensor, column_Kc: Tensor) -> tuple[Array, Rows]:
    """W_rQ p_HQK W_Kc and what the rows of p are like, from a few of them at a time."""
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
    return _plain(small_Hrc), Rows(*(_plain(torch.cat(parts, dim=1)) for parts in zip(*rows, strict=True)))


def _facts(layer: int, rows: Rows) -> list[HeadFacts]:
    means = (of_rows.mean(-1).tolist() for of_rows in rows)
    return [HeadFacts(layer, head, *numbers) for head, numbers in enumerate(zip(*means, strict=True))]


def _chosen(some: Some, count: int) -> list[int]:
    """Which of `count` words are asked for."""
    if some is None or isinstance(some, slice):
        return list(range(count)[some if some is not None else slice(None)])
    asked = [some] if isinstance(some, int) else list(some)
    for one in asked:
        if not -count <= one < count:
            raise ConfigError(f"row {one} is asked for; there are {count}, 0 … {count - 1}")
    return [one % count for one in asked]


def _plain(x: Tensor) -> Array:
    found: Array = x.float().cpu().numpy()
    return found
