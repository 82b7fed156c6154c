"""Contrast pairs: does a sentiment classifier read a negation, or does it count words?

A pair is right only if both of its sentences are: guessing the same class for both never is. See Gardner et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firth.evaluation.contrast_pairs import CONTRAST_PAIRS

POSITIVE, NEGATIVE = "positive", "negative"  # the labels that a classifier must have


@dataclass(frozen=True)
class ContrastMeasures:
    pairs: int
    pair_accuracy: float  # both sentences right
    sentence_accuracy: float
    by_kind: dict[str, float]  # pair accuracy of each kind of contrast
    wrong: tuple[tuple[str, str], ...]  # each sentence that is classified wrongly, with the label it got


def measure_contrast(classify: Callable[[Sequence[str]], Sequence[str]]) -> ContrastMeasures:
    """`classify` returns the label of each text."""
    sentences = [(text, label) for pairs in CONTRAST_PAIRS.values() for pair in pairs for text, label in labelled(pair)]
    predicted = dict(zip(sentences, classify([text for text, _ in sentences]), strict=True))
    both = {kind: [_right(pair, predicted) for pair in pairs] for kind, pairs in CONTRAST_PAIRS.items()}
    every = [right for rights in both.values() for right in rights]
    return ContrastMeasures(
        pairs=len(every),
        pair_accuracy=sum(every) / len(every),
        sentence_accuracy=sum(given == label for (_, label), given in predicted.items()) / len(predicted),
        by_kind={kind: sum(rights) / len(rights) for kind, rights in both.items()},
        wrong=tuple((text, given) for (text, label), given in predicted.items() if given != label),
    )


def labelled(pair: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    return (pair[0], POSITIVE), (pair[1], NEGATIVE)


def _right(pair: tuple[str, str], predicted: dict[tuple[str, str], str]) -> bool:
    return all(predicted[sentence] == sentence[1] for sentence in labelled(pair))
