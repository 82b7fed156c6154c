"""Predict a class if its probability reaches a threshold, and choose the threshold on validation data.

Letters: N texts, C classes, K distinct probabilities. With threshold t, the prediction is the class if p ≥ t, otherwise the most
probable other class. All t between two neighbouring values of p_N give the same predictions; the midpoint is used, so that
rounding does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError

Aim = Literal["f1", "precision", "cost"]
AIMS: tuple[Aim, ...] = ("f1", "precision", "cost")


@dataclass(frozen=True)
class Threshold:
    """The smallest p(label) for which `label` is predicted."""

    label: str
    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"the threshold is {self.threshold}; expected a probability, 0 to 1")

    def decide(self, log_p_NC: NDArray[np.float64], labels: tuple[str, ...]) -> NDArray[np.int64]:
        """The number of the class of each text."""
        own = labels.index(self.label)
        others_NC = log_p_NC.copy()
        others_NC[:, own] = -np.inf
        found_N: NDArray[np.int64] = np.where(np.exp(log_p_NC[:, own]) >= self.threshold, own, others_NC.argmax(1))
        return found_N


@dataclass(frozen=True)
class FittedThreshold(Threshold):
    """The threshold that `firth threshold` chose, and its metrics on the data it was chosen on."""

    aim: Aim
    precision: float
    recall: float
    f1: float
    cost: float | None  # mean per text, where that is the aim
    examples: int
    split: str


@dataclass(frozen=True)
class Wish:
    """The quantity to optimise: the highest F1, the highest recall at a minimum precision, or the lowest cost of errors."""

    aim: Aim = "f1"
    precision: float | None = None  # the least
    false_positive: float | None = None  # cost of one
    false_negative: float | None = None

    def __post_init__(self) -> None:
        if self.aim not in AIMS:
            raise ConfigError(f'unknown aim "{self.aim}"; choose f1, precision or cost')
        if (self.precision is not None) != (self.aim == "precision"):
            raise ConfigError("the aim precision needs a minimum precision, and only that aim has one. Give both, or neither.")
        if self.precision is not None and not 0 < self.precision <= 1:
            raise ConfigError(f"the minimum precision is {self.precision}; expected 0 < precision ≤ 1")
        costs = (self.false_positive, self.false_negative)
        if any(cost is not None for cost in costs) and self.aim != "cost":
            raise ConfigError("costs of errors only apply to the aim cost. Choose that aim, or remove them.")
        if any(cost is not None and not 0 <= cost < float("inf") for cost in costs) or costs == (0, 0):
            raise ConfigError(f"the costs of errors are {costs[0]} and {costs[1]}; expected 0 or more, not both 0")


def fit(p_N: NDArray[np.float64], is_label_N: NDArray[np.bool_], label: str, wish: Wish, split: str) -> FittedThreshold:
    """The best threshold; of several equally good ones, the one closest to ½."""
    if not is_label_N.any() or is_label_N.all():
        raise DataError(
            f'the {split} data have {int(is_label_N.sum())} of {len(p_N)} texts of class "{label}"; expected some, not all'
        )
    threshold_K, hits_K, false_K = _counts(p_N, is_label_N)
    missed_K = is_label_N.sum() - hits_K
    precision_K = hits_K / np.maximum(hits_K + false_K, 1)  # 0 where no text reaches the threshold
    f1_K = 2 * hits_K / (2 * hits_K + false_K + missed_K)
    cost_K = None
    match wish.aim:
        case "f1":
            score_K = f1_K
        case "precision":
            assert wish.precision is not None
            if precision_K.max() < wish.precision:
                raise DataError(
                    f'no threshold reaches a precision of {wish.precision} for "{label}" on the {split} data; the highest is '
                    f"{precision_K.max():.4f}. Ask for less."
                )
            score_K = np.where(precision_K >= wish.precision, hits_K, -1)
        case "cost":
            cost_K = (_one(wish.false_positive) * false_K + _one(wish.false_negative) * missed_K) / len(p_N)
            score_K = -cost_K
    best = _closest_to_half(threshold_K, score_K)
    return FittedThreshold(
        label=label,
        threshold=float(threshold_K[best]),
        aim=wish.aim,
        precision=float(precision_K[best]),
        recall=float(hits_K[best] / is_label_N.sum()),
        f1=float(f1_K[best]),
        cost=None if cost_K is None else float(cost_K[best]),
        examples=len(p_N),
        split=split,
    )


def _one(cost: float | None) -> float:
    return 1.0 if cost is None else cost


def _counts(
    p_N: NDArray[np.float64], is_label_N: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Each threshold, how many texts of the class reach it, and how many others."""
    p_K, of_N = np.unique(p_N, return_inverse=True)
    hits_K, all_K = (np.bincount(of_N, weights, minlength=len(p_K)) for weights in (is_label_N, np.ones(len(p_N))))
    reached_K, reaching_K = hits_K[::-1].cumsum()[::-1], all_K[::-1].cumsum()[::-1]
    middle_K = (np.concatenate(([0.0], p_K[:-1])) + p_K) / 2
    if p_K[-1] < 1:  # and a threshold that no text reaches
        middle_K, reached_K, reaching_K = (
            np.append(middle_K, (p_K[-1] + 1) / 2),
            np.append(reached_K, 0),
            np.append(reaching_K, 0),
        )
    return middle_K, reached_K.astype(np.int64), (reaching_K - reached_K).astype(np.int64)


def _closest_to_half(threshold_K: NDArray[np.float64], score_K: NDArray[np.float64]) -> int:
    tied = np.flatnonzero(score_K == score_K.max())
    return int(tied[np.abs(threshold_K[tied] - 0.5).argmin()])
