"""Everything random in a sentence: which words stay, how far each window reaches, which words are the negatives.

All of it comes from one counter-based generator (SplitMix64, Steele et al. 2014), so a block's draws depend on its seed alone.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment"

from __future__ import annotations

import numpy as np

from firth.vectors.kernels.compiling import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
TRIES = 100


@compiled
def mixed(state):
    """The 64 random bits that belong to a state; the next state is state + _STEP."""
    z = (state ^ (state >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled
def subsample(ids, begin, end, keep_V, state, kept):
    """Copy the words that stay to `kept`: each with the probability of its threshold. Returns how many, and the state."""
    n = 0
    for place in range(begin, end):
        state += _STEP
        word = ids[place]
        kept[n] = word
        n += np.int64((mixed(state) >> _32) <= np.uint64(keep_V[word]))
    return n, state


@compiled
def draw_spans(n, window, state, span):
    """How many words each window reaches to either side: 1 … window, all equally likely."""
    for i in range(n):
        state += _STEP
        span[i] = np.int64(((mixed(state) >> _32) * np.uint64(window)) >> _32) + 1
    return state


@compiled
def draw_negatives(kept, n, K, own_V, other_V, state, negative):
    """K words from the alias table for each of the n words, never the word itself.

    A word that is nearly all of the distribution would be drawn again and again; after TRIES the next word stands in.
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
                # own or other, by arithmetic: of a branch the processor would guess every third wrong
                is_own = np.uint32((bits & _LOW) <= np.uint64(own_V[column]))
                drawn = other_V[column] ^ ((other_V[column] ^ np.uint32(column)) * is_own)
                if drawn != word:
                    break
            negative[i * K + k] = drawn if drawn != word else np.uint32((np.uint64(word) + _ONE) % V)
    return state
