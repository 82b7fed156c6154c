"""Subsampling of frequent words and the distribution of negative samples (Mikolov et al. 2013, sections 2.2 and 2.3).

Letters: V vocabulary.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from firth.vectors.huffman import Tree

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

Shares = npt.NDArray[np.float64]
POWER = 0.75  # Mikolov et al. 2013, section 2.2
_WORD = 2**32  # draws are 32-bit integers


def keep_probability(count_V: npt.NDArray[np.int64], sample: float) -> npt.NDArray[np.float64]:
    """√(t/f) + t/f, at most 1, where f is the relative frequency of a word and t = `sample`; 0 keeps every word.

    This is the formula in the code of word2vec and gensim; the paper has only √(t/f).
    """
    if sample == 0:
        return np.ones(len(count_V))
    with np.errstate(divide="ignore"):  # a word with count 0 is always kept
        ratio_V = sample * count_V.sum() / count_V
    return np.asarray(np.minimum(np.sqrt(ratio_V) + ratio_V, 1.0))


def negative_probability(count_V: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """count^0.75 / Σ count^0.75."""
    weight_V = count_V.astype(np.float64) ** POWER
    return np.asarray(weight_V / weight_V.sum())


def busy_rows(config: VectorsConfig, count_V: npt.NDArray[np.int64], tree: Tree | None) -> tuple[Shares, Shares]:
    """The expected number of updates per step of each row of the input and output matrix; `tree` for hierarchical softmax."""
    share_V = count_V * keep_probability(count_V, config.sample)
    share_V = share_V / share_V.sum()
    output = share_V + config.negatives * negative_probability(count_V) if tree is None else tree.below(share_V)
    return (config.window + 1) * share_V, output


def thresholds(probability_V: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """A uniform 32-bit draw is ≤ the threshold with this probability, up to 2⁻³²; with probability 1, always."""
    return np.asarray(np.clip(np.rint(probability_V * _WORD) - 1, 0, _WORD - 1), np.uint32)


class AliasTable(NamedTuple):
    """Walker's alias table: draw a column v of V at random; the result is v with probability `own`, otherwise `other`.

    Eight bytes per word give the distribution to 32 bits; word2vec's table of 100 million entries takes 400 MB for less.
    """

    own_V: npt.NDArray[np.uint32]  # see thresholds()
    other_V: npt.NDArray[np.uint32]


def alias_table(probability_V: npt.NDArray[np.float64]) -> AliasTable:
    """Vose's construction: all columns get height 1; a column that is too low is filled up from one that is too high."""
    V = len(probability_V)
    height_V = array("d", (probability_V * V).tobytes())  # fast element access, and no object per number
    other_V = array("I", range(V))
    high_V = np.frombuffer(height_V) >= 1
    low, high = (array("I", np.flatnonzero(which_V).astype(np.uint32).tobytes()) for which_V in (~high_V, high_V))
    while low and high:
        poor, rich = low.pop(), high[-1]
        other_V[poor] = rich
        height_V[rich] -= 1 - height_V[poor]
        if height_V[rich] < 1:
            low.append(high.pop())
    for v in low + high:  # exactly 1 but for rounding
        height_V[v] = 1.0
    return AliasTable(thresholds(np.frombuffer(height_V)), np.frombuffer(other_V, np.uint32))
