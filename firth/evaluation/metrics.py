"""The metrics that firth's tasks have, and those of one's own beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from firth.errors import DataError
from firth.training.metric import METRICS, Compares, Metric


def _metric(kind: str, about: str, latex: str = "", *, higher: bool = True) -> type[Metric]:
    return type(kind, (Metric,), {"kind": kind, "about": about, "latex": latex, "higher": higher})


METRICS.ship(
    _metric("loss", "mean negative log-probability of the targets, in nats", r"-\tfrac{1}{N}\sum \log p", higher=False),
    _metric("perplexity", "exponential of the loss", r"e^{\text{loss}}", higher=False),
    _metric(
        "bits_per_character", "loss in bits, per character instead of per token", r"-\tfrac{1}{C}\sum \log_2 p", higher=False
    ),
    _metric("squared_error", "mean squared error of predicted values", r"\tfrac{1}{N}\sum (\hat y - y)^2", higher=False),
    _metric("accuracy", "share of predictions that are correct"),
    _metric("precision", "share of the predicted cases that are correct", r"\frac{TP}{TP + FP}"),
    _metric("recall", "share of the true cases that are predicted", r"\frac{TP}{TP + FN}"),
    _metric("f1", "harmonic mean of precision and recall", r"\frac{2\,TP}{2\,TP + FP + FN}"),
    _metric("macro_f1", "F1, averaged over the classes"),
    _metric("exact", "share of the generated texts that equal a reference"),
    _metric("exact_unseen", "the same, for pairs of words that never occur together in training"),
    _metric("bleu", "n-grams of one to four words shared with the references, 0 to 100 (Papineni et al. 2002)"),
    _metric("bleu_tokenised", "BLEU on lower-cased Moses tokens, as older papers report it"),
    _metric("chrf", "F-score of shared character n-grams, 0 to 100 (Popović 2015)"),
    _metric("rouge1", "F1 of shared words, 0 to 100 (Lin 2004)"),
    _metric("rouge2", "F1 of shared pairs of words, 0 to 100"),
    _metric("rougeL", "F1 of the longest common subsequence of words, 0 to 100"),
    _metric("wic_accuracy", "share of word-in-context pairs classified correctly by the cosine of two vectors"),
    _metric("generator_loss", "ELECTRA's loss of the generator", higher=False),
    _metric("discriminator_loss", "ELECTRA's loss of the discriminator", higher=False),
    _metric("generator_accuracy", "share of masked tokens that are the generator's first guess"),
)


def own_metrics(compares: Compares | None) -> list[type[Metric]]:
    """Metrics from user files that compare such data."""
    return [one for one in METRICS if compares is not None and one.compares == compares and METRICS.origin(one.kind) is not None]


def own_values(compares: Compares, predicted: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
    values = {}
    for metric in own_metrics(compares):
        value = metric.measure(predicted, expected)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(f"the metric {metric.kind} is {value!r}; expected a number")
        values[metric.kind] = float(value)
    return values


def flat(measured: Any) -> dict[str, Any]:
    """The fields of a dataclass of measures, with metrics from user files among them."""
    fields = dataclasses.asdict(measured)
    own: dict[str, float] = fields.pop("own")
    return fields | own


def own_lines(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value, for a report."""
    return [(one.title(), f"{metrics[one.kind]:.4f}") for one in METRICS if METRICS.origin(one.kind) and one.kind in metrics]
