"""Metrics: one class per number that `evaluate` gives. `METRICS` collects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from firth.ideas import Idea, Ideas

Compares = Literal["labels", "texts"]


class Metric(Idea):
    """A metric of your own says what it compares: the predicted labels of texts or words with the true ones, or written texts,
    such as translations, captions and answers, with their references, of several the first."""

    higher: ClassVar[bool] = True  # whether higher is better
    compares: ClassVar[Compares | None] = None  # of a metric with `measure`

    @classmethod
    def measure(cls, predicted: Sequence[str], expected: Sequence[str]) -> float:
        """The value for a whole test set."""
        raise NotImplementedError


METRICS: Ideas[type[Metric]] = Ideas("metric", Metric, listed_in="firth.evaluation.metrics")
