"""word2vec in Triton: each program trains on its own stretch of words, one centre word after another; many run in parallel.
A faithful step is that of kernels/training_loop.py: for skip-gram, one for each pair.

Every update is an atomic addition, so none is lost if two programs update a frequent word at once. Rows are read past the L1
cache, which does not see other programs' additions. Letters: P words of the text, D dimension, J positions of a window,
N targets of a centre word.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mixed(x):
    """A 32-bit bijection in which flipping a bit of x flips each bit of the result with probability near ½."""
    x = x.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def draw(seed, position, number):
    """32 random bits for the draw `number` at a position: a pure function, without any state."""
    return mixed(mixed(mixed(seed) + position.to(tl.uint32)) + number.to(tl.uint32) * 0x9E3779B9)


@triton.jit
def below(bits, limit):
    """An integer in [0, limit) from 32 random bits."""
    return ((bits.to(tl.uint64) * limit) >> 32).to(tl.int32)


@triton.jit
def window(ids_P, sentence_P, position, P, seed, SPAN: tl.constexpr, J: tl.constexpr):
    """The words around a position within its sentence, a random number up to SPAN on each side: ids, and which are valid."""
    j = tl.arange(0, J)
    offset = tl.where(j < SPAN, j - SPAN, j - SPAN + 1)
    reach = 1 + below(draw(seed, position, tl.full((), 0, tl.uint32)), SPAN)
    at_J = position + offset
    there_J = (j < 2 * SPAN) & (at_J >= 0) & (at_J < P) & (tl.abs(offset) <= reach)
    there_J = there_J & (tl.load(sentence_P + at_J, there_J, -1) == tl.load(sentence_P + position))
    return tl.load(ids_P + at_J, there_J, 0), there_J


@triton.jit
def negatives(own_V, other_V, V, word, position, pair, seed, COUNT: tl.constexpr, N: tl.constexpr, FAITHFUL: tl.constexpr):
    """A word and COUNT negative samples from Walker's table: rows, which one is the positive, and which are valid.

    A sample that is the word itself is left out, but not from faithful training."""
    n = tl.arange(0, N)
    column_N = below(draw(seed, position, 2 * (pair * N + n) + 1), V)
    own_N = draw(seed, position, 2 * (pair * N + n) + 2) <= tl.load(own_V + column_N)
    drawn_N = tl.where(own_N, column_N, tl.load(other_V + column_N).to(tl.int32))
    first_N = n == 0
    counts_N = n <= COUNT
    if not FAITHFUL:
        counts_N = counts_N & (first_N | (drawn_N != word))
    return tl.where(first_N, word, drawn_N), first_N, counts_N


@triton.jit
def branches(step, begin, end, N: tl.constexpr):
    """Steps of a Huffman path: inner nodes, whether the bit is 0 (positive), and which are valid."""
    n = begin + tl.arange(0, N)
    counts_N = n < end
    step_N = tl.load(step + n, counts_N, 0).to(tl.int32)
    return step_N >> 1, (step_N & 1) == 0, counts_N


@triton.jit
def rows(matrix_VD, row_N, counts_N, DIM: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    place_ND = row_N.to(tl.int64)[:, None] * DIM + d[None, :]
    counts_ND = counts_N[:, None] & (d < DIM)[None, :]
    return tl.load(matrix_VD + place_ND, counts_ND, 0.0, cache_modifier=".cg")


@triton.jit
def add_rows(matrix_VD, ease_V, row_N, counts_N, sum_ND, DIM: tl.constexpr, D: tl.constexpr):
    """matrix[row] ← matrix[row] + ease[row] · sum."""
    d = tl.arange(0, D)
    sum_ND *= tl.load(ease_V + row_N, counts_N, 0.0)[:, None]
    place_ND = row_N.to(tl.int64)[:, None] * DIM + d[None, :]
    counts_ND = counts_N[:, None] & (d < DIM)[None, :]
    tl.atomic_add(matrix_VD + place_ND, sum_ND, counts_ND, sem="relaxed")


@triton.jit
def minus_log_sigmoid(s):
    """log(1 + e^−s), for any s."""
    return tl.maximum(-s, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(s)))


@triton.jit
def skipgram_step(x_JD, there_J, y_ND, likely_N, counts_N, rate):
    """The loss −log σ(±u·v) over all pairs, and the updates of v and u, all from the same weights."""
    s_JN = tl.dot(x_JD, tl.trans(y_ND), input_precision="ieee")
    signed_JN = tl.where(likely_N[None, :], s_JN, -s_JN)
    pairs_JN = there_J[:, None] & counts_N[None, :]
    loss = tl.sum(tl.sum(tl.where(pairs_JN, minus_log_sigmoid(signed_JN), 0.0), 1), 0)
    g_JN = tl.where(pairs_JN, (tl.where(likely_N, 1.0, 0.0)[None, :] - tl.sigmoid(s_JN)) * rate, 0.0)
    return loss, tl.dot(g_JN, y_ND, input_precision="ieee"), tl.dot(tl.trans(g_JN), x_JD, input_precision="ieee")


@triton.jit
def cbow_step(x_D, y_ND, likely_N, counts_N, rate):
    """The same for one input vector, the mean of the window."""
    s_N = tl.sum(y_ND * x_D[None, :], 1)
    loss = tl.sum(tl.where(counts_N, minus_log_sigmoid(tl.where(likely_N, s_N, -s_N)), 0.0), 0)
    g_N = tl.where(counts_N, (tl.where(likely_N, 1.0, 0.0) - tl.sigmoid(s_N)) * rate, 0.0)
    return loss, tl.sum(g_N[:, None] * y_ND, 0), g_N[:, None] * x_D[None, :]


@triton.jit
def pair_steps(
    centre, context_J, there_J, position, seed, rate, input_VD, output_VD, ease_input_V, ease_output_V,
    own_V, other_V, V, end_V, step,
    DIM: tl.constexpr, D: tl.constexpr, SPAN: tl.constexpr, J: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr,
    TREE: tl.constexpr,
):  # fmt: skip
    """Faithful skip-gram: the centre word predicts each word of its window, one step after another. Returns the loss."""
    d, j = tl.arange(0, D), tl.arange(0, J)
    place_D = input_VD + centre.to(tl.int64) * DIM + d
    v_D = tl.load(place_D, d < DIM, 0.0, cache_modifier=".cg")
    ease, change_D, total = tl.load(ease_input_V + centre), tl.zeros_like(v_D), 0.0
    for pair in range(2 * SPAN):
        context = tl.sum(tl.where(j == pair, context_J, 0), 0)
        there = tl.sum(tl.where((j == pair) & there_J, 1, 0), 0) > 0
        begin, end = 0, 1
        if TREE:
            begin, end = tl.load(end_V + context - 1, context > 0, 0).to(tl.int32), tl.load(end_V + context).to(tl.int32)
        x_D, dx_D = v_D + change_D, tl.zeros_like(v_D)
        for at in range(begin, end, N):
            if TREE:
                target_N, likely_N, counts_N = branches(step, at, end, N)
            else:
                target_N, likely_N, counts_N = negatives(own_V, other_V, V, context, position, pair, seed, COUNT, N, True)
            counts_N = counts_N & there
            y_ND = rows(output_VD, target_N, counts_N, DIM, D)
            loss, one_D, dy_ND = cbow_step(x_D, y_ND, likely_N, counts_N, rate)
            total += loss
            dx_D += one_D
            add_rows(output_VD, ease_output_V, target_N, counts_N, dy_ND, DIM, D)
        change_D += ease * dx_D
    tl.atomic_add(place_D, change_D, d < DIM, sem="relaxed")
    return total


@triton.jit(do_not_specialize=["P", "run", "V", "seed"])  # compile once for all values
def train_kernel(
    ids_P, sentence_P, P, run, input_VD, output_VD, ease_input_V, ease_output_V,
    own_V, other_V, V, end_V, step, loss_R, terms_R, seed, rate_first, rate_last,
    DIM: tl.constexpr, D: tl.constexpr, SPAN: tl.constexpr, J: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr,
    CBOW: tl.constexpr, TREE: tl.constexpr, FAITHFUL: tl.constexpr,
):  # fmt: skip
    """Program r trains on the words r·run … (r + 1)·run − 1 and writes its loss and number of terms to loss_R and terms_R.

    All stretches are processed at the same time, so the rate falls along each of them."""
    program = tl.program_id(0)
    total, terms = 0.0, 0
    for number in range(run):
        position = program * run + number
        if position < P:
            centre = tl.load(ids_P + position)
            rate = rate_first + (rate_last - rate_first) * (number / run)
            context_J, there_J = window(ids_P, sentence_P, position, P, seed, SPAN, J)
            around = tl.sum(there_J.to(tl.int32), 0)
            if FAITHFUL and not CBOW:
                terms += around
                total += pair_steps(
                    centre, context_J, there_J, position, seed, rate, input_VD, output_VD, ease_input_V, ease_output_V,
                    own_V, other_V, V, end_V, step, DIM, D, SPAN, J, COUNT, N, TREE,
                )  # fmt: skip
            else:
                x_JD = rows(input_VD, context_J, there_J, DIM, D)
                mean_D = tl.sum(x_JD, 0) / tl.maximum(around, 1)
                begin, end = 0, 1
                if TREE:
                    begin, end = tl.load(end_V + centre - 1, centre > 0, 0).to(tl.int32), tl.load(end_V + centre).to(tl.int32)
                dx_JD, dx_D = tl.zeros_like(x_JD), tl.zeros_like(mean_D)
                for at in range(begin, end, N):
                    if TREE:
                        target_N, likely_N, counts_N = branches(step, at, end, N)
                    else:
                        target_N, likely_N, counts_N = negatives(own_V, other_V, V, centre, position, 0, seed, COUNT, N, FAITHFUL)
                    counts_N = counts_N & (around > 0)
                    y_ND = rows(output_VD, target_N, counts_N, DIM, D)
                    if CBOW:
                        loss, one_D, dy_ND = cbow_step(mean_D, y_ND, likely_N, counts_N, rate)
                        dx_D += one_D
                    else:
                        loss, one_JD, dy_ND = skipgram_step(x_JD, there_J, y_ND, likely_N, counts_N, rate)
                        dx_JD += one_JD
                    total += loss
                    add_rows(output_VD, ease_output_V, target_N, counts_N, dy_ND, DIM, D)
                if CBOW:
                    terms += tl.where(around > 0, 1, 0)
                    dx_JD += dx_D[None, :] / (tl.maximum(around, 1) if FAITHFUL else 1)
                else:
                    terms += around
                add_rows(input_VD, ease_input_V, context_J, there_J, dx_JD, DIM, D)
    tl.store(loss_R + program, total)
    tl.store(terms_R + program, terms)
