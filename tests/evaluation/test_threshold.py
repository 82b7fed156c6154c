"""Thresholds against sklearn's precision-recall curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_curve

from firth.errors import ConfigError, DataError
from firth.evaluation.threshold import Threshold, Wish, fit


def drawn(seed: int, count: int = 200, rounded: int = 2) -> tuple[Any, Any]:
    """Probabilities that know something of the labels, with ties."""
    draw = np.random.default_rng(seed)
    is_label_N = draw.random(count) < 0.3
    return np.clip(draw.normal(0.35 + 0.3 * is_label_N, 0.2), 0, 1).round(rounded), is_label_N


@pytest.mark.parametrize("seed", range(5))
def test_f1_and_recall_at_a_precision_are_the_best_on_sklearns_curve(seed: int) -> None:
    p_N, is_label_N = drawn(seed)
    precision_K, recall_K, threshold_K = precision_recall_curve(is_label_N, p_N)
    precision_K, recall_K = precision_K[:-1], recall_K[:-1]  # the last point has no threshold
    f1_K = 2 * precision_K * recall_K / np.maximum(precision_K + recall_K, 1e-300)
    fitted = fit(p_N, is_label_N, "spam", Wish(), "valid")
    place = int(np.searchsorted(threshold_K, fitted.threshold))  # the next of sklearn's decides alike
    assert fitted.f1 == pytest.approx(f1_K.max(), abs=1e-12)
    assert (fitted.precision, fitted.recall) == (pytest.approx(precision_K[place]), pytest.approx(recall_K[place]))
    for least in (0.5, 0.6):
        fitted = fit(p_N, is_label_N, "spam", Wish("precision", precision=least), "valid")
        assert fitted.precision >= least
        assert fitted.recall == pytest.approx(recall_K[precision_K >= least].max())


@pytest.mark.parametrize(("false_positive", "false_negative"), [(1, 1), (5, 1), (1, 10), (0.5, None), (1000, 1)])
def test_no_threshold_costs_less(false_positive: float, false_negative: float | None) -> None:
    p_N, is_label_N = drawn(7)
    fitted = fit(p_N, is_label_N, "spam", Wish("cost", None, false_positive, false_negative), "valid")

    def cost(threshold: float) -> float:
        (_, wrong), (missed, _) = confusion_matrix(is_label_N, p_N >= threshold, labels=[False, True])
        return float(false_positive * wrong + (1.0 if false_negative is None else false_negative) * missed) / len(p_N)

    assert fitted.cost == pytest.approx(cost(fitted.threshold))
    assert fitted.cost == pytest.approx(min(map(cost, [*np.unique(p_N), 1.1])))


def test_the_best_may_be_to_find_nothing() -> None:
    fitted = fit(np.array([0.9, 0.2]), np.array([False, True]), "spam", Wish("cost", None, 1000), "valid")
    assert (fitted.recall, fitted.precision, fitted.cost) == (0.0, 0.0, 0.5)
    assert 0.9 < fitted.threshold < 1


def test_a_threshold_decides_for_its_class_or_the_most_probable_other() -> None:
    log_p_NC = np.log(np.array([[0.2, 0.5, 0.3], [0.3, 0.6, 0.1], [0.1, 0.35, 0.55]]))
    assert Threshold("c", 0.3).decide(log_p_NC, ("a", "b", "c")).tolist() == [2, 1, 2]
    assert Threshold("b", 0.55).decide(log_p_NC, ("a", "b", "c")).tolist() == [2, 1, 2]
    assert Threshold("c", 0.0).decide(log_p_NC, ("a", "b", "c")).tolist() == [2, 2, 2]


def test_what_cannot_be_chosen_is_refused() -> None:
    p_N, is_label_N = np.array([0.9, 0.8, 0.1]), np.array([False, True, True])
    with pytest.raises(
        DataError, match=r'no threshold reaches a precision of 0\.9 for "x" on the valid data; the highest is 0\.66'
    ):
        fit(p_N, is_label_N, "x", Wish("precision", precision=0.9), "valid")
    with pytest.raises(DataError, match=r'the valid data have 0 of 3 texts of class "x"'):
        fit(p_N, np.zeros(3, bool), "x", Wish(), "valid")
    for given, message in (
        ({"aim": "recall"}, "choose f1, precision or cost"),
        ({"aim": "precision"}, "Give both, or neither"),
        ({"precision": 0.5}, "Give both, or neither"),
        ({"aim": "precision", "precision": 1.5}, "expected 0 < precision ≤ 1"),
        ({"false_positive": 2.0}, "only apply to the aim cost"),
        ({"aim": "cost", "false_negative": -1.0}, "expected 0 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            Wish(**given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"the threshold is 1\.5; expected a probability"):
        Threshold("x", 1.5)
