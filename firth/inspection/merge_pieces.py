"""From attention between pieces of words to attention between words. Letters: T target, S source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.text.tokenizers.whole_words import words_of

__all__ = ["merge", "words_of"]


def merge(weights_TS: npt.ArrayLike, rows: Sequence[int], columns: Sequence[int]) -> npt.NDArray[np.float64]:
    """α between words from α between pieces; rows[t] and columns[s] are the numbers of the words they belong to, from 0.

    A_ij = 1/|i| Σ_{t∈i} Σ_{s∈j} α_ts: what a word takes from another is the sum over the other's pieces, averaged over its own.
    Rows that sum to 1 still do. There may be axes before T and S, as of layers and heads.
    """
    alpha_TS = np.asarray(weights_TS, np.float64)
    if alpha_TS.shape[-2:] != (len(rows), len(columns)):
        raise DataError(
            f"weights of shape {alpha_TS.shape} but {len(rows)} pieces of target and {len(columns)} of source words; "
            "pass a word number for each token the model saw, specials included"
        )
    member_iT, member_jS = _membership(rows), _membership(columns)
    merged: npt.NDArray[np.float64] = (member_iT / member_iT.sum(-1, keepdims=True)) @ alpha_TS @ member_jS.T
    return merged


def _membership(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
    """1 where the piece of the column belongs to the word of the row."""
    words = sorted(set(numbers))
    if words != list(range(len(words))):
        raise DataError(f"the word numbers are {words}; expected 0, 1, 2 … with none left out, as words_of gives them")
    member_iT: npt.NDArray[np.float64] = np.eye(len(words))[:, list(numbers)]
    return member_iT
