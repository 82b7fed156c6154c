"""One file per objective: what its data are, the network and the batches, the loss, and how it is measured.

`train_recipe`, `load` and `evaluate` are the same for all; what differs between objectives is a `Task`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firth.api.recipe import Recipe
from firth.api.tasks import answer, classification, in_context, language, masked, span_corruption, tagging, translation
from firth.api.tasks.splits import Asked
from firth.api.tasks.task import Task
from firth.progress import silent
from firth.text import Prepared, Progress, TokenizerConfig
from firth.text.data.in_context import LinearData, SwapData
from firth.text.data.labelled import Labelled
from firth.text.data.parallel import Parallel, Tokenizers
from firth.text.data.questions import Answered
from firth.text.data.tagged import Tagged

if TYPE_CHECKING:
    from firth.api.model import Model

Data = Prepared | Labelled | Parallel | Tagged | Answered | SwapData | LinearData

__all__ = ["Asked", "Data", "Task", "data_for", "evaluate", "task_for"]


def data_for(recipe: Recipe, tokenizers: TokenizerConfig | Tokenizers, progress: Progress = silent) -> Data:
    """The recipe's data, read as its objective needs them, with a vocabulary that is learned or with that of a run."""
    tokenizer = tokenizers if isinstance(tokenizers, TokenizerConfig) else tokenizers[1]
    match recipe.objective.kind:
        case "next-token":
            return language.read(recipe, tokenizer, progress)
        case "masked":
            return masked.read(recipe, tokenizer, progress)
        case "span-corruption":
            return span_corruption.read(recipe, tokenizer, progress)
        case "classification":
            return classification.read(recipe, tokenizer, progress)
        case "tagging":
            return tagging.read(recipe, tokenizer, progress)
        case "answer":
            return answer.read(recipe, tokenizer, progress)
        case "translation":
            return translation.read(recipe, tokenizers, progress)
        case "in-context":
            return in_context.read_swaps(recipe, tokenizer)
        case "in-context-regression":
            return in_context.read_linear(recipe, tokenizer)


def task_for(recipe: Recipe, data: Data) -> Task:
    match data:
        case Labelled():
            return classification.ClassificationTask(recipe, data)
        case Tagged():
            return tagging.TaggingTask(recipe, data)
        case Answered():
            return answer.AnswerTask(recipe, data)
        case Parallel():
            return translation.TranslationTask(recipe, data)
        case SwapData():
            return in_context.SwapTask(recipe, data)
        case LinearData():
            return in_context.LinearTask(recipe, data)
        case Prepared():
            return _of_running_text(recipe, data)


def _of_running_text(recipe: Recipe, data: Prepared) -> Task:
    match recipe.objective.kind:
        case "masked":
            return masked.MaskedTask(recipe, data)
        case "span-corruption":
            return span_corruption.SpanCorruptionTask(recipe, data)
        case _:
            return language.LanguageTask(recipe, data)


def evaluate(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """What the objective of `model` is measured by."""
    asked.check(model.recipe)
    match model.recipe.objective.kind:
        case "next-token":
            return language.evaluate(model, asked, progress)
        case "masked":
            return masked.evaluate(model, asked, progress)
        case "span-corruption":
            return span_corruption.evaluate(model, asked, progress)
        case "classification":
            return classification.evaluate(model, asked, progress)
        case "tagging":
            return tagging.evaluate(model, asked, progress)
        case "answer":
            return answer.evaluate(model, asked, progress)
        case "translation":
            return translation.evaluate(model, asked, progress)
        case "in-context":
            return in_context.evaluate_swaps(model, asked, progress)
        case "in-context-regression":
            return in_context.evaluate_linear(model, asked, progress)
