"""Merge attention between subwords into attention between words. Letters: T target, S source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.text.tokenizers.whole_words import words_of

__all__ = ["merge", "words_of"]


def merge(weights_TS: npt.ArrayLike, rows: Sequence[int], columns: Sequence[int]) -> npt.NDArray[np.float64]:
    """α between words from α between subwords; rows[t] and columns[s] are the indices of their words, from 0.

    A_ij = 1/|i| Σ_{t∈i} Σ_{s∈j} α_ts: the weight between two words is summed over the key's subwords and averaged over the
    query's. Rows that sum to 1 still do. There may be leading axes before T and S, such as layers and heads.
    """
    alpha_TS = np.asarray(weights_TS, np.float64)
    if alpha_TS.shape[-2:] != (len(rows), len(columns)):
        raise DataError(
            f"the weights have shape {alpha_TS.shape}, but there are {len(rows)} target and {len(columns)} source tokens. "
            "Pass one word index per token, special tokens included"
        )
    member_iT, member_jS = _membership(rows), _membership(columns)
    merged: npt.NDArray[np.float64] = (member_iT / member_iT.sum(-1, keepdims=True)) @ alpha_TS @ member_jS.T
    return merged


def _membership(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
    """1 where the subword of the column belongs to the word of the row."""
    words = sorted(set(numbers))
    if words != list(range(len(words))):
        raise DataError(f"the word indices are {words}; expected 0, 1, 2 … without gaps, as returned by words_of")
    member_iT: npt.NDArray[np.float64] = np.eye(len(words))[:, list(numbers)]
    return member_iT
