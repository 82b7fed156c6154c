"""Answers that stand in a text: the best span of each question, exact match and F1 as SQuAD counts them.

Texts are compared in lower case, without punctuation and the articles a, an, the, and with single spaces. With n tokens in
common, of s that were said and r of the right answer:

    precision = n / s    recall = n / r    F1 = 2 · precision · recall / (precision + recall), 0 where n = 0

Of several right answers the one counts that is nearest (Rajpurkar et al. 2016, §6.1). Letters: B rows, T time, N windows.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from firth.errors import DataError
from firth.models.answer_reader import SpanReader
from firth.progress import Progress, silent
from firth.text.batches.readings import AnswerBatch, Readings
from firth.training.loop import precision

Floats = NDArray[np.float64]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerMeasures:
    loss: float  # nats, half the sum over both ends, the mean of the windows that hold their answer
    exact: float  # share of the questions, 0 to 1
    f1: float  # mean over the questions, 0 to 1
    questions: int
    windows: int  # that they were read in


@dataclass(frozen=True)
class Found:
    """A stretch of a context."""

    text: str
    start: int  # its first character
    log_probability: float  # of both its ends, among all places of all windows


class _Ends(NamedTuple):
    """Logits of the tokens of a window's context."""

    start: Floats
    end: Floats


def evaluate(
    model: SpanReader, readings: Readings, *, longest: int, batch: int, dtype: str = "float32", progress: Progress = silent
) -> AnswerMeasures:
    ends = _ends(model, readings, batch, dtype, progress)
    said = [found.text for found in _best(readings, ends, longest)]
    right = [[answer.text for answer in one.answers] for one in readings.questions]
    exact, f1 = scores(said, right)
    return AnswerMeasures(_loss(readings, ends), exact, f1, len(said), len(readings))


def find(
    model: SpanReader, readings: Readings, *, longest: int, batch: int, dtype: str = "float32", progress: Progress = silent
) -> list[Found]:
    """For each question the most probable span of at most `longest` tokens."""
    return _best(readings, _ends(model, readings, batch, dtype, progress), longest)


def scores(said: Sequence[str], right: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Exact match and F1, the mean over the questions; each may have several right answers."""
    if len(said) != len(right) or not said or not all(right):
        raise DataError(f"{len(said)} answers to {len(right)} questions; expected one each, and a right one to compare with")
    exact = [
        max(float(normalised(one) == normalised(answer)) for answer in answers) for one, answers in zip(said, right, strict=True)
    ]
    f1 = [max(overlap(one, answer) for answer in answers) for one, answers in zip(said, right, strict=True)]
    return math.fsum(exact) / len(said), math.fsum(f1) / len(said)


def normalised(text: str) -> str:
    """In lower case, without punctuation and articles, with single spaces; in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def overlap(said: str, right: str) -> float:
    """F1 of the words of two answers, as multisets."""
    one, other = normalised(said).split(), normalised(right).split()
    common = sum((Counter(one) & Counter(other)).values())
    return 2 * common / (len(one) + len(other)) if common else 0.0


def best_span(start: Floats, end: Floats, longest: int) -> tuple[int, int]:
    """The i ≤ j < i + longest with the highest start_i + end_j; of equal ones the shortest, of those the first."""
    best, span = -math.inf, (0, 0)
    for more in range(min(longest, len(start))):
        sum_i = start[: len(start) - more] + end[more:]
        i = int(sum_i.argmax())
        if sum_i[i] > best:
            best, span = float(sum_i[i]), (i, i + more)
    return span


def _best(readings: Readings, ends: list[_Ends], longest: int) -> list[Found]:
    found = []
    for windows in np.split(np.arange(len(readings)), np.flatnonzero(np.diff(readings.question_N)) + 1):
        log_start, log_end = (_log_total([getattr(ends[n], side) for n in windows]) for side in ("start", "end"))
        best: Found | None = None
        for n in windows.tolist():
            i, j = best_span(ends[n].start, ends[n].end, longest)
            log_p = float(ends[n].start[i] - log_start + ends[n].end[j] - log_end)
            if best is None or log_p > best.log_probability:
                first = int(readings.first_N[n])
                best = Found(*readings.text(n, first + i, first + j), log_p)
        assert best is not None
        found.append(best)
    return found


def _loss(readings: Readings, ends: list[_Ends]) -> float:
    windows = readings.answered.tolist()
    if not windows:
        raise DataError("no answer is whole in a window of its context; raise training.context")
    total = 0.0
    for n in windows:
        first = int(readings.first_N[n])
        for logits, place in ((ends[n].start, readings.start_N[n]), (ends[n].end, readings.end_N[n])):
            total += _log_total([logits]) - float(logits[place - first])
    return total / 2 / len(windows)


def _log_total(logits: Sequence[Floats]) -> float:
    return float(np.logaddexp.reduce(np.concatenate(logits)))


@torch.inference_mode()
def _ends(model: SpanReader, readings: Readings, batch: int, dtype: str, progress: Progress) -> list[_Ends]:
    """Of each window, in float64."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    found: dict[int, _Ends] = {}
    for row_B, part in readings.sweep(batch):
        with precision(device, dtype):
            start_BT, end_BT = model(*_on(part, device))
        sides = start_BT.double().cpu().numpy(), end_BT.double().cpu().numpy()
        for b, n in enumerate(row_B.tolist()):
            inside = slice(int(part.first_B[b]), int(part.length_B[b]) - 1)
            found[n] = _Ends(sides[0][b, inside], sides[1][b, inside])
        progress("evaluating", len(found), len(readings))
    model.train(was_training)
    return [found[n] for n in range(len(readings))]


def _on(part: AnswerBatch, device: torch.device) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array).to(device) for array in (part.token_BT, part.length_B, part.first_B))
