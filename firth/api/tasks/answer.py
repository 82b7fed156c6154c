"""Answer spans: questions on texts, batches of them, exact match and F1."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.api.unseen_words import say_unseen
from firth.errors import DataError
from firth.evaluation.answers import evaluate as measure
from firth.evaluation.answers import find
from firth.models import Network
from firth.models.answer_reader import SpanEncoderConfig, SpanReader, span_reader
from firth.objectives.answer import AnswerConfig, answer
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.batches.readings import BucketedReadings, Readings
from firth.text.data.questions import Answered, encode_questions, prepare_questions, windows
from firth.text.readers.squad import Question
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model

AT_ONCE = 64  # windows read together


@dataclass(frozen=True)
class Answer:
    """What stands in a context as the answer to a question."""

    text: str
    probability: float  # p(start) · p(end)
    start: int  # its first character in the context


def read(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer, progress: Progress) -> Answered:
    return prepare_questions(recipe.data, tokenizer, recipe.training.context, progress)


@dataclass(frozen=True)
class AnswerTask(OfData[Answered]):
    loss: Loss = answer

    def network(self) -> SpanReader:
        assert isinstance(self.recipe.model, SpanEncoderConfig)  # a Recipe's family fits its objective
        return span_reader(self.recipe.model, self.tokenizer.vocab)

    def batches(self) -> BucketedReadings:
        return BucketedReadings(self.data.train, self.recipe.training.batch, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert self.data.valid is not None
        assert isinstance(network, SpanReader)
        dtype = self.recipe.training.dtype
        measured = measure(network, self.data.valid, longest=_longest(self.recipe), batch=AT_ONCE, dtype=dtype, progress=progress)
        return dataclasses.asdict(measured)


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Exact match and F1 of the spans that are found."""
    name, readings = _readings(model, asked, progress)
    measured = measure(model.reader, readings, longest=_longest(model.recipe), batch=AT_ONCE, progress=progress)
    return {**dataclasses.asdict(measured), "split": name}


def find_answer(model: Model, question: str, context: str) -> Answer:
    """The most probable span; a context that is too long for one reading is read in windows that overlap by half."""
    reader = model.reader
    for name, text in (("question", question), ("context", context)):
        if not text.strip():
            raise DataError(f"the {name} is {text!r}, which has nothing to read; expected a word or more")
    unseen = [one for text in (question, context) for one in model.tokenizer.unseen(text)]
    if model.tokenizer.unknown is not None:  # where there is no <unk>, encoding says what it cannot spell
        say_unseen(dict.fromkeys(unseen))
    readings = windows([Question("the question", context, question)], model.tokenizer, model.recipe.training.context)
    (found,) = find(reader, readings, longest=_longest(model.recipe), batch=AT_ONCE)
    return Answer(found.text, math.exp(found.log_probability), found.start)


def _readings(model: Model, asked: Asked, progress: Progress) -> tuple[str, Readings]:
    data, limit = model.recipe.data, model.recipe.training.context
    if asked.path is not None:
        return str(asked.path), encode_questions(asked.path, model.tokenizer, data, limit, progress)
    return chosen(prepare_questions(data, model.tokenizer, limit, progress), asked.split)


def _longest(recipe: Recipe) -> int:
    assert isinstance(recipe.objective, AnswerConfig)
    return recipe.objective.longest
