"""Classification: texts with labels, shuffled batches of them, accuracy and F1."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.api.unseen import say_unseen
from firth.errors import DataError
from firth.evaluation.classification import evaluate as measure
from firth.evaluation.classification import log_probabilities
from firth.models import Classifier, EncoderConfig, Network, classifier
from firth.objectives.classification import classification
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.labelled import Examples, Labelled, ShuffledExamples, encode_labelled, padded, prepare_labelled
from firth.text.special import Ids
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model

AT_ONCE = 256  # texts read together
_SCALARS = ("loss", "accuracy", "macro_f1", "examples")  # of the metrics, what goes into a log line


@dataclass(frozen=True)
class Classification:
    """What a classifier says of a text."""

    label: str
    probability: float
    probabilities: dict[str, float]  # of every class


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Labelled:
    return prepare_labelled(recipe.data, tokenizer, progress)


@dataclass(frozen=True)
class ClassificationTask(OfData[Labelled]):
    loss: Loss = classification

    def network(self) -> Classifier:
        assert isinstance(self.recipe.model, EncoderConfig)  # a Recipe's family fits its objective
        return classifier(self.recipe.model, self.tokenizer.vocab, len(self.data.labels))

    def batches(self) -> ShuffledExamples:
        return ShuffledExamples(self.data.train, self.recipe.training.batch, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, Classifier)
        dtype = self.recipe.training.dtype
        measured = measure(network, self.data.valid, self.data.labels, batch=AT_ONCE, dtype=dtype, progress=progress)
        return {name: getattr(measured, name) for name in _SCALARS}


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Accuracy, F1 and the confusion matrix."""
    name, examples = _examples(model, asked, progress)
    measured = measure(model.classifier, examples, model.labels, batch=AT_ONCE, progress=progress)
    return {**dataclasses.asdict(measured), "split": name}


def _examples(model: Model, asked: Asked, progress: Progress) -> tuple[str, Examples]:
    if asked.path is not None:
        return str(asked.path), encode_labelled(asked.path, model.tokenizer, model.recipe.data, progress)
    return chosen(prepare_labelled(model.recipe.data, model.tokenizer, progress), asked.split)


def classify(network: Classifier, tokenizer: Tokenizer, labels: Sequence[str], texts: Sequence[str]) -> list[Classification]:
    """The most probable class of each text, with all probabilities. Words never seen in training are said once for all texts."""
    encoded = list(_encoded(tokenizer, texts))
    found = []
    for first in range(0, len(encoded), AT_ONCE):
        for log_p_C in log_probabilities(network, *padded(encoded[first : first + AT_ONCE])):
            chances = {label: math.exp(log_p) for label, log_p in zip(labels, log_p_C.tolist(), strict=True)}
            best = labels[int(np.argmax(log_p_C))]
            found.append(Classification(best, chances[best], chances))
    return found


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Ids]:
    unseen: dict[str, None] = {}
    for text in texts:
        ids = tokenizer.encode(text)
        if not len(ids):
            raise DataError(f"a text to classify is {text!r}, which has nothing to read; expected a word or more")
        if tokenizer.unknown is not None and (ids == tokenizer.unknown).any():
            unseen |= dict.fromkeys(tokenizer.unseen(text))
        yield ids
    say_unseen(unseen)
