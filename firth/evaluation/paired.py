"""Is one model better than another on the same texts? Two tests that know how much the texts differ.

Paired bootstrap (Koehn 2004): draw N texts with replacement, the same for both models, S times. The differences d_s of the metric
give an interval, from their 2.5th to their 97.5th percentile.

Approximate randomisation (Riezler & Maxwell 2005): if the models were equally good, it would not matter which of them gave an
answer. Exchange their answers to each text with probability ½, S times:

    p = (1 + the number of exchanges with |d_s| ≥ |d|) / (1 + S)

A model may have been trained with several seeds: its metric is then the mean over their runs, and the answers of the seeds are
exchanged in pairs. The tests say what other texts would change; the standard deviation over seeds, what other seeds would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.evaluation.by_text import Floats, TextCounts
from firth.progress import Progress, silent

_AT_ONCE = 4_000_000  # numbers drawn at once


@dataclass(frozen=True)
class PairedDifference:
    """How much higher a metric is for one model than for another."""

    difference: float
    low: float  # of the 95 % interval
    high: float
    p: float | None  # None where the models have different numbers of seeds, so that nothing can be exchanged


def paired_difference(
    one: Sequence[TextCounts], other: Sequence[TextCounts], samples: int, seed: int = 0, progress: Progress = silent
) -> PairedDifference:
    """`one` minus `other`; each has the counts of the same texts for every seed."""
    difference = _mean(one) - _mean(other)
    of_samples = bootstrap(one, samples, seed, progress) - bootstrap(other, samples, seed, progress)
    low, high = np.percentile(of_samples, (2.5, 97.5))
    p = exchanged(one, other, samples, seed, progress) if len(one) == len(other) else None
    return PairedDifference(difference, float(low), float(high), p)


def bootstrap(counts: Sequence[TextCounts], samples: int, seed: int = 0, progress: Progress = silent) -> Floats:
    """The mean metric of `counts` in each sample of the texts; the same seed draws the same texts."""
    texts = len(counts[0].count_NK)
    random = np.random.default_rng(seed)

    def weights(rows: int) -> Floats:
        drawn = random.choice(texts, size=(rows, texts), replace=True)
        return np.stack([np.bincount(row, minlength=texts) for row in drawn]).astype(np.float64)

    parts = [
        np.mean([of.of_sums(weight @ of.count_NK) for of in counts], axis=0)
        for weight in _in_parts(weights, texts, samples, progress)
    ]
    return np.concatenate(parts)


def exchanged(
    one: Sequence[TextCounts], other: Sequence[TextCounts], samples: int, seed: int = 0, progress: Progress = silent
) -> float:
    """p of approximate randomisation."""
    texts = len(one[0].count_NK)
    random = np.random.default_rng(seed)

    def kept(rows: int) -> Floats:
        return random.integers(2, size=(rows, texts), dtype=bool).astype(np.float64)

    measured = abs(_mean(one) - _mean(other))
    as_far = 0
    for keep in _in_parts(kept, texts, samples, progress):
        differences = [_difference(a, b, keep) for a, b in zip(one, other, strict=True)]
        # Two sums of the same terms in another order may differ in their last bits.
        as_far += int((np.abs(np.mean(differences, axis=0)) >= measured * (1 - 1e-9)).sum())
    return (as_far + 1) / (samples + 1)


def _difference(one: TextCounts, other: TextCounts, keep: Floats) -> Floats:
    """Between the metrics of two models that keep their answers to some texts, and exchange the others."""
    kept_one, kept_other = keep @ one.count_NK, keep @ other.count_NK
    left_one, left_other = one.count_NK.sum(0) - kept_one, other.count_NK.sum(0) - kept_other
    return one.of_sums(kept_one + left_other) - other.of_sums(kept_other + left_one)


def _mean(counts: Sequence[TextCounts]) -> float:
    return float(np.mean([of.value for of in counts]))


def _in_parts(draw: Callable[[int], Floats], texts: int, samples: int, progress: Progress) -> Iterator[NDArray[np.float64]]:
    """Rows of weights of the texts, as many at once as memory allows."""
    done = 0
    while done < samples:
        rows = min(samples - done, max(1, _AT_ONCE // texts))
        yield draw(rows)
        done += rows
        progress("testing", done, samples)
