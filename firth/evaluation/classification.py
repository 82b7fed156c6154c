"""Accuracy, precision, recall, F1 and the confusion matrix of a classifier.

Letters: N texts, C classes. With TP, FP and FN counted for one class:

    precision = TP / (TP + FP)    recall = TP / (TP + FN)    F1 = 2 TP / (2 TP + FP + FN)

each 0 if its denominator is 0. Macro F1 is the unweighted mean of F1 over the classes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.evaluation.inference import inference, with_progress
from firth.evaluation.metrics import own_values
from firth.layers.objective import OBJECTIVES, USUAL, LossKind
from firth.models import Classifier
from firth.progress import Progress, silent
from firth.text.batches.examples import Examples
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_merged
from firth.training.loop import precision


@dataclass(frozen=True)
class ClassMeasures:
    label: str
    examples: int  # with this label
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Measures:
    loss: float  # mean per text: nats, or the squared error
    accuracy: float  # fraction of the texts whose most probable class is their label
    macro_f1: float
    examples: int
    classes: tuple[ClassMeasures, ...]
    confusion: tuple[tuple[int, ...], ...]  # a row per true label, a column per predicted class
    own: dict[str, float] = field(default_factory=dict)  # metrics of one's own


def evaluate(
    model: Classifier,
    examples: Examples,
    labels: Sequence[str],
    *,
    batch: int,
    dtype: str = "float32",
    loss: LossKind = USUAL,
    progress: Progress = silent,
) -> Measures:
    log_p_NC = class_log_probabilities(model, examples, batch=batch, dtype=dtype, progress=progress)
    return measures(log_p_NC, examples.label_N, labels, loss=loss)


def class_log_probabilities(
    model: Classifier, examples: Examples, *, batch: int, dtype: str = "float32", progress: Progress = silent
) -> NDArray[np.float64]:
    """log p_NC(class | text) of all examples, whose batches the processes share."""
    log_p_of_row: dict[int, NDArray[np.float64]] = {}
    for row_B, part in with_progress(examples.sweep(batch), lambda rows: len(rows[0]), len(examples), progress):
        log_p_of_row |= zip(row_B.tolist(), log_probabilities(model, part.token_BT, part.length_B, dtype), strict=True)
    log_p_of_row = all_merged(log_p_of_row)
    return np.stack([log_p_of_row[row] for row in range(len(examples))])


def log_probabilities(model: Classifier, token_BT: Ids, length_B: Ids, dtype: str = "float32") -> NDArray[np.float64]:
    """log p_BC(class | text), normalised in float64."""
    with inference(model) as device:
        with precision(device, dtype):
            logits_BC = model(torch.from_numpy(token_BT).to(device), torch.from_numpy(length_B).to(device))
        log_p_BC: NDArray[np.float64] = torch.log_softmax(logits_BC.cpu().double(), -1).numpy()
    return log_p_BC


def measures(
    log_p_NC: NDArray[np.float64],
    label_N: NDArray[np.int64],
    labels: Sequence[str],
    best_N: NDArray[np.int64] | None = None,
    loss: LossKind = USUAL,
) -> Measures:
    """The metrics of predicted log-probabilities, and of the predicted labels (default: the most probable), against the true
    labels."""
    count = len(labels)
    best_N = log_p_NC.argmax(1) if best_N is None else best_N
    confusion_CC = np.bincount(label_N * count + best_N, minlength=count**2).reshape(count, count)
    classes = tuple(_by_class(confusion_CC, labels))
    return Measures(
        loss=float(OBJECTIVES[loss].loss(torch.from_numpy(log_p_NC), torch.from_numpy(label_N)).mean()),
        accuracy=float(np.trace(confusion_CC) / len(label_N)),
        macro_f1=sum(one.f1 for one in classes) / count,
        examples=len(label_N),
        classes=classes,
        confusion=tuple(tuple(row) for row in confusion_CC.tolist()),
        own=own_values("labels", [labels[n] for n in best_N], [labels[n] for n in label_N]),
    )


def _by_class(confusion_CC: NDArray[np.int64], labels: Iterable[str]) -> Iterator[ClassMeasures]:
    for n, label in enumerate(labels):
        hits, predicted, actual = int(confusion_CC[n, n]), int(confusion_CC[:, n].sum()), int(confusion_CC[n].sum())
        yield ClassMeasures(label, actual, ratio(hits, predicted), ratio(hits, actual), ratio(2 * hits, predicted + actual))


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def report_csv(classes: Sequence[Mapping[str, Any]], accuracy: float) -> str:
    """Precision, recall and F1 of each class as csv, with the columns and the last three rows of sklearn's classification_report.

    `classes`: a `ClassMeasures` as a dict for each. The accuracy stands in the column f1-score, as in sklearn's table."""
    total = sum(one["examples"] for one in classes)
    scores = [(one["precision"], one["recall"], one["f1"]) for one in classes]
    weighted = [sum(one["examples"] * score[n] for one, score in zip(classes, scores, strict=True)) / total for n in range(3)]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("class", "precision", "recall", "f1-score", "support"))
    rows.writerows((one["label"], *score, one["examples"]) for one, score in zip(classes, scores, strict=True))
    rows.writerow(("accuracy", "", "", accuracy, total))
    rows.writerow(("macro avg", *(sum(column) / len(scores) for column in zip(*scores, strict=True)), total))
    rows.writerow(("weighted avg", *weighted, total))
    return text.getvalue()
