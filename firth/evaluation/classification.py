"""Accuracy, precision, recall, F1 and the confusion matrix, as plain data.

Letters: N texts, C classes. With TP, FP and FN counted for one class:

    precision = TP / (TP + FP)    recall = TP / (TP + FN)    F1 = 2 TP / (2 TP + FP + FN)

each 0 where nothing was counted. Macro F1 is the mean of F1 over the classes, rare ones like frequent ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from firth.models import Classifier
from firth.progress import Progress, silent
from firth.text.batches.examples import Examples
from firth.text.tokenizers.special_tokens import Ids
from firth.training.loop import precision


@dataclass(frozen=True)
class ClassMeasures:
    label: str
    examples: int  # that have this label
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Measures:
    loss: float  # mean nats per text
    accuracy: float  # share of the texts whose most probable class is their label
    macro_f1: float
    examples: int
    classes: tuple[ClassMeasures, ...]
    confusion: tuple[tuple[int, ...], ...]  # a row for each label, a column for each class that was said instead


def evaluate(
    model: Classifier,
    examples: Examples,
    labels: Sequence[str],
    *,
    batch: int,
    dtype: str = "float32",
    progress: Progress = silent,
) -> Measures:
    log_p_NC = np.empty((len(examples), len(labels)))
    done = 0
    for row_B, part in examples.sweep(batch):
        log_p_NC[row_B] = log_probabilities(model, part.token_BT, part.length_B, dtype)
        done += len(row_B)
        progress("evaluating", done, len(examples))
    return measures(log_p_NC, examples.label_N, labels)


@torch.inference_mode()
def log_probabilities(model: Classifier, token_BT: Ids, length_B: Ids, dtype: str = "float32") -> NDArray[np.float64]:
    """log p_BC(class | text), normalised in float64."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    with precision(device, dtype):
        logits_BC = model(torch.from_numpy(token_BT).to(device), torch.from_numpy(length_B).to(device))
    model.train(was_training)
    log_p_BC: NDArray[np.float64] = torch.log_softmax(logits_BC.cpu().double(), -1).numpy()
    return log_p_BC


def measures(log_p_NC: NDArray[np.float64], label_N: NDArray[np.int64], labels: Sequence[str]) -> Measures:
    """What the log-probabilities of the classes are worth, beside the true ones."""
    count = len(labels)
    loss = -float(np.take_along_axis(log_p_NC, label_N[:, None], axis=1).mean())
    confusion_CC = np.bincount(label_N * count + log_p_NC.argmax(1), minlength=count**2).reshape(count, count)
    classes = tuple(_each(confusion_CC, labels))
    return Measures(
        loss=loss,
        accuracy=float(np.trace(confusion_CC) / len(label_N)),
        macro_f1=sum(one.f1 for one in classes) / count,
        examples=len(label_N),
        classes=classes,
        confusion=tuple(tuple(row) for row in confusion_CC.tolist()),
    )


def _each(confusion_CC: NDArray[np.int64], labels: Iterable[str]) -> Iterator[ClassMeasures]:
    for n, label in enumerate(labels):
        right, said, there = int(confusion_CC[n, n]), int(confusion_CC[:, n].sum()), int(confusion_CC[n].sum())
        yield ClassMeasures(label, there, _share(right, said), _share(right, there), _share(2 * right, said + there))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
