"""Extractive question answering: the best span for each question, and SQuAD's exact match and F1.

Texts are compared in lower case, without punctuation and the articles a, an, the, and with single spaces. With n tokens in
common, s tokens in the predicted and r in the correct answer:

    precision = n / s    recall = n / r    F1 = 2 · precision · recall / (precision + recall), 0 where n = 0

If a question has several correct answers, the best score counts (Rajpurkar et al. 2016, §6.1).
Letters: B rows, T time, N windows.
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
from firth.evaluation.by_text import TextCounts, mean_of
from firth.evaluation.inference import inference, with_progress
from firth.evaluation.metrics import own_values
from firth.models.question_answering import QuestionAnswerer
from firth.progress import Progress, silent
from firth.text.batches.questions import AnswerBatch, QuestionWindows
from firth.training.distributed import all_merged
from firth.training.loop import precision

Floats = NDArray[np.float64]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerMeasures:
    loss: float  # mean nats per end of an answer, over the windows that contain their answer
    exact: float  # fraction of the questions, 0 to 1
    f1: float  # mean over the questions, 0 to 1
    questions: int
    windows: int  # into which their contexts were split
    own: dict[str, float]  # metrics from user files, with the first of several correct answers


@dataclass(frozen=True)
class AnswerSpan:
    """A span of the context."""

    text: str
    start: int  # its first character
    log_probability: float  # of its start and end, normalised over all positions of all windows


class _Ends(NamedTuple):
    """Logits over the context tokens of one window."""

    start: Floats
    end: Floats


def evaluate(
    model: QuestionAnswerer,
    windows: QuestionWindows,
    *,
    longest: int,
    batch: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> AnswerMeasures:
    ends = _ends(model, windows, batch, dtype, progress)
    predicted = [span.text for span in _best(windows, ends, longest)]
    correct = [[answer.text for answer in one.answers] for one in windows.questions]
    exact, f1 = scores(predicted, correct)
    own = own_values("texts", predicted, [answers[0] for answers in correct])
    return AnswerMeasures(_loss(windows, ends), exact, f1, len(predicted), len(windows), own)


def find(
    model: QuestionAnswerer,
    windows: QuestionWindows,
    *,
    longest: int,
    batch: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> list[AnswerSpan]:
    """The most probable span of at most `longest` tokens for each question."""
    return _best(windows, _ends(model, windows, batch, dtype, progress), longest)


def counts_by_question(
    model: QuestionAnswerer, windows: QuestionWindows, *, longest: int, batch: int, progress: Progress = silent
) -> dict[str, TextCounts]:
    """Exact match and F1, from those of each question."""
    predicted = [span.text for span in find(model, windows, longest=longest, batch=batch, progress=progress)]
    exact, f1 = _scores_of_each(predicted, [[answer.text for answer in one.answers] for one in windows.questions])
    return {"exact": mean_of(exact), "f1": mean_of(f1)}


def scores(predicted: Sequence[str], correct: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Mean exact match and mean F1 over the questions; each question may have several correct answers."""
    if len(predicted) != len(correct) or not predicted or not all(correct):
        raise DataError(
            f"{len(predicted)} predicted answers for {len(correct)} questions; "
            "give one prediction and at least one correct answer per question"
        )
    exact, f1 = _scores_of_each(predicted, correct)
    return math.fsum(exact) / len(exact), math.fsum(f1) / len(f1)


def _scores_of_each(predicted: Sequence[str], correct: Sequence[Sequence[str]]) -> tuple[list[float], list[float]]:
    """Exact match and F1 of each question."""
    pairs = list(zip(predicted, correct, strict=True))
    exact = [max(float(normalized(one) == normalized(answer)) for answer in answers) for one, answers in pairs]
    return exact, [max(overlap(one, answer) for answer in answers) for one, answers in pairs]


def normalized(text: str) -> str:
    """Lower-case, then remove punctuation, then articles, then extra spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def overlap(predicted: str, correct: str) -> float:
    """F1 of the words of two answers, as multisets."""
    one, other = normalized(predicted).split(), normalized(correct).split()
    common = sum((Counter(one) & Counter(other)).values())
    return 2 * common / (len(one) + len(other)) if common else 0.0


def best_span(start: Floats, end: Floats, longest: int) -> tuple[int, int]:
    """The i ≤ j < i + longest with the highest start_i + end_j; ties go to the shortest span, then to the first."""
    best, span = -math.inf, (0, 0)
    for more in range(min(longest, len(start))):
        sum_i = start[: len(start) - more] + end[more:]
        i = int(sum_i.argmax())
        if sum_i[i] > best:
            best, span = float(sum_i[i]), (i, i + more)
    return span


def _best(windows: QuestionWindows, ends: list[_Ends], longest: int) -> list[AnswerSpan]:
    spans = []
    for numbers in np.split(np.arange(len(windows)), np.flatnonzero(np.diff(windows.question_N)) + 1):
        log_start, log_end = (_log_total([getattr(ends[n], side) for n in numbers]) for side in ("start", "end"))
        best: AnswerSpan | None = None
        for n in numbers.tolist():
            i, j = best_span(ends[n].start, ends[n].end, longest)
            log_p = float(ends[n].start[i] - log_start + ends[n].end[j] - log_end)
            if best is None or log_p > best.log_probability:
                first = int(windows.first_N[n])
                best = AnswerSpan(*windows.text(n, first + i, first + j), log_p)
        assert best is not None
        spans.append(best)
    return spans


def _loss(windows: QuestionWindows, ends: list[_Ends]) -> float:
    answered = windows.answered.tolist()
    if not answered:
        raise DataError("no answer fits into a window of its context; raise training.context")
    total = 0.0
    for n in answered:
        first = int(windows.first_N[n])
        for logits, place in ((ends[n].start, windows.start_N[n]), (ends[n].end, windows.end_N[n])):
            total += _log_total([logits]) - float(logits[place - first])
    return total / 2 / len(answered)


def _log_total(logits: Sequence[Floats]) -> float:
    return float(np.logaddexp.reduce(np.concatenate(logits)))


def _ends(model: QuestionAnswerer, windows: QuestionWindows, batch: int, dtype: str, progress: Progress) -> list[_Ends]:
    """Start and end logits of each window, in float64."""
    ends: dict[int, _Ends] = {}
    with inference(model) as device:
        for row_B, part in with_progress(windows.sweep(batch), lambda rows: len(rows[0]), len(windows), progress):
            with precision(device, dtype):
                start_BT, end_BT = model(*_on(part, device))
            sides = start_BT.double().cpu().numpy(), end_BT.double().cpu().numpy()
            for b, n in enumerate(row_B.tolist()):
                inside = slice(int(part.first_B[b]), int(part.length_B[b]) - 1)
                ends[n] = _Ends(sides[0][b, inside], sides[1][b, inside])
    ends = all_merged(ends)
    return [ends[n] for n in range(len(windows))]


def _on(part: AnswerBatch, device: torch.device) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array).to(device) for array in (part.token_BT, part.length_B, part.first_B))
