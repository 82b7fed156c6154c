"""Word vectors by counting alone: rows of the co-occurrence matrix, as counts or as PPMI, whole or reduced by an SVD.

    X_wc    = how often c stands at most `window` words from w, in the same sentence
    PPMI_wc = max(0, ln (X_wc / (X_w· P_c)) − ln k),  P_c = X_·c^α / Σ_c X_·c^α       α = 1, k = 1: Church & Hanks 1990
    M ≈ U_d S_d V_dᵀ, vectors U_d S_d^p                             with p = 1 and all dimensions, cosines are those of M's rows

Without α and k, P_c = X_·c / X_·· and the logarithm says how much more often than chance c stands beside w. SGNS factorises a
matrix of PMI − ln k implicitly (Levy & Goldberg 2014). The other settings also transfer what word2vec does to counting (Levy,
Goldberg & Dagan 2015). Letters: V words, d dimension, r dimensions that are computed.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.text.readers.reader import Format
from firth.vectors.config import MAX_VOCAB, CooccurrenceConfig, Weight
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.sampling import keep_probability
from firth.vectors.sentences import Source
from firth.vectors.wordvectors import WordVectors

_MOST = 20_000  # words; the matrix takes 3 GB
_AT_ONCE = 1 << 20  # words counted at a time
_MORE, _ROUNDS = 16, 8  # further dimensions and iterations of the subspace iteration
_NOTHING = 1e-12  # a singular value that is smaller than this times the largest one is 0

Counts = NDArray[np.float64]


@shows_progress
def cooccur(
    source: Source,
    *,
    window: int = 5,
    dynamic: bool = False,
    sample: float = 0.0,
    weight: Weight = "ppmi",
    smoothing: float = 1.0,
    negatives: int = 1,
    svd: int | None = None,
    power: float = 1.0,
    add_contexts: bool = False,
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
    count. With `dynamic`, a neighbour at distance k counts as (window − k + 1) / window, the share of word2vec's windows that
    reach it. `sample`: a word of relative frequency f counts as √(t/f) + t/f of a word with this t, at most 1; 0 keeps all.

    `weight`: "ppmi" (positive pointwise mutual information) or "raw" counts. `smoothing`: the power of the counts of contexts in
    PPMI, 0.75 in word2vec. `negatives`: PPMI is shifted by the logarithm of this number, as by so many negative samples. `svd`
    reduces the vectors to that many dimensions, U S^p with `power` p. With `add_contexts`, the vector of the same word as a
    context, V S^p, is added. Words rarer than `min_count` are left out.

    Words that are left out are removed before counting, as in word2vec, so that the window reaches over them."""
    given = {name: value for name, value in locals().items() if name in CooccurrenceConfig.__dataclass_fields__}
    progress, config = followed(progress), CooccurrenceConfig(**given)
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
    vector_Vd = _vectors(text, config, progress)
    metadata = {"cooccurrence": json.dumps(dataclasses.asdict(config))}
    metadata |= {"lower": json.dumps(lower), "strip_punctuation": json.dumps(strip_punctuation)}
    return WordVectors(text.vocabulary.words, vector_Vd.astype(np.float32), text.vocabulary.count_V, metadata)


def _vectors(text: EncodedCorpus, config: CooccurrenceConfig, progress: Progress) -> Counts:
    matrix_VV = counted(text, config.window, progress, dynamic=config.dynamic)
    if config.sample:
        keep_V = keep_probability(text.vocabulary.count_V, config.sample)
        matrix_VV *= keep_V[:, None]
        matrix_VV *= keep_V
    if config.weight == "ppmi":
        matrix_VV = ppmi(matrix_VV, config.smoothing, config.negatives)
    if config.svd is None:
        return matrix_VV
    if config.svd > len(matrix_VV):
        raise ConfigError(f"svd is {config.svd}, but the text has {len(matrix_VV):,} words. Choose at most that many dimensions")
    own_Vd, context_Vd = reduced(matrix_VV, config.svd, config.power)
    return own_Vd + context_Vd if config.add_contexts else own_Vd


def counted(text: EncodedCorpus, window: int, progress: Progress = silent, *, dynamic: bool = False) -> Counts:
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
            half[pair] += seen * ((window - offset + 1) / window) if dynamic else seen
        progress("counting", stop, count)
    if not half.any():
        raise DataError(f"no two words of {text.name} stand in the same line; expected sentences of at least two words")
    half_VV = half.reshape(V, V)
    return half_VV + half_VV.T


def ppmi(x_VV: Counts, smoothing: float = 1.0, negatives: int = 1) -> Counts:
    """max(0, ln (X_wc / (X_w· P_c)) − ln k); 0 where X_wc is 0."""
    context_V = x_VV.sum(0) ** smoothing
    chance_VV = np.outer(x_VV.sum(1) * negatives, context_V / context_V.sum())
    ratio_VV = np.divide(x_VV, chance_VV, out=chance_VV, where=x_VV > 0)
    ratio_VV[x_VV == 0] = 1
    return np.asarray(np.log(np.maximum(ratio_VV, 1, out=ratio_VV), out=ratio_VV))


def reduced(x_VV: Counts, dimensions: int, power: float = 1.0) -> tuple[Counts, Counts]:
    """U_d S_d^p and V_d S_d^p of the largest singular values, by subspace iteration (Halko et al. 2011, algorithm 4.4); exact for
    few words.

    The sign of a dimension is arbitrary. The largest entry of U is made positive, so that the same text gives the same
    vectors."""
    size = min(len(x_VV), dimensions + _MORE)
    q_Vr = np.random.default_rng(0).normal(size=(len(x_VV), size))
    for _ in range(_ROUNDS):
        q_Vr, _ = np.linalg.qr(x_VV @ (x_VV.T @ q_Vr))
    u_rr, s_r, v_rV = np.linalg.svd(q_Vr.T @ x_VV, full_matrices=False)
    u_Vd, v_Vd, s_d = (q_Vr @ u_rr)[:, :dimensions], v_rV[:dimensions].T, s_r[:dimensions]
    scale_d = np.where(s_d > _NOTHING * s_d[0], s_d**power, 0)  # also with p = 0: a dimension that M lacks is noise
    sign_d = np.where(u_Vd[np.abs(u_Vd).argmax(0), np.arange(dimensions)] < 0, -scale_d, scale_d)
    return np.asarray(u_Vd * sign_d), np.asarray(v_Vd * sign_d)
