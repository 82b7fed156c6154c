"""In-context learning: the quality of the answers after 0, 1, 2, … examples, beside the best achievable.

Letters: B prompts, E = examples + 1, L letters of a word, A letters of the alphabet, D dimensions, T time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from firth.evaluation.inference import inference
from firth.models import LanguageModel
from firth.models.point_regressor import PointRegressor
from firth.progress import Progress, silent
from firth.text.datasets.in_context_tasks import PointPrompts, SwapPrompts
from firth.training.distributed import all_merged, mine
from firth.training.loop import precision

Floats = NDArray[np.float64]
P = TypeVar("P", SwapPrompts, PointPrompts)


@dataclass(frozen=True, eq=False)
class Answers:
    """For each answer after 0, 1, … examples: whether it is right, and its loss."""

    right_BE: NDArray[np.bool_]  # every character is right
    nats_BE: Floats  # per character

    @property
    def loss(self) -> float:
        """Mean nats per character over all answers."""
        return float(self.nats_BE.mean())

    @property
    def accuracy(self) -> float:
        """Accuracy after all examples."""
        return float(self.right_BE.mean(0)[-1])


@dataclass(frozen=True, eq=False)
class Errors:
    """(ŷ − y)² / D after 0, 1, … examples."""

    error_BE: Floats

    @property
    def loss(self) -> float:
        """Mean error over all answers."""
        return float(self.error_BE.mean())

    @property
    def squared_error(self) -> float:
        """Mean error after all examples."""
        return float(self.error_BE.mean(0)[-1])


@dataclass(frozen=True)
class AnswersAfter:
    """The answers after `examples` examples."""

    examples: int
    accuracy: float  # fraction of answers with every character right
    best: float  # accuracy of an ideal learner; see best_accuracy
    loss: float  # nats per character


@dataclass(frozen=True)
class ErrorAfter:
    """(ŷ − y)² / D after `examples` examples, averaged over the prompts."""

    examples: int
    squared_error: float
    least_squares: float  # of ŵ = argmin Σ (w·x − y)²; see least_squares
    zero: float  # of always predicting 0


def answers(
    model: LanguageModel, prompts: SwapPrompts, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> Answers:
    """An answer is right if each of its characters is the most probable one given those before it, that is, if greedy decoding
    produces it."""
    pieces = _in_batches(model, prompts, batch, progress, lambda first, last: _answers(model, prompts, first, last, dtype))
    return Answers(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def errors(
    model: PointRegressor, prompts: PointPrompts, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> Errors:
    predicted = _in_batches(model, prompts, batch, progress, lambda first, last: _predicted(model, prompts, first, last, dtype))
    return _errors(prompts, np.concatenate(predicted))


def answers_by_examples(answers: Answers, prompts: SwapPrompts) -> list[AnswersAfter]:
    columns = answers.right_BE.mean(0), best_accuracy(prompts), answers.nats_BE.mean(0)
    return [AnswersAfter(k, *map(float, row)) for k, row in enumerate(zip(*columns, strict=True))]


def errors_by_examples(errors: Errors, prompts: PointPrompts) -> list[ErrorAfter]:
    baselines = (_errors(prompts, y_BE) for y_BE in (least_squares(prompts), np.zeros(prompts.y_BE.shape)))
    columns = (one.error_BE.mean(0) for one in (errors, *baselines))
    return [ErrorAfter(k, *map(float, row)) for k, row in enumerate(zip(*columns, strict=True))]


def best_accuracy(prompts: SwapPrompts) -> Floats:
    """Accuracy after k examples of an ideal learner, which knows the rule for the letters seen and that it permutes the others:

        (u − m)! / u!    u letters that occur in no example, m of them in the question

    All u! permutations of the unseen letters are equally probable, and (u − m)! of them give the same answer."""
    _, examples, _ = prompts.word_BEL.shape
    letters = np.arange(prompts.becomes_BA.shape[1])
    has_BEA = (prompts.word_BEL[..., None] == letters).any(2)
    best_E = []
    for k in range(examples):
        open_BA = ~has_BEA[:, :k].any(1)
        asked_BA = open_BA & has_BEA[:, k]
        pairs = zip(open_BA.sum(1).tolist(), asked_BA.sum(1).tolist(), strict=True)
        best_E.append(np.mean([1 / math.perm(u, m) for u, m in pairs]))
    return np.array(best_E)


def least_squares(prompts: PointPrompts) -> Floats:
    """ŷ_BE: x_k·ŵ with ŵ fitted to the points before k; with fewer points than dimensions, the ŵ of least norm that fits them.

    For normal w and x without noise this is optimal: ŵ is the mean of all w that fit the points."""
    x_BED, y_BE = torch.from_numpy(prompts.x_BED).double(), torch.from_numpy(prompts.y_BE).double()
    predicted_BE = torch.zeros_like(y_BE)
    for k in range(1, y_BE.shape[1]):
        w_BD = (torch.linalg.pinv(x_BED[:, :k]) @ y_BE[:, :k, None]).squeeze(-1)
        predicted_BE[:, k] = (x_BED[:, k] * w_BD).sum(-1)
    prediction: Floats = predicted_BE.numpy()
    return prediction


def _answers(model: LanguageModel, prompts: SwapPrompts, first: int, last: int, dtype: str) -> tuple[NDArray[np.bool_], Floats]:
    """For each answer, if it is right, and its nats per character."""
    batch, device = prompts.batch(first, last), next(model.parameters()).device
    token_BT, target_BT = (torch.from_numpy(array).to(device) for array in (batch.token_BT, batch.target_BT))
    with precision(device, dtype):
        logits_BTV = model(token_BT)[0].float()
    asked_BT = target_BT >= 0
    shape = (len(token_BT), *prompts.word_BEL.shape[1:])
    nats_BT = F.cross_entropy(logits_BTV.mT, target_BT.clamp(min=0), reduction="none")
    right_BT = logits_BTV.argmax(-1) == target_BT
    right_BEL, nats_BEL = (_numbers(found_BT[asked_BT]).reshape(shape) for found_BT in (right_BT, nats_BT))
    return np.asarray(right_BEL.all(2)), nats_BEL.astype(np.float64).mean(2)


def _predicted(model: PointRegressor, prompts: PointPrompts, first: int, last: int, dtype: str) -> Floats:
    batch, device = prompts.batch(first, last), next(model.parameters()).device
    with precision(device, dtype):
        y_BE = model(torch.from_numpy(batch.x_BED).to(device), torch.from_numpy(batch.y_BE).to(device))
    return _numbers(y_BE).astype(np.float64)


def _errors(prompts: PointPrompts, predicted_BE: Floats) -> Errors:
    return Errors((predicted_BE - prompts.y_BE) ** 2 / prompts.x_BED.shape[2])


def _numbers(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array


T = TypeVar("T")


def _in_batches(model: nn.Module, prompts: P, batch: int, progress: Progress, piece: Callable[[int, int], T]) -> list[T]:
    results: dict[int, T] = {}
    with inference(model):
        for number, first in enumerate(range(0, len(prompts), batch)):
            last = min(first + batch, len(prompts))
            if mine(number):
                results[number] = piece(first, last)
            progress("evaluating", last, len(prompts))
    results = all_merged(results)
    return [results[number] for number in range(len(results))]
