"""The random draws of a sentence: subsampling, window sizes and negative samples.

They all come from one counter-based generator (SplitMix64, Steele et al. 2014), so a block's draws depend only on its seed.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment"

from __future__ import annotations

import numpy as np

from firth.text.compilation import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
TRIES = 100


@compiled
def mixed(state):
    """The 64 random bits of a state; the next state is state + _STEP."""
    z = (state ^ (state >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled
def subsample(ids, begin, end, keep_V, state, kept):
    """Copy each word to `kept` with the probability of its threshold. Returns the number of words kept, and the state."""
    n = 0
    for place in range(begin, end):
        state += _STEP
        word = ids[place]
        kept[n] = word
        n += np.int64((mixed(state) >> _32) <= np.uint64(keep_V[word]))
    return n, state


@compiled
def draw_spans(n, window, state, span):
    """The size of each window: the number of words on either side, uniform in 1 … window."""
    for i in range(n):
        state += _STEP
        span[i] = np.int64(((mixed(state) >> _32) * np.uint64(window)) >> _32) + 1
    return state


@compiled
def draw_negatives(kept, n, K, own_V, other_V, state, negative):
    """K negative samples from the alias table for each of the n words, never the word itself.

    A word with nearly all of the probability would be drawn again and again; after TRIES draws the next word id is used instead.
    """
    V = np.uint64(len(own_V))
    for i in range(n):
        word = kept[i]
        for k in range(K):
            drawn = word
            for _ in range(TRIES):
                state += _STEP
                bits = mixed(state)
                column = ((bits >> _32) * V) >> _32
                # own or other, without a branch: the processor would mispredict one in three
                is_own = np.uint32((bits & _LOW) <= np.uint64(own_V[column]))
                drawn = other_V[column] ^ ((other_V[column] ^ np.uint32(column)) * is_own)
                if drawn != word:
                    break
            negative[i * K + k] = drawn if drawn != word else np.uint32((np.uint64(word) + _ONE) % V)
    return state
