"""Extractive question answering: the answer is a span of the context (Rajpurkar et al. 2016). Letters: B batch, T time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from firth.errors import ConfigError, DataError
from firth.evaluation.by_text import JudgedTexts, hash_of
from firth.evaluation.metrics import flat
from firth.evaluation.question_answering import counts_by_question, find
from firth.evaluation.question_answering import evaluate as measure
from firth.inspection.inputs import Reading
from firth.layers.cross_entropy import RowLoss, at_least_float32
from firth.layers.objective import CrossEntropy
from firth.models.question_answering import QuestionAnswerer, SpanEncoderConfig, question_answerer
from firth.progress import Progress, silent
from firth.tasks.abilities.inspection_inputs import arrays_reading
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.ability import ANSWER, ON_TEXT
from firth.tasks.run import Run
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, chosen
from firth.tasks.task import Task, Tokenizers, TokenLossConfig, rows
from firth.text.batches.questions import QuestionWindows
from firth.text.config import QuestionsConfig, TokenizerConfig
from firth.text.data.questions import QuestionData, encode_questions, prepare_questions, windows
from firth.text.readers.squad import Question
from firth.training.loop import Loss

AT_ONCE = 64  # windows per batch of inference


@dataclass(frozen=True, kw_only=True)
class QuestionAnsweringConfig(TokenLossConfig):
    kind: Literal["answer"] = "answer"
    longest: int = 30  # maximum length of a predicted answer, in tokens

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ConfigError(f"objective.longest is {self.longest}; expected at least 1")


def question_answering(
    model: QuestionAnswerer,
    token_BT: Tensor,
    length_B: Tensor,
    first_B: Tensor,
    start_B: Tensor,
    end_B: Tensor,
    state: None = None,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """−½ (log p(start) + log p(end)), in nats, the mean over the batch. The softmax is in float32."""
    start_BT, end_BT = model(token_BT, length_B, first_B)
    loss = row_loss or CrossEntropy.mean
    start, end = loss(at_least_float32(start_BT), start_B), loss(at_least_float32(end_BT), end_B)
    return (start.mean() + end.mean()) / 2, None


@dataclass(frozen=True)
class Answer:
    """A span of the context."""

    text: str
    probability: float  # p(start) · p(end)
    start: int  # its first character in the context


class QuestionAnsweringRun(Run[QuestionAnswerer]):
    def answer(self, question: str, context: str, *, progress: Progress = silent) -> Answer:
        """The most probable span of `context` that answers `question`, and its probability. A long context is read in windows
        that overlap by half."""
        self._expect_words("question", question)
        self._expect_words("context", context)
        unseen = [one for text in (question, context) for one in self.tokenizer.unseen(text)]
        if self.tokenizer.unknown is not None:  # without <unk>, encoding refuses what it cannot spell
            warn_unseen(dict.fromkeys(unseen))
        longest = self.recipe.objective.longest
        (span,) = find(self.network, self._windows(question, context), longest=longest, batch=AT_ONCE, progress=progress)
        return Answer(span.text, math.exp(span.log_probability), span.start)

    def _windows(self, question: str, context: str) -> QuestionWindows:
        return windows([Question("the question", context, question)], self.tokenizer, self.recipe.training.context)

    @staticmethod
    def _expect_words(name: str, text: str) -> None:
        if not text.strip():
            raise DataError(f"the {name} is {text!r}, which has no tokens; expected at least one word")

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        name, windows = self._readings(path, split, progress)
        longest = self.recipe.objective.longest
        measured = measure(self.network, windows, longest=longest, batch=AT_ONCE, progress=progress)
        return {**flat(measured), "split": name}

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts:
        name, windows = self._readings(path, split, progress)
        longest = self.recipe.objective.longest
        metrics = counts_by_question(self.network, windows, longest=longest, batch=AT_ONCE, progress=progress)
        return JudgedTexts(name, hash_of((one.question, one.answers) for one in windows.questions), metrics)

    def _readings(self, path: str | Path | None, split: Split | None, progress: Progress) -> tuple[str, QuestionWindows]:
        data, limit = self.recipe.data, self.recipe.training.context
        if path is not None:
            return str(path), encode_questions(path, self.tokenizer, data, limit, progress)
        return chosen(prepare_questions(data, self.tokenizer, limit, progress), split)

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        if context is None:
            raise ConfigError("this run answers questions, so `text` is the question. Give the passage as `context`, too.")
        super().reading(text, target)
        self._expect_words("context", context)
        windows = self._windows(text, context)
        if len(windows) > 1:
            raise DataError(
                f"question and context have more than {self.recipe.training.context:,} tokens and would be read in "
                f"{len(windows)} windows. Shorten the context."
            )
        batch = windows.batch(np.array([0]))
        return arrays_reading(self.network, self.tokenizer, (batch.token_BT, batch.length_B, batch.first_B))


ReaderRun = QuestionAnsweringRun  # its former name


class QuestionAnswering(Task[QuestionsConfig, QuestionAnsweringConfig, QuestionData]):
    name = "answer"
    compares = "texts"
    Data = QuestionsConfig
    Objective = QuestionAnsweringConfig
    reads = "questions"
    files = "SQuAD's .json or a .jsonl file"
    families = ("encoder",)
    metrics = ("loss", "exact", "f1")
    selecting = ("loss", "exact", "f1")
    run_class = QuestionAnsweringRun
    noun = "a question answerer"
    can = (ANSWER, *ON_TEXT)
    unsupported = {  # noqa: RUF012 (a ClassVar in Task)
        "training.carry": "questions carry no state from one to the next",
        "training.compile": "it compiles for one shape of batch, and questions have many lengths",
    }

    def check(self) -> None:
        super().check()
        self.refuse_average("reads each token by itself, whatever the question")
        self.expect_context()

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> QuestionData:
        return prepare_questions(self.recipe.data, target_of(tokenizers), self.recipe.training.context, progress)

    def network(self, source_vocab: int, vocab: int) -> QuestionAnswerer:
        assert isinstance(self.recipe.model, SpanEncoderConfig)  # a recipe's family fits its objective
        return question_answerer(self.recipe.model, vocab)

    def loss(self, data: QuestionData) -> Loss:
        return partial(question_answering, row_loss=self.recipe.objective.row_loss)

    def validate(self, network: QuestionAnswerer, data: QuestionData, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        longest, dtype = self.recipe.objective.longest, self.recipe.training.dtype
        measured = measure(network, data.valid, longest=longest, batch=AT_ONCE, dtype=dtype, progress=progress)
        return flat(measured)

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"exact match {metrics['exact']:.1%}, F1 {metrics['f1']:.1%}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        return rows(
            ("text", metrics["split"]),
            ("questions", f"{metrics['questions']:,}, read in {metrics['windows']:,} windows"),
            ("loss", f"{metrics['loss']:.4f} nats per end of an answer"),
            ("exact match", f"{metrics['exact']:.2%}"),
            ("F1", f"{metrics['f1']:.2%}"),
        )
