"""The training loop of the four approximate models: {skip-gram, CBOW} × {negative sampling, hierarchical softmax}.

As in word2vec's code, the words of a window are the inputs v and the centre word is the target u. Over a corpus these are the
pairs of the published objective with the two roles swapped. One step trains one centre word:

    inputs    skip-gram: the C words of its window        CBOW: their mean, one input
    targets   its vector and K negative samples, drawn once for the whole window, or the inner nodes on its path

A step is the exact gradient step for the sum of its terms. For CBOW, each word of the window receives the full gradient of the
mean, C times its share, as in word2vec and gensim. The learning rate changes from sentence to sentence.

`faithful` training follows the papers instead. Skip-gram takes one step for each pair: the centre word is the input, a word of
its window is the target, and the pair has K negative samples of its own. For CBOW, each word of the window receives 1/C of the
gradient of the mean. Negative samples are drawn from count^0.75 as they come, even if one of them is the target.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, call-arg, assignment, unreachable, var-annotated"

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from firth.text.compilation import compile_once, compiled, inlined
from firth.vectors.huffman import Tree, huffman
from firth.vectors.kernels import tiles as tile
from firth.vectors.kernels.contract import LINE, Counts, Floats, Ids, Longs
from firth.vectors.kernels.hot_rows import MERGE, Hot, copies, eases, hot_row_count, merge
from firth.vectors.kernels.random_draws import draw_negatives, draw_spans, subsample
from firth.vectors.kernels.tiles import HEIGHT_T, LANES, add_to_rows, changes, gradients, long_at, mean_of_rows, prefetch
from firth.vectors.sampling import alias_table, busy_rows, keep_probability, negative_probability, thresholds

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

FACTORS = 56  # factors 1 + e^−|z| ≤ 2 per lane before the product is read: one tile later, 2^(16 · 62) still fits a float64
AHEAD = 2  # how many words ahead rows are prefetched
RING = 4  # words whose targets are kept: this one, and those up to AHEAD
FLOAT, LONG = 4, 8  # bytes


class Form(NamedTuple):
    """The shape of a step, the addresses of the two matrices, and which of their rows are hot (see hot_rows.py)."""

    cbow: bool
    faithful: bool
    window: int
    K: int  # negative samples; 0 for hierarchical softmax
    ring: int  # target addresses per centre word: K + 1 for each of its steps
    d: int
    inputs: int
    outputs: int
    hot: int  # number of hot inputs, the most frequent words
    hot_first: int  # hot outputs: the most frequent words, or the inner nodes that were merged last
    hot_last: int


class SamplingTables(NamedTuple):
    keep_V: Ids
    own_V: Ids  # the alias table for negative samples
    other_V: Ids
    up: Ids  # the Huffman tree


class Buffers(NamedTuple):
    """The buffers of one call. The caller owns them: numba would free an array if only its address were still in use."""

    kept: Ids  # the sentence after subsampling
    span: Longs
    repeat: Ids  # see find_repeats()
    negative: Ids  # for the sentence; for faithful training, for one word
    barred: Ids  # what a negative sample of faithful training must not be: nothing
    place: Longs  # addresses of the sentence's vectors v, padded for a window that extends past its end
    row: Longs  # addresses of the window's vectors
    target: Longs  # addresses of the vectors u, for RING words in turn, or for one path
    sign: Floats
    g: Floats
    row_change: Floats
    target_change: Floats
    mean: Floats
    mean_row: Longs  # the address of `mean`
    totals: Floats
    group_T: Longs  # size of the next group, by the number of targets left
    input_shared: Floats  # Hot for the inputs, then for the outputs
    input_own: Floats
    input_before: Floats
    input_ease: Floats
    output_shared: Floats
    output_own: Floats
    output_before: Floats
    output_ease: Floats


class BufferAddresses(NamedTuple):
    """Addresses of the buffers, as plain integers: taking an array out of a tuple costs numba an atomic reference count."""

    place: int
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
    input_own: int
    output_own: int


def buffers_for(form: Form, inputs: Hot, outputs: Hot, longest: int, deepest: int) -> Buffers:
    """Buffers for sentences of up to `longest` words and steps of up to `deepest` targets. Tiles may read LANES past the end."""
    rows, stride = 2 * form.window, (form.d + LANES - 1) // LANES * LANES  # rows padded to whole chunks
    samples = rows if form.faithful else longest
    mean = np.empty(form.d, np.float32)
    sign = np.full(deepest + LANES, -1, np.float32)
    sign[0] = 1  # for negative sampling; hierarchical softmax writes its own signs
    return Buffers(
        np.empty(longest, np.uint32),
        np.empty(longest, np.int64),
        np.empty(longest, np.uint32),
        np.empty(samples * form.K, np.uint32),
        np.full(rows, np.iinfo(np.uint32).max),
        np.zeros(longest + form.window, np.int64),
        np.empty(rows, np.int64),
        np.empty(RING * max(form.ring, deepest), np.int64),
        sign,
        np.empty(rows * deepest + LANES, np.float32),
        np.empty(rows * stride, np.float32),
        np.empty(deepest * stride, np.float32),
        mean,
        np.array([mean.ctypes.data]),
        np.repeat(np.array([0, 1], np.float32), LANES),
        group_sizes(deepest, tile.TARGETS if form.d >= LANES else 1),
        *inputs,
        *outputs,
    )


def group_sizes(deepest: int, most: int) -> Longs:
    """The size of the first group for 0 … deepest targets, split into as few and as equal groups as possible."""
    left_T = np.arange(deepest + 1)
    groups_T = np.maximum((left_T + most - 1) // most, 1)
    return (left_T + groups_T - 1) // groups_T


def _signature() -> Any:
    """The argument types of train(). The corpus may be read-only; all other arrays are writeable."""
    uints, longs, floats = (types.Array(kind, 1, "C") for kind in (types.uint32, types.int64, types.float32))
    known = {np.dtype(np.uint32): uints, np.dtype(np.int64): longs, np.dtype(np.float32): floats}
    form = types.NamedTuple((types.boolean, types.boolean, *[types.int64] * 9), Form)
    tables = types.NamedUniTuple(uints, 4, SamplingTables)
    none_hot = copies(np.empty((1, 1), np.float32), 0, np.empty(0, np.float32))
    example = buffers_for(Form(False, False, 1, 1, 2, 1, 0, 0, 0, 0, 0), none_hot, none_hot, longest=1, deepest=1)
    buffers = types.NamedTuple([known[array.dtype] for array in example], Buffers)
    ids, ends = (types.Array(kind, 1, "C", readonly=True) for kind in (types.uint32, types.int64))
    place, rate = types.int64, types.float64
    return types.Tuple((types.float64, types.int64))(ids, ends, place, place, rate, rate, types.uint64, form, tables, buffers)


SIGNATURE = _signature()


@compiled
def train(ids, ends, first, last, rate_first, rate_last, seed, form, tables, buffers):  # noqa: PLR0912, PLR0915
    """Train on sentences first … last − 1; returns the loss and the number of its terms."""
    own_V, other_V, up = tables.own_V, tables.other_V, tables.up
    kept, span, repeat, negative, barred, place, row, target = buffers[:8]
    sign, g, row_change, target_change, mean, mean_row, totals, group_T = buffers[8:16]
    input_shared, input_own, input_before, input_ease, output_shared, output_own, output_before, output_ease = buffers[16:]
    address = BufferAddresses(
        place.ctypes.data,
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
        input_own.ctypes.data,
        output_own.ctypes.data - form.hot_first * form.d * FLOAT,  # where row 0 would be
    )
    begin = ends[first - 1] if first > 0 else 0
    words = ends[last - 1] - begin
    loss, terms, factors = 0.0, 0, 0
    start, state, unmerged = begin, seed, 0
    one_by_one = form.faithful and not form.cbow
    for s in range(first, last):
        n, state = lay_out_sentence(ids, start, ends[s], state, form, tables, buffers, address)
        rate = np.float32(rate_first + (rate_last - rate_first) * ((start - begin) / words))
        start = ends[s]
        for i in range(n):
            left, right = max(i - span[i], 0), min(i + span[i], n - 1)
            C = right - left
            if C == 0:
                continue
            lay_out_window(place, left, i, form.window, row)
            if form.K > 0 and i + AHEAD < n:
                if form.faithful:
                    state = lay_out_own_targets(
                        i + AHEAD, n, kept, span, negative, barred, own_V, other_V, state, form, address, target
                    )
                else:
                    lay_out_targets(kept, negative, i + AHEAD, form, address, target)
            if i + AHEAD + form.window < n:
                fetch(place[i + AHEAD + form.window], form.d)
            if form.cbow:
                mean_of_rows(address.row, C, form.d, address.mean)
            inputs, steps = address.row, 1
            if one_by_one:  # the word predicts each word of its window
                inputs, steps, C = address.place + LONG * i, C, 1
            rows, R = (address.mean_row, 1) if form.cbow else (inputs, C)
            for step in range(steps):
                T, offset = form.K + 1, i % RING * form.ring + step * (form.K + 1)
                if form.K == 0:
                    word = kept[neighbor(i, left, step) if one_by_one else i]
                    T, offset = lay_out_path(word, up, form, address, target, sign), 0
                distinct = (form.K == 0 or all_distinct(target, offset, T)) and (form.cbow or one_by_one or repeat[right] <= left)
                targets = address.target + LONG * offset
                t = 0
                while t < T:
                    width = group_T[T - t]
                    highest = HEIGHT_T[width] if form.d >= LANES else 1  # see tiles.py
                    for r in range(0, R, highest):
                        factors += find_gradients(rows, r, min(highest, R - r), targets, t, width, R, rate, form, address)
                        if factors > FACTORS:
                            loss += read_totals(totals)
                            factors = 0
                    t += width
                apply_gradients(rows, R, inputs, C, targets, T, distinct, form, address)
                terms += R
            unmerged += 1
            if unmerged == MERGE:
                merge(input_shared, input_own, input_before, input_ease, form.d)
                merge(output_shared, output_own, output_before, output_ease, form.d)
                unmerged = 0
    merge(input_shared, input_own, input_before, input_ease, form.d)
    merge(output_shared, output_own, output_before, output_ease, form.d)
    return loss + read_totals(totals), terms


@compiled
def lay_out_sentence(ids, begin, end, state, form, tables, buffers, address):
    """Make all random draws of a sentence, and find the addresses of its vectors v. Returns the words kept, and the state."""
    kept, place = buffers.kept, buffers.place
    n, state = subsample(ids, begin, end, tables.keep_V, state, kept)
    state = draw_spans(n, form.window, state, buffers.span)
    if not form.faithful:
        state = draw_negatives(kept, n, form.K, tables.own_V, tables.other_V, state, buffers.negative)
    find_repeats(kept, n, 2 * form.window, buffers.repeat)
    for j in range(n):
        place[j] = input_row(kept[j], form, address)
    for i in range(min(AHEAD, n) if form.K > 0 else 0):
        if form.faithful:
            state = lay_out_own_targets(
                i,
                n,
                kept,
                buffers.span,
                buffers.negative,
                buffers.barred,
                tables.own_V,
                tables.other_V,
                state,
                form,
                address,
                buffers.target,
            )
        else:
            lay_out_targets(kept, buffers.negative, i, form, address, buffers.target)
    return n, state


@compiled
def input_row(word, form, address):
    """The address of v, in this thread's own copy if the word is hot."""
    number = np.int64(word)
    return (address.input_own if number < form.hot else form.inputs) + number * form.d * FLOAT


@compiled
def output_row(row, form, address):
    """The address of u for a word or an inner node."""
    number = np.int64(row)
    hot = form.hot_first <= number < form.hot_last
    return (address.output_own if hot else form.outputs) + number * form.d * FLOAT


@compiled
def find_repeats(kept, n, far, repeat):
    """repeat[j] − 1 is the last position of a word that recurs by position j, at most `far` words later; 0 if there is none.

    So the words at positions a … b, with b − a ≤ far, are distinct if repeat[b] ≤ a.
    """
    for j in range(n):
        repeat[j] = 0
    for distance in range(min(far, n - 1), 0, -1):  # the nearest comes last and wins; one pass per distance vectorises
        for j in range(distance, n):
            repeat[j] = np.uint32(j - distance + 1) if kept[j] == kept[j - distance] else repeat[j]
    for j in range(1, n):
        repeat[j] = max(repeat[j], repeat[j - 1])


@compiled
def lay_out_targets(kept, negative, i, form, address, target):
    """Write the addresses of the vectors u for word i and its negative samples to their place in the ring. Signs never change.

    These rows are prefetched while earlier words are computed. Inner nodes are in the cache already.
    """
    first = i % RING * form.ring
    target[first] = output_row(kept[i], form, address)
    for k in range(form.K):
        target[first + 1 + k] = output_row(negative[i * form.K + k], form, address)
    for n in range(first, first + form.K + 1):
        fetch(target[n], form.d)


@compiled
def lay_out_own_targets(i, n, kept, span, negative, barred, own_V, other_V, state, form, address, target):
    """The same for all steps of word i in faithful training, whose negative samples are drawn now. Returns the state.

    A function of its own: each further array that a call hands over costs the default training some per cent."""
    left, right = max(i - span[i], 0), min(i + span[i], n - 1)
    steps = min(right - left, 1) if form.cbow else right - left
    state = draw_negatives(barred, steps, form.K, own_V, other_V, state, negative)
    first = i % RING * form.ring
    for step in range(steps):
        place = first + step * (form.K + 1)
        target[place] = output_row(kept[i if form.cbow else neighbor(i, left, step)], form, address)
        for k in range(form.K):
            target[place + 1 + k] = output_row(negative[step * form.K + k], form, address)
    for place in range(first, first + steps * (form.K + 1)):
        fetch(target[place], form.d)
    return state


@compiled
def neighbor(i, left, number):
    """The position of a word in the window of word i, which begins at `left`."""
    return left + number + np.int64(left + number >= i)


@compiled
def lay_out_window(place, left, i, window, row):
    """The addresses of the words from position `left` to i − 1 and from i + 1 on.

    Always as many as in the widest window: the processor would mispredict the end of a shorter loop.
    """
    for n in range(window):
        row[n] = place[left + n]
    for n in range(window):
        row[i - left + n] = place[i + 1 + n]


@compiled
def lay_out_path(word, up, form, address, target, sign):
    """The addresses of the inner nodes on the path from a word to the root, and their signs: +1 for bit 0, −1 for bit 1."""
    T, node, V = 0, np.int64(word), len(up) // 2 + 1
    while node < len(up):
        step = up[node]
        node = V + np.int64(step >> 1)
        target[T] = output_row(step >> 1, form, address)
        sign[T] = np.float32(1) - np.float32(2) * np.float32(step & 1)
        T += 1
    return T


@compiled
def fetch(address, d):
    for line in range(0, d * FLOAT, LINE):
        prefetch(address + line)


@inlined
def find_gradients(rows, r, height, targets, t, width, R, rate, form, address):
    """g for the tile at row r and target t; stored by group of targets, all R rows each. Returns the number of loss factors."""
    place = address.g + FLOAT * (t * R + r * width)
    gradients(rows + LONG * r, height, targets + LONG * t, width, address.sign + FLOAT * t, form.d, rate, place, address.totals)
    return (height * width + LANES - 1) // LANES


@inlined
def apply_gradients(rows, R, inputs, C, targets, T, distinct, form, address):
    """Update u and v: R rows, which for CBOW stand for the C words `inputs`. A word that occurs twice in the step receives both
    changes, computed from the weights before the step."""
    aside = form.cbow or not distinct
    stride = (form.d + LANES - 1) // LANES * LANES
    t = 0
    while t < T:
        width = long_at(address.group_T + LONG * (T - t))
        mode = tile.CARRY if t else tile.PUT
        if t + width == T and not aside:
            mode = tile.FINISH if t else tile.DIRECT
        changes(
            rows,
            R,
            targets + LONG * t,
            width,
            address.g + FLOAT * t * R,
            form.d,
            address.row_change,
            address.target_change + FLOAT * t * stride,
            stride,
            mode,
            np.int64(distinct),
        )
        t += width
    if not distinct:
        add_to_rows(targets, T, form.d, address.target_change, stride, np.float32(1))
    if aside:
        share = np.float32(1) / np.float32(C) if form.cbow and form.faithful else np.float32(1)
        add_to_rows(inputs, C, form.d, address.row_change, 0 if form.cbow else stride, share)


@compiled
def all_distinct(addresses, first, count):
    same = 0
    for m in range(first + 1, first + count):
        for n in range(first, m):
            same += np.int64(addresses[m] == addresses[n])
    return same == 0


@compiled
def read_totals(totals):
    """Return Σ max(−z, 0) + log Π (1 + e^−|z|) and reset the totals: one logarithm for hundreds of terms."""
    linear, product = 0.0, 1.0
    for lane in range(LANES):
        linear += totals[lane]
        product *= totals[LANES + lane]
        totals[lane] = 0
        totals[LANES + lane] = 1
    return linear + np.log(product)


class TiledKernel:
    """train() bound to the matrices and tables of one vocabulary."""

    def __init__(
        self,
        config: VectorsConfig,
        count_V: Longs,
        input_Vd: Floats,
        output_Vd: Floats,
        compiling: Callable[[], None] | None,
    ) -> None:
        self.matrices = input_Vd, output_Vd  # keeps the memory behind the addresses alive
        negatives = config.negatives if config.loss == "ns" else 0
        addresses = input_Vd.ctypes.data, output_Vd.ctypes.data
        hot, rows = hot_row_count(config, len(input_Vd)), len(output_Vd)
        hot_outputs = (0, hot) if negatives else (rows - min(hot, rows), rows)
        cbow, faithful = config.model == "cbow", config.faithful
        ring = (negatives + 1) * (2 * config.window if faithful and not cbow else 1)
        self.form = Form(cbow, faithful, config.window, negatives, ring, config.dim, *addresses, hot, *hot_outputs)
        self.tables, self.deepest = _tables(config, count_V)
        input_busy, output_busy = busy_rows(config, count_V, None if negatives else Tree(self.tables.up))
        self.eases = eases(input_busy[:hot], config.workers), eases(output_busy[slice(*hot_outputs)], config.workers)
        compile_once(train, SIGNATURE, compiling)

    def __call__(self, ids: Ids, ends: Longs, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        if first >= last:
            return Counts(0.0, 0, 0)
        lengths = np.diff(ends[first:last], prepend=ends[first - 1] if first else 0)
        firsts = 0, self.form.hot_first
        inputs, outputs = itertools.starmap(copies, zip(self.matrices, firsts, self.eases, strict=True))
        buffers = buffers_for(self.form, inputs, outputs, int(lengths.max()), self.deepest)
        loss, terms = train(ids, ends, first, last, rate_first, rate_last, np.uint64(seed), self.form, self.tables, buffers)
        return Counts(loss, terms, int(lengths.sum()))


def _tables(config: VectorsConfig, count_V: Longs) -> tuple[SamplingTables, int]:
    """The tables of the vocabulary, and the largest number of targets in a step."""
    keep_V = thresholds(keep_probability(count_V, config.sample))
    nothing: Any = np.empty(0, np.uint32)
    if config.loss == "ns":
        return SamplingTables(keep_V, *alias_table(negative_probability(count_V)), nothing), config.negatives + 1
    tree = huffman(count_V)
    return SamplingTables(keep_V, nothing, nothing, tree.up), int(tree.lengths().max())
