"""Sequence tagging: a tag for each word. Letters: B batch, T pieces, W words, K symbols of a spelling, C tags, N words in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.evaluation.by_text import JudgedTexts, hash_of
from firth.evaluation.metrics import flat
from firth.evaluation.tagging import counts_by_sentence, marks_spans, predict
from firth.evaluation.tagging import evaluate as measure
from firth.inspection.inputs import Reading
from firth.layers.cross_entropy import RowLoss
from firth.models import EncoderConfig
from firth.models.tagger import Tagger, tagger
from firth.progress import Progress
from firth.tasks.abilities import contextual_vectors
from firth.tasks.abilities.inspection_inputs import arrays_reading
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.ability import ON_TEXT, TAG
from firth.tasks.run import Run, refuse_one_text
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, chosen
from firth.tasks.task import Task, Tokenizers, TokenLossConfig, rows, scores
from firth.text.batches.sentences import BucketedSentences, Sentences
from firth.text.config import TaggedConfig, TokenizerConfig
from firth.text.data.lengths import refuse_longer
from firth.text.data.tagged import Tagged, encode_tagged, encode_words, prepare_tagged
from firth.training.loop import Loss

Among = Literal["all", "singletons"]
AT_ONCE = 128  # sentences per batch of inference
_SCALARS = ("loss", "accuracy", "f1", "words", "sentences")  # the metrics in a log line


@dataclass(frozen=True, kw_only=True)
class TaggingConfig(TokenLossConfig):
    kind: Literal["tagging"] = "tagging"
    unknown: float = 0.0  # share of the tokens that training replaces by <unk>; needs a tokenizer that has it
    unknown_among: Among = "all"  # the tokens that may be replaced: all, or those that occur once in the training data

    def __post_init__(self) -> None:
        if not 0 <= self.unknown < 1:
            raise ConfigError(f"objective.unknown is {self.unknown}; expected 0 ≤ unknown < 1")
        if self.unknown_among != "all" and not self.unknown:
            raise ConfigError(
                f'objective.unknown_among is "{self.unknown_among}", but objective.unknown is 0. Set it, for example to 0.5.'
            )


def tagging(
    model: Tagger,
    token_BT: Tensor,
    length_B: Tensor,
    first_BW: Tensor,
    symbol_BWK: Tensor,
    label_BW: Tensor,
    state: None = None,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """−mean log p(tags | sentence), in nats per word, without the padding. Computed in float32."""
    return model.readout.loss(model(token_BT, length_B, first_BW, symbol_BWK), label_BW, row_loss), None


@dataclass(frozen=True)
class Tags:
    """The tags of one sentence, word by word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]  # of those tags

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


class TaggerRun(Run[Tagger]):
    @property
    def labels(self) -> tuple[str, ...]:
        """The tags, in the order of the probabilities."""
        labels: tuple[str, ...] = self.recipe.data.labels
        return labels

    def tag(self, sentences: Sequence[str | Sequence[str]]) -> list[Tags]:
        """The most probable tag of each word of each of `sentences`, and its probability. A sentence is a list of words, or a
        string, which is split at white space, so put spaces around what the training data treat as a word ("do n't", a full
        stop)."""
        refuse_one_text("tag", sentences)
        given = [tuple(sentence.split() if isinstance(sentence, str) else sentence) for sentence in sentences]
        for words in given:
            if not words or not all(word.strip() for word in words):
                raise DataError(f"a sentence to tag is {list(words)!r}; expected one or more words, none of them empty")
        if not given:
            return []
        if self.network.spelling is None:
            warn_unseen(self.tokenizer.unseen(" ".join(word for words in given for word in words)))
        encoded = encode_words(given, self.tokenizer)
        refuse_longer(encoded.length_N, self.network.context, "sentences to tag")
        log_p_NC, best_N = predict(self.network, encoded, batch=AT_ONCE)
        chance_N = np.exp(np.take_along_axis(log_p_NC, best_N[:, None], axis=1)[:, 0])
        tags = []
        for words, first in zip(given, encoded.word_starts[:-1].tolist(), strict=True):
            place = slice(first, first + len(words))
            tags.append(Tags(words, tuple(self.labels[n] for n in best_N[place]), tuple(chance_N[place].tolist())))
        return tags

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        name, sentences = self._sentences(path, split, progress)
        refuse_longer(sentences.length_N, self.network.context, f"sentences of {name}")
        measured = measure(self.network, sentences, self.labels, batch=AT_ONCE, progress=progress)
        return {**flat(measured), "split": name}

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts:
        name, sentences = self._sentences(path, split, progress)
        refuse_longer(sentences.length_N, self.network.context, f"sentences of {name}")
        log_p_NC, best_N = predict(self.network, sentences, batch=AT_ONCE, progress=progress)
        true = hash_of([*(self.labels[n] for n in sentences.label), *sentences.word_starts])
        return JudgedTexts(name, true, counts_by_sentence(log_p_NC, best_N, sentences, self.labels))

    def _sentences(self, path: str | Path | None, split: Split | None, progress: Progress) -> tuple[str, Sentences]:
        if path is not None:
            return str(path), encode_tagged(path, self.tokenizer, self.recipe.data, progress)
        return chosen(prepare_tagged(self.recipe.data, self.tokenizer, progress), split)

    def _reading(self, text: str) -> Reading:
        """Words are split at white space, as in `tag`."""
        spelled = self.network.spelling is not None
        batch = encode_words([text.split()], self.tokenizer).batch(np.array([0]), spelled=spelled)
        contextual_vectors.refuse_longer(self.network, batch.token_BT.shape[1])
        arrays = (batch.token_BT, batch.length_B, batch.first_BW, batch.symbol_BWK)
        return arrays_reading(self.network, self.tokenizer, arrays)


class Tagging(Task[TaggedConfig, TaggingConfig, Tagged]):
    name = "tagging"
    compares = "labels"
    Data = TaggedConfig
    Objective = TaggingConfig
    reads = "tagged words"
    files = "a CoNLL or CoNLL-U file"
    families = ("encoder",)
    metrics = ("loss", "accuracy", "f1")
    selecting = ("loss", "accuracy", "f1")
    counted = "label_BW"
    run_class = TaggerRun
    noun = "a tagger"
    can = (TAG, *ON_TEXT)
    uses = frozenset({"model.spelling.width", "model.readout"})
    classes_in = "tags"
    unsupported = {  # noqa: RUF012 (a ClassVar in Task)
        "training.carry": "a tagger has no state to carry between sentences",
        "training.compile": "it compiles for one shape of batch, and sentences have many lengths",
    }

    def check(self) -> None:
        super().check()
        readout, loss = getattr(self.recipe.model, "readout", None), self.recipe.objective.loss
        if self.recipe.objective.row_loss is not None and readout == "crf":
            raise ConfigError(
                f'objective.loss = "{loss}" is one of single words, but model.readout = "crf" scores whole sentences. Remove one.'
            )

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> Tagged:
        data = prepare_tagged(self.recipe.data, target_of(tokenizers), progress)
        objective, model = self.recipe.objective, self.recipe.model
        if objective.unknown and data.tokenizer.unknown is None:
            raise ConfigError(
                f"objective.unknown is {objective.unknown}, but a {data.tokenizer.kind} tokenizer has no <unk>. Remove it, or "
                'choose tokenizer.kind = "word" or "wordpiece".'
            )
        if objective.unknown_among == "singletons" and not data.train.once.any():
            raise ConfigError(
                'objective.unknown_among is "singletons", but no token occurs once in the training data. Set '
                'tokenizer.min_count = 1, or objective.unknown_among = "all".'
            )
        if self.recipe.training.select == "f1" and not marks_spans(data.labels):
            shown = ", ".join(data.labels[:5])
            raise ConfigError(f'training.select is "f1", but these tags mark no spans: {shown} … Choose "loss" or "accuracy".')
        if (limit := model.longest) is not None:
            for name in ("train", "valid"):
                if (part := getattr(data, name)) is not None:
                    refuse_longer(part.length_N, limit, f"{name} sentences")
        return data

    def network(self, source_vocab: int, vocab: int) -> Tagger:
        assert isinstance(self.recipe.model, EncoderConfig)  # a recipe's family fits its objective
        return tagger(self.recipe.model, vocab, self.classes())

    def batches(self, data: Tagged) -> BucketedSentences:
        training, spelling = self.recipe.training, getattr(self.recipe.model, "spelling", None)
        return BucketedSentences(
            data.train,
            training.batch,
            training.seed,
            spelled=spelling is not None and spelling.width > 0,
            hidden=self.recipe.objective.unknown,
            unknown=data.tokenizer.unknown,
            rare=self.recipe.objective.unknown_among == "singletons",
        )

    def loss(self, data: Tagged) -> Loss:
        return partial(tagging, row_loss=self.recipe.objective.row_loss)

    def validate(self, network: Tagger, data: Tagged, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        dtype = self.recipe.training.dtype
        measured = measure(network, data.valid, data.labels, batch=AT_ONCE, dtype=dtype, progress=progress)
        return {name: value for name in _SCALARS if (value := getattr(measured, name)) is not None} | measured.own

    def headline(self, metrics: Mapping[str, Any]) -> str:
        accuracy = f"accuracy {metrics['accuracy']:.4f}"
        return accuracy if metrics.get("f1") is None else f"F1 {metrics['f1']:.4f}, {accuracy}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        top = [
            ("text", metrics["split"]),
            ("words", f"{metrics['words']:,} in {metrics['sentences']:,} sentences"),
            ("loss", f"{metrics['loss']:.4f} nats per word"),
            ("accuracy", f"{metrics['accuracy']:.4f}"),
        ]
        if metrics["spans"] is not None:
            spans = f"{metrics['f1']:.4f} (precision {metrics['precision']:.4f}, recall {metrics['recall']:.4f})"
            top.append(("F1 of spans", spans))
            if metrics["f1_strict"] is not None:
                top.append(("F1, strict", f"{metrics['f1_strict']:.4f}"))
        tables = [("span", "spans", metrics["spans"] or ()), ("tag", "words", metrics["tags"])]
        parts = [scores(heading, counted, (tuple(one.values()) for one in lines)) for heading, counted, lines in tables if lines]
        return "\n\n".join([rows(*top), *parts])
