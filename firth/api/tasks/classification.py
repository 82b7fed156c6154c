"""Classification: texts with labels, batches of similar length, accuracy and F1."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.api.unseen_words import say_unseen
from firth.errors import DataError
from firth.evaluation.classification import evaluate as measure
from firth.evaluation.classification import log_probabilities
from firth.models import Classifier, ModelConfig, Network, Seq2SeqConfig, classifier
from firth.models.config import TransformerSettings
from firth.objectives.classification import ClassificationConfig, classification, weights
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.batches.buckets import by_length
from firth.text.batches.examples import BucketedExamples, Examples
from firth.text.batches.padding import padded
from firth.text.data.labelled import Labelled, encode_labelled, prepare_labelled
from firth.text.tokenizers.special_tokens import Ids
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
    limit = _limit(recipe.model)
    data = prepare_labelled(recipe.data, tokenizer, progress, limit=limit, also=_words(recipe, tokenizer))
    if data.valid is not None:
        _refuse_longer(data.valid.length_N, limit, "held-out texts")
    assert isinstance(recipe.objective, ClassificationConfig)
    weights(recipe.objective, data.train.label_N, data.labels)  # said before anything is written
    return data


def _words(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer) -> Sequence[str]:
    """Those of model.vectors, where they are to be in a vocabulary that is yet to be learned."""
    from firth.vectors import load

    if not isinstance(tokenizer, TokenizerConfig) or not tokenizer.vectors:
        return ()
    assert not isinstance(recipe.model, Seq2SeqConfig)
    assert recipe.model.vectors is not None  # a Recipe's tables fit
    return load(Path(recipe.model.vectors)).words


def _limit(config: ModelConfig) -> int | None:
    """The longest text that a model reads; None: any. Positions that are learned end somewhere, others go on."""
    return config.context if isinstance(config, TransformerSettings) and config.position == "learned" else None


def _refuse_longer(length_N: np.ndarray[Any, np.dtype[np.int64]], limit: int | None, what: str) -> None:
    """A text is never cut without a word."""
    if limit is None or not (length_N > limit).any():
        return
    raise DataError(
        f"{int((length_N > limit).sum()):,} of {len(length_N):,} {what} have more than {limit:,} tokens, the longest that this "
        f"model reads (its positions are learned, and model.context = {limit}); the longest has {int(length_N.max()):,}. Shorten "
        "them, or train with a larger model.context or another model.position"
    )


@dataclass(frozen=True)
class ClassificationTask(OfData[Labelled]):
    @property
    def loss(self) -> Loss:
        assert isinstance(self.recipe.objective, ClassificationConfig)  # a Recipe's family fits its objective
        found = weights(self.recipe.objective, self.data.train.label_N, self.data.labels)
        return classification if found is None else partial(classification, weight_C=torch.from_numpy(found).float())

    def network(self) -> Classifier:
        assert not isinstance(self.recipe.model, Seq2SeqConfig)
        return classifier(self.recipe.model, self.tokenizer.vocab, len(self.data.labels))

    def batches(self) -> BucketedExamples:
        return BucketedExamples(self.data.train, self.recipe.training.batch, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, Classifier)
        dtype = self.recipe.training.dtype
        measured = measure(network, self.data.valid, self.data.labels, batch=AT_ONCE, dtype=dtype, progress=progress)
        return {name: getattr(measured, name) for name in _SCALARS}


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Accuracy, F1 and the confusion matrix."""
    name, examples = _examples(model, asked, progress)
    _refuse_longer(examples.length_N, _limit(model.recipe.model), f"texts of {name}")
    measured = measure(model.classifier, examples, model.labels, batch=AT_ONCE, progress=progress)
    return {**dataclasses.asdict(measured), "split": name}


def _examples(model: Model, asked: Asked, progress: Progress) -> tuple[str, Examples]:
    if asked.path is not None:
        return str(asked.path), encode_labelled(asked.path, model.tokenizer, model.recipe.data, progress)
    return chosen(prepare_labelled(model.recipe.data, model.tokenizer, progress), asked.split)


def classify(network: Classifier, tokenizer: Tokenizer, labels: Sequence[str], texts: Sequence[str]) -> list[Classification]:
    """The most probable class of each text, with all probabilities. Words never seen in training are said once for all texts."""
    encoded = list(_encoded(tokenizer, texts))
    length_N = np.array([len(ids) for ids in encoded], np.int64)
    _refuse_longer(length_N, network.context, "texts to classify")
    log_p_NC = np.empty((len(encoded), len(labels)))
    for row_B in by_length(length_N, AT_ONCE):
        log_p_NC[row_B] = log_probabilities(network, *padded([encoded[row] for row in row_B]))
    return [_classification(log_p_C, labels) for log_p_C in log_p_NC]


def _classification(log_p_C: np.ndarray[Any, np.dtype[np.float64]], labels: Sequence[str]) -> Classification:
    chances = {label: math.exp(log_p) for label, log_p in zip(labels, log_p_C.tolist(), strict=True)}
    best = labels[int(np.argmax(log_p_C))]
    return Classification(best, chances[best], chances)


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
