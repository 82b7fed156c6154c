"""Tagging: sentences with a tag for each word, batches of similar length, accuracy, and F1 where the tags mark spans."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.api.unseen_words import say_unseen
from firth.errors import ConfigError, DataError
from firth.evaluation.tagging import evaluate as measure
from firth.evaluation.tagging import log_probabilities, marks_spans
from firth.models import EncoderConfig, Network
from firth.models.config import TransformerSettings
from firth.models.tagger import Tagger, tagger
from firth.objectives.tagging import TaggingConfig, tagging
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.batches.sentences import BucketedSentences, Sentences
from firth.text.data.tagged import Tagged, encode_tagged, encode_words, prepare_tagged
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model

AT_ONCE = 128  # sentences read together
_SCALARS = ("loss", "accuracy", "f1", "words", "sentences")  # of the metrics, what goes into a log line


@dataclass(frozen=True)
class Tags:
    """What a tagger says of a sentence, word by word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]  # of those tags

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Tagged:
    data = prepare_tagged(recipe.data, tokenizer, progress)
    assert isinstance(recipe.objective, TaggingConfig)  # a Recipe's family fits its objective
    if recipe.objective.unknown and data.tokenizer.unknown is None:
        raise ConfigError(
            f"objective.unknown is {recipe.objective.unknown}, and a {data.tokenizer.kind} tokenizer can have no <unk> to read "
            'words as; leave it out, or choose tokenizer.kind = "word" or "wordpiece"'
        )
    if recipe.training.select == "f1" and not marks_spans(data.labels):
        raise ConfigError(
            f'training.select is "f1", and the tags of these data mark no spans: {", ".join(data.labels[:5])} …; choose '
            '"loss" or "accuracy"'
        )
    model = recipe.model
    if isinstance(model, TransformerSettings) and model.position == "learned":
        for name in ("train", "valid"):
            if (part := getattr(data, name)) is not None:
                _refuse_longer(part, model.context, f"{name} sentences")
    return data


@dataclass(frozen=True)
class TaggingTask(OfData[Tagged]):
    loss: Loss = tagging

    def network(self) -> Tagger:
        assert isinstance(self.recipe.model, EncoderConfig)  # a Recipe's family fits its objective
        return tagger(self.recipe.model, self.tokenizer.vocab, len(self.data.labels))

    def batches(self) -> BucketedSentences:
        training, objective = self.recipe.training, self.recipe.objective
        assert isinstance(objective, TaggingConfig)
        return BucketedSentences(
            self.data.train,
            training.batch,
            training.seed,
            spelled=bool(getattr(self.recipe.model, "characters", 0)),
            hidden=objective.unknown,
            unknown=self.tokenizer.unknown,
        )

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, Tagger)
        dtype = self.recipe.training.dtype
        measured = measure(network, self.data.valid, self.data.labels, batch=AT_ONCE, dtype=dtype, progress=progress)
        return {name: value for name in _SCALARS if (value := getattr(measured, name)) is not None}


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Accuracy, each tag's precision, recall and F1, and those of spans where the tags mark some."""
    name, sentences = _sentences(model, asked, progress)
    _refuse_longer(sentences, model.tagger.context, f"sentences of {name}")
    measured = measure(model.tagger, sentences, model.labels, batch=AT_ONCE, progress=progress)
    return {**dataclasses.asdict(measured), "split": name}


def _sentences(model: Model, asked: Asked, progress: Progress) -> tuple[str, Sentences]:
    if asked.path is not None:
        return str(asked.path), encode_tagged(asked.path, model.tokenizer, model.recipe.data, progress)
    return chosen(prepare_tagged(model.recipe.data, model.tokenizer, progress), asked.split)


def tag(network: Tagger, tokenizer: Tokenizer, labels: Sequence[str], sentences: Sequence[str | Sequence[str]]) -> list[Tags]:
    """The most probable tag of each word, and its probability. A string is split at white space.

    Words never seen in training are said once for all sentences, unless the model reads their spelling, too."""
    given = [tuple(sentence.split() if isinstance(sentence, str) else sentence) for sentence in sentences]
    for words in given:
        if not words or not all(word.strip() for word in words):
            raise DataError(f"a sentence to tag is {list(words)!r}; expected a word or more, and none of them empty")
    if not given:
        return []
    if network.spelling is None:
        say_unseen(tokenizer.unseen(" ".join(word for words in given for word in words)))
    encoded = encode_words(given, tokenizer)
    _refuse_longer(encoded, network.context, "sentences to tag")
    log_p_NC = log_probabilities(network, encoded, batch=AT_ONCE)
    best_N, chance_N = log_p_NC.argmax(1), np.exp(log_p_NC.max(1))
    found = []
    for words, first in zip(given, encoded.word_starts[:-1].tolist(), strict=True):
        place = slice(first, first + len(words))
        found.append(Tags(words, tuple(labels[n] for n in best_N[place]), tuple(chance_N[place].tolist())))
    return found


def _refuse_longer(sentences: Sentences, limit: int | None, what: str) -> None:
    """A sentence is never cut without a word."""
    if limit is None or not (sentences.length_N > limit).any():
        return
    raise DataError(
        f"{int((sentences.length_N > limit).sum()):,} of {len(sentences):,} {what} have more than {limit:,} tokens, the longest "
        f"that this model reads (its positions are learned, and model.context = {limit}); the longest has "
        f"{int(sentences.length_N.max()):,}. Shorten them, or train with a larger model.context or another model.position"
    )
