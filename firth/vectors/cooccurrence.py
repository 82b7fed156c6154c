"""Word vectors by counting alone: rows of the co-occurrence matrix, as counts or as PPMI, whole or reduced by an SVD.

    X_wc    = how often c stands at most `window` words from w, in the same sentence
    PPMI_wc = max(0, ln (X_wc X_·· / (X_w· X_·c)))                  how much more often than chance (Church & Hanks 1990)
    M ≈ U_d S_d V_dᵀ, vectors U_d S_d                               with all dimensions, cosines are those of M's rows

SGNS factorises a matrix of shifted PMI implicitly (Levy & Goldberg 2014). Letters: V words, d dimension.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.text.readers.reader import Format
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.sentences import Source
from firth.vectors.wordvectors import WordVectors

Weight = Literal["raw", "ppmi"]
MAX_VOCAB = 5000  # a dense matrix of 100 MB
_MOST = 20_000  # words; the matrix takes 3 GB
_AT_ONCE = 1 << 20  # words counted at a time
_MORE, _ROUNDS = 16, 8  # further dimensions and iterations of the subspace iteration

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class CooccurrenceConfig:
    """What is counted, and what becomes of the counts."""

    window: int = 5  # neighbours on each side that count
    weight: Weight = "ppmi"
    svd: int | None = None  # dimensions to which the vectors are reduced; if not set, one for each word
    min_count: int = 1  # words rarer than this are left out
    max_vocab: int = MAX_VOCAB  # the most frequent words that are kept

    def __post_init__(self) -> None:
        if self.weight not in get_args(Weight):
            raise ConfigError(f'unknown weight "{self.weight}"; expected raw or ppmi')
        for name in ("window", "max_vocab", "svd"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1")


@shows_progress
def cooccur(
    source: Source,
    *,
    window: int = 5,
    weight: Weight = "ppmi",
    svd: int | None = None,
    min_count: int = 1,
    max_vocab: int = MAX_VOCAB,
    lower: bool = False,
    strip_punctuation: bool = False,
    format: Format = "auto",
    field: str = "text",
    progress: Progress | bool = True,
) -> WordVectors:
    """Vectors of the `max_vocab` most frequent words, from counts of the words around them.

    `source`: a path, a name or sentences, as for `firth.vectors.train`. `window`: the number of neighbours on each side that
    count. `weight`: "ppmi" (positive pointwise mutual information) or "raw" counts. `svd` reduces the vectors to that many
    dimensions. Words rarer than `min_count` are left out.

    Words that are left out are removed before counting, as in word2vec, so that the window reaches over them."""
    progress = followed(progress)
    config = CooccurrenceConfig(window, weight, svd, min_count, max_vocab)
    text = encoded(
        source,
        min_count=min_count,
        max_vocab=max_vocab,
        lower=lower,
        strip_punctuation=strip_punctuation,
        format=format,
        field=field,
        progress=progress,
    )
    if len(text.vocabulary) > _MOST:
        raise ConfigError(
            f"the matrix of {len(text.vocabulary):,} words is too large (at most {_MOST:,}). Choose a smaller max_vocab"
        )
    matrix_VV = counted(text, window, progress)
    if weight == "ppmi":
        matrix_VV = ppmi(matrix_VV)
    if svd is not None:
        if svd > len(matrix_VV):
            raise ConfigError(f"svd is {svd}, but the text has {len(matrix_VV):,} words. Choose at most that many dimensions")
        matrix_VV = reduced(matrix_VV, svd)
    metadata = {"cooccurrence": json.dumps(dataclasses.asdict(config))}
    metadata |= {"lower": json.dumps(lower), "strip_punctuation": json.dumps(strip_punctuation)}
    return WordVectors(text.vocabulary.words, matrix_VV.astype(np.float32), text.vocabulary.count_V, metadata)


def counted(text: EncodedCorpus, window: int, progress: Progress = silent) -> Counts:
    """X_VV, which is symmetric."""
    V, count = len(text.vocabulary), len(text.ids)
    half = np.zeros(V * V)
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        place_P = np.arange(start, stop)
        end_P = text.ends[np.searchsorted(text.ends, place_P, side="right")]
        for offset in range(1, window + 1):
            first_P = place_P[place_P + offset < end_P]
            pair, seen = np.unique(text.ids[first_P].astype(np.int64) * V + text.ids[first_P + offset], return_counts=True)
            half[pair] += seen
        progress("counting", stop, count)
    if not half.any():
        raise DataError(f"no two words of {text.name} stand in the same line; expected sentences of at least two words")
    half_VV = half.reshape(V, V)
    return half_VV + half_VV.T


def ppmi(x_VV: Counts) -> Counts:
    """max(0, ln (X_wc X_·· / (X_w· X_·c))); 0 where X_wc is 0."""
    chance_VV = np.outer(x_VV.sum(1), x_VV.sum(0)) / x_VV.sum()
    ratio_VV = np.divide(x_VV, chance_VV, out=np.ones_like(x_VV), where=x_VV > 0)
    return np.asarray(np.log(np.maximum(ratio_VV, 1)))


def reduced(x_VV: Counts, dimensions: int) -> Counts:
    """U_d S_d of the largest singular values, by subspace iteration (Halko et al. 2011, algorithm 4.4); exact for few words.

    The sign of a dimension is arbitrary; its largest entry is made positive, so that the same text gives the same vectors."""
    size = min(len(x_VV), dimensions + _MORE)
    q_Vr = np.random.default_rng(0).normal(size=(len(x_VV), size))
    for _ in range(_ROUNDS):
        q_Vr, _ = np.linalg.qr(x_VV @ (x_VV.T @ q_Vr))
    u_rr, s_r, _ = np.linalg.svd(q_Vr.T @ x_VV, full_matrices=False)
    vector_Vd = (q_Vr @ u_rr * s_r)[:, :dimensions]
    largest_d = np.abs(vector_Vd).argmax(0)
    return np.asarray(vector_Vd * np.where(vector_Vd[largest_d, np.arange(dimensions)] < 0, -1, 1))
