"""The training loop of all four approximate models: {skip-gram, CBOW} × {negative sampling, hierarchical softmax}.

As in word2vec's code, the words of a window are the inputs v and the word in their middle is the target u: over a corpus these
are the pairs of the published objective, each read from its other end. One step is one word in the middle:

    inputs    skip-gram: the C words of its window        CBOW: their mean, one input
    targets   its vector and K negatives, drawn once for the whole window, or the inner nodes on its path

and is the exact gradient step of the sum of the step's terms. For CBOW each word of the window takes the gradient of the mean
undivided, C times its share, as word2vec and gensim do. The rate changes from sentence to sentence.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, call-arg, assignment, unreachable, var-annotated"

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from firth.vectors.huffman import Paths, huffman
from firth.vectors.kernels import Counts, Floats, Ids, Longs
from firth.vectors.kernels import tiles as tile
from firth.vectors.kernels.compiling import compile_once, compiled, inlined
from firth.vectors.kernels.draws import draw_negatives, draw_spans, subsample
from firth.vectors.kernels.tiles import LANES, add_to_rows, changes, gradients, long_at, mean_of_rows, prefetch
from firth.vectors.sampling import AliasTable, alias_table, keep_probability, negative_probability, thresholds

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

FACTORS = 56  # factors 1 + e^−|z| ≤ 2 of a lane before the product is read: with a tile more, 2^(16 · 62) is still a float64
LINE = 64  # bytes of a cache line
AHEAD = 2  # words ahead for which rows are asked for
FLOAT, LONG = 4, 8  # bytes


class Form(NamedTuple):
    """What is trained: the shape of a step, and the addresses of the two matrices."""

    cbow: bool
    window: int
    K: int  # negatives; 0: hierarchical softmax
    d: int
    inputs: int
    outputs: int


class Tables(NamedTuple):
    keep_V: Ids
    own_V: Ids  # the alias table of the negatives
    other_V: Ids
    path_end_V: Longs  # the Huffman tree
    path_step: Ids


class Desk(NamedTuple):
    """The buffers of one call. The caller holds them: numba would free an array of which only the address is still used."""

    kept: Ids  # the sentence after subsampling
    span: Longs
    negative: Ids
    row: Longs  # addresses of the window's vectors
    target: Longs  # addresses of the targets' vectors
    sign: Floats
    g: Floats
    row_change: Floats
    target_change: Floats
    mean: Floats
    mean_row: Longs  # the address of `mean`
    totals: Floats
    group_T: Longs  # how many of so many targets that are left make up the next group


class At(NamedTuple):
    """Where the buffers lie. Plain numbers: to take an array out of a tuple costs numba an atomic count of its users."""

    row: int
    target: int
    sign: int
    g: int
    row_change: int
    target_change: int
    mean: int
    mean_row: int
    totals: int
    group_T: int


def desk_for(form: Form, longest: int, deepest: int) -> Desk:
    """For sentences of up to `longest` words and steps of up to `deepest` targets; tiles may touch LANES beyond an end."""
    rows, stride = 2 * form.window, (form.d + LANES - 1) // LANES * LANES  # rows of whole chunks
    mean = np.empty(form.d, np.float32)
    sign = np.full(deepest + LANES, -1, np.float32)
    sign[0] = 1  # as negative sampling needs them; hierarchical softmax writes its own
    return Desk(
        kept=np.empty(longest, np.uint32),
        span=np.empty(longest, np.int64),
        negative=np.empty(longest * form.K, np.uint32),
        row=np.empty(rows, np.int64),
        target=np.empty(deepest, np.int64),
        sign=sign,
        g=np.empty(rows * deepest + LANES, np.float32),
        row_change=np.empty(rows * stride, np.float32),
        target_change=np.empty(deepest * stride, np.float32),
        mean=mean,
        mean_row=np.array([mean.ctypes.data]),
        totals=np.repeat(np.array([0, 1], np.float32), LANES),
        group_T=group_sizes(deepest, tile.TARGETS if form.d >= LANES else 1),
    )


def group_sizes(deepest: int, most: int) -> Longs:
    """For 0 … deepest targets the size of their first group, when they are cut into as few and as equal groups as can be."""
    left_T = np.arange(deepest + 1)
    groups_T = np.maximum((left_T + most - 1) // most, 1)
    return (left_T + groups_T - 1) // groups_T


def _signature() -> Any:
    """The types of train(). The corpus may be read-only; everything else is ours."""
    uints, longs, floats = (types.Array(kind, 1, "C") for kind in (types.uint32, types.int64, types.float32))
    known = {np.dtype(np.uint32): uints, np.dtype(np.int64): longs, np.dtype(np.float32): floats}
    form = types.NamedTuple((types.boolean, *[types.int64] * 5), Form)
    tables = types.NamedTuple((uints, uints, uints, longs, uints), Tables)
    example = desk_for(Form(cbow=False, window=1, K=1, d=1, inputs=0, outputs=0), longest=1, deepest=1)
    desk = types.NamedTuple([known[array.dtype] for array in example], Desk)
    ids, ends = (types.Array(kind, 1, "C", readonly=True) for kind in (types.uint32, types.int64))
    place, rate = types.int64, types.float64
    return types.Tuple((types.float64, types.int64))(ids, ends, place, place, rate, rate, types.uint64, form, tables, desk)


SIGNATURE = _signature()


@compiled
def train(ids, ends, first, last, rate_first, rate_last, seed, form, tables, desk):
    """Train on sentences first … last − 1; returns the loss and the number of its terms."""
    keep_V, own_V, other_V, path_end_V, path_step = tables
    kept, span, negative, row, target, sign, g, row_change, target_change, mean, mean_row, totals, group_T = desk
    at = At(
        row.ctypes.data,
        target.ctypes.data,
        sign.ctypes.data,
        g.ctypes.data,
        row_change.ctypes.data,
        target_change.ctypes.data,
        mean.ctypes.data,
        mean_row.ctypes.data,
        totals.ctypes.data,
        group_T.ctypes.data,
    )
    highest = tile.ROWS if form.d >= LANES else 1  # see tiles.py
    begin = ends[first - 1] if first > 0 else 0
    words = ends[last - 1] - begin
    loss, terms, factors = 0.0, 0, 0
    start, state = begin, seed
    for s in range(first, last):
        n, state = subsample(ids, start, ends[s], keep_V, state, kept)
        state = draw_spans(n, form.window, state, span)
        state = draw_negatives(kept, n, form.K, own_V, other_V, state, negative)
        rate = np.float32(rate_first + (rate_last - rate_first) * ((start - begin) / words))
        start = ends[s]
        for i in range(n):
            C = lay_out_window(kept, i, n, span[i], form, row)
            if C == 0:
                continue
            if form.K > 0:
                T = lay_out_negatives(kept[i], negative, i * form.K, form, target)
                if i + AHEAD < n:
                    ask_for_targets(kept[i + AHEAD], negative, (i + AHEAD) * form.K, form)
            else:
                T = lay_out_path(kept[i], path_end_V, path_step, form, target, sign)
            if i + AHEAD + form.window < n:
                fetch(form.inputs + np.int64(kept[i + AHEAD + form.window]) * form.d * FLOAT, form.d)
            R = C
            if form.cbow:
                mean_of_rows(at.row, C, form.d, at.mean)
                R = 1
            t = 0
            while t < T:
                width = group_T[T - t]
                for r in range(0, R, highest):
                    factors += find_gradients(r, min(highest, R - r), t, width, R, rate, form, at)
                    if factors > FACTORS:
                        loss += read_totals(totals)
                        factors = 0
                t += width
            distinct = (form.K == 0 or all_distinct(target, T)) and (form.cbow or all_distinct(row, C))
            apply_gradients(R, C, T, distinct, form, at)
            terms += R
    return loss + read_totals(totals), terms


@compiled
def lay_out_window(kept, i, n, reach, form, row):
    """The addresses of the vectors of the words around word i; returns how many."""
    C = 0
    for j in range(max(i - reach, 0), min(i + reach + 1, n)):
        row[C] = form.inputs + np.int64(kept[j]) * form.d * FLOAT
        C += np.int64(j != i)
    return C


@compiled
def lay_out_negatives(word, negative, first, form, target):
    """The addresses of the vectors of a word and its negatives; their signs never change."""
    target[0] = form.outputs + np.int64(word) * form.d * FLOAT
    for k in range(form.K):
        target[k + 1] = form.outputs + np.int64(negative[first + k]) * form.d * FLOAT
    return form.K + 1


@compiled
def lay_out_path(word, path_end_V, path_step, form, target, sign):
    """The addresses of the inner nodes on the path to a word, and the signs of its turns: bit 0 is +1, bit 1 is −1."""
    T = 0
    for place in range(path_end_V[np.int64(word) - 1] if word > 0 else 0, path_end_V[word]):
        step = path_step[place]
        target[T] = form.outputs + np.int64(step >> 1) * form.d * FLOAT
        sign[T] = np.float32(1) - np.float32(2) * np.float32(step & 1)
        T += 1
    return T


@compiled
def ask_for_targets(word, negative, first, form):
    """The memory looks for the rows of a word to come while the words before it are computed. Inner nodes are near already."""
    fetch(form.outputs + np.int64(word) * form.d * FLOAT, form.d)
    for k in range(first, first + form.K):
        fetch(form.outputs + np.int64(negative[k]) * form.d * FLOAT, form.d)


@compiled
def fetch(address, d):
    for line in range(0, d * FLOAT, LINE):
        prefetch(address + line)


@inlined
def find_gradients(r, height, t, width, R, rate, form, at):
    """g of the tile at row r and target t; all R rows of a group of targets, then the next group. Returns how many factors."""
    rows = (at.mean_row if form.cbow else at.row) + LONG * r
    place = at.g + FLOAT * (t * R + r * width)
    gradients(rows, height, at.target + LONG * t, width, at.sign + FLOAT * t, form.d, rate, place, at.totals)
    return (height * width + LANES - 1) // LANES


@inlined
def apply_gradients(R, C, T, distinct, form, at):
    """u and v of the step; a word that stands in it twice gets both its changes, from the weights before the step."""
    rows = at.mean_row if form.cbow else at.row
    aside = form.cbow or not distinct
    stride = (form.d + LANES - 1) // LANES * LANES
    t = 0
    while t < T:
        width = long_at(at.group_T + LONG * (T - t))
        mode = tile.CARRY if t else tile.PUT
        if t + width == T and not aside:
            mode = tile.FINISH if t else tile.DIRECT
        changes(
            rows,
            R,
            at.target + LONG * t,
            width,
            at.g + FLOAT * t * R,
            form.d,
            at.row_change,
            at.target_change + FLOAT * t * stride,
            stride,
            mode,
            np.int64(distinct),
        )
        t += width
    if not distinct:
        add_to_rows(at.target, T, form.d, at.target_change, stride)
    if aside:
        add_to_rows(at.row, C, form.d, at.row_change, 0 if form.cbow else stride)


@compiled
def all_distinct(addresses, count):
    same = 0
    for m in range(1, count):
        for n in range(m):
            same += np.int64(addresses[m] == addresses[n])
    return same == 0


@compiled
def read_totals(totals):
    """Σ max(−z, 0) + log Π (1 + e^−|z|), and start again: one logarithm for hundreds of terms."""
    linear, product = 0.0, 1.0
    for lane in range(LANES):
        linear += totals[lane]
        product *= totals[LANES + lane]
        totals[lane] = 0
        totals[LANES + lane] = 1
    return linear + np.log(product)


class TiledKernel:
    """train() with the tables of one vocabulary."""

    def __init__(
        self,
        config: VectorsConfig,
        count_V: Longs,
        input_Vd: Floats,
        output_Vd: Floats,
        compiling: Callable[[], None] | None,
    ) -> None:
        self.matrices = input_Vd, output_Vd  # held for as long as their addresses are
        negatives = config.negatives if config.loss == "ns" else 0
        addresses = input_Vd.ctypes.data, output_Vd.ctypes.data
        self.form = Form(config.model == "cbow", config.window, negatives, config.dim, *addresses)
        self.tables, self.deepest = _tables(config, count_V)
        compile_once(train, SIGNATURE, compiling)

    def __call__(self, ids: Ids, ends: Longs, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        if first >= last:
            return Counts(0.0, 0, 0)
        lengths = np.diff(ends[first:last], prepend=ends[first - 1] if first else 0)
        desk = desk_for(self.form, int(lengths.max()), self.deepest)
        loss, terms = train(ids, ends, first, last, rate_first, rate_last, np.uint64(seed), self.form, self.tables, desk)
        return Counts(loss, terms, int(lengths.sum()))


def _tables(config: VectorsConfig, count_V: Longs) -> tuple[Tables, int]:
    """The tables of the vocabulary, and the most targets that a step can have."""
    keep_V = thresholds(keep_probability(count_V, config.sample))
    nothing: Any = np.empty(0, np.uint32)
    if config.loss == "ns":
        negatives, paths = alias_table(negative_probability(count_V)), Paths(np.empty(0, np.int64), nothing)
        deepest = config.negatives + 1
    else:
        negatives, paths = AliasTable(nothing, nothing), huffman(count_V)
        deepest = int(np.diff(paths.end_V, prepend=0).max())
    return Tables(keep_V, *negatives, *paths), deepest
