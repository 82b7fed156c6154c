"""Metrics of single texts, in a form that can be summed: of each text K counts c_NK, so that the metric of any selection of texts
is a function of its sums.

    accuracy     (correct, 1)               Σ correct / Σ 1
    loss         (nats, tokens)             Σ nats / Σ tokens
    F1           (hits, predicted, true)    2 Σ hits / (Σ predicted + Σ true)
    BLEU, chrF   sacrebleu's statistics     sacrebleu's score of their sums
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK, CHARACTERS = 128, 512  # tokens and characters of running text that are drawn together
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TextCounts:
    """One metric: the counts of every text, and the metric as a function of their sums."""

    count_NK: Floats
    of_sums: Callable[[Floats], Floats]  # from sums (…, K) to the metric (…)
    units: str = "texts"  # what a row is: "sentences", "questions" …
    pieces: str = ""  # a hash of how the texts were cut, where models may differ: rows of unequal ones do not belong together

    @property
    def value(self) -> float:
        """The metric of all texts."""
        return float(self.of_sums(self.count_NK.sum(0)))


@dataclass(frozen=True)
class JudgedTexts:
    """What a model gave for each text of a test set."""

    name: str  # of the test set: a part of the run's data, or a file
    texts: str  # a hash of the texts and what is expected of them, which runs that are compared have in common
    metrics: Mapping[str, TextCounts]


def mean_of(value_N: Any, weight_N: Any = None) -> TextCounts:
    """Σ value / Σ weight; by default every text has weight 1."""
    values = np.asarray(value_N, np.float64)
    weights = np.ones_like(values) if weight_N is None else np.asarray(weight_N, np.float64)
    return TextCounts(np.stack([values, weights], 1), lambda sums: _ratio(sums[..., 0], sums[..., 1]))


def f1_of(hits_N: Any, predicted_N: Any, true_N: Any) -> TextCounts:
    counts = np.stack([np.asarray(one, np.float64) for one in (hits_N, predicted_N, true_N)], 1)
    return TextCounts(counts, lambda sums: _ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2]))


def macro_f1_of(true_N: NDArray[np.int64], predicted_N: NDArray[np.int64], classes: int) -> TextCounts:
    """The unweighted mean of F1 over the classes; the counts of a text are its cell of the confusion matrix."""
    count_NK = np.zeros((len(true_N), classes**2))
    count_NK[np.arange(len(true_N)), true_N * classes + predicted_N] = 1

    def of_sums(sums: Floats) -> Floats:
        confusion = sums.reshape(*sums.shape[:-1], classes, classes)
        hits = np.diagonal(confusion, axis1=-2, axis2=-1)
        f1: Floats = _ratio(2 * hits, confusion.sum(-1) + confusion.sum(-2)).mean(-1)
        return f1

    return TextCounts(count_NK, of_sums)


def sacrebleu_of(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> TextCounts:
    """A metric of sacrebleu, from the statistics on which its own significance tests work."""
    statistics = metric._extract_corpus_statistics(hypotheses, [references])

    def of_sums(sums: Floats) -> Floats:
        rows = sums.reshape(-1, sums.shape[-1])
        scores = [metric._aggregate_and_compute([row.astype(int).tolist()]).score for row in rows]
        return np.array(scores).reshape(sums.shape[:-1])

    return TextCounts(np.asarray(statistics, np.float64), of_sums)


def perplexity_from(loss: TextCounts) -> TextCounts:
    """e^loss"""
    return replace(loss, of_sums=lambda sums: np.exp(np.minimum(loss.of_sums(sums), 700.0)))


def losses_by_block(nats_N: Floats, ids_N: NDArray[np.int64]) -> dict[str, TextCounts]:
    """Loss and perplexity of running text. A row is a block of tokens, since the losses of neighbours depend on each other."""
    cuts = np.arange(0, len(nats_N), BLOCK)
    loss = mean_of(np.add.reduceat(nats_N, cuts), np.diff(cuts, append=len(nats_N)))
    loss = replace(loss, units=f"blocks of {BLOCK} tokens", pieces=hashlib.sha256(ids_N.tobytes()).hexdigest())
    return {"loss": loss, "perplexity": perplexity_from(loss)}


def bits_by_block(nats_N: Floats, characters_N: NDArray[np.int64]) -> TextCounts:
    """Bits per character of running text, where token n is `characters_N` long. A row is a block of characters, so that models
    with other tokens can be compared; a token belongs to the block in which it begins."""
    begins_N = np.cumsum(characters_N) - characters_N
    block_N = begins_N // CHARACTERS
    rows = int(block_N[-1]) + 1
    bits, characters = (np.bincount(block_N, of_N, rows) for of_N in (nats_N / np.log(2), characters_N))
    return replace(mean_of(bits, characters), units=f"blocks of {CHARACTERS} characters")


def hash_of(texts: Iterable[object]) -> str:
    """A hash of the texts in their order."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) != 0)
