"""Learning in context: prompts with a new task each, drawn without end, and how well it is done after how many examples."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firth.api.recipe import Recipe
from firth.api.tasks.splits import Asked, chosen
from firth.api.tasks.task import OfData
from firth.errors import ConfigError
from firth.evaluation.in_context import answers, answers_by_examples, errors, errors_by_examples
from firth.models import LanguageConfig, LanguageModel, Network, language_model
from firth.models.point_reader import PointReader, point_reader
from firth.objectives.in_context import in_context, in_context_regression
from firth.text import Progress, Tokenizer, TokenizerConfig
from firth.text.data.in_context import FreshPrompts, LinearData, SwapData, prepare_linear, prepare_swaps
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.api.model import Model

AT_ONCE = 128  # prompts read together


def read_swaps(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer) -> SwapData:
    return prepare_swaps(recipe.data, tokenizer)


def read_linear(recipe: Recipe, tokenizer: TokenizerConfig | Tokenizer) -> LinearData:
    return prepare_linear(recipe.data, tokenizer)


@dataclass(frozen=True)
class SwapTask(OfData[SwapData]):
    loss: Loss = in_context

    def network(self) -> LanguageModel:
        assert isinstance(self.recipe.model, LanguageConfig)  # a Recipe's family fits its objective
        return language_model(self.recipe.model, self.tokenizer.vocab)

    def batches(self) -> FreshPrompts:
        return FreshPrompts(self.data.tasks, self.recipe.training.batch, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert isinstance(network, LanguageModel)
        found = answers(network, self.data.valid, batch=AT_ONCE, dtype=self.recipe.training.dtype, progress=progress)
        return {"loss": found.loss, "accuracy": found.accuracy}


@dataclass(frozen=True)
class LinearTask(OfData[LinearData]):
    loss: Loss = in_context_regression

    def network(self) -> PointReader:
        assert isinstance(self.recipe.model, LanguageConfig)
        return point_reader(self.recipe.model, self.recipe.data.dimensions)

    def batches(self) -> FreshPrompts:
        return FreshPrompts(self.data.tasks, self.recipe.training.batch, self.recipe.training.seed)

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        assert isinstance(network, PointReader)
        found = errors(network, self.data.valid, batch=AT_ONCE, dtype=self.recipe.training.dtype, progress=progress)
        return {"loss": found.loss, "squared_error": found.squared_error}


def evaluate_swaps(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Accuracy after 0, 1, … examples of tasks that were not trained, beside the best there is."""
    _refuse_path(asked)
    name, prompts = chosen(prepare_swaps(model.recipe.data, model.tokenizer), asked.split)
    found = answers(model.language, prompts, batch=AT_ONCE, progress=progress)
    after = [dataclasses.asdict(one) for one in answers_by_examples(found, prompts)]
    return {"loss": found.loss, "accuracy": found.accuracy, "prompts": len(prompts), "by_examples": after, "split": name}


def evaluate_linear(model: Model, asked: Asked, progress: Progress) -> dict[str, object]:
    """Squared error after 0, 1, … examples, beside least squares and who always says 0."""
    _refuse_path(asked)
    name, prompts = chosen(prepare_linear(model.recipe.data, model.tokenizer), asked.split)
    assert isinstance(model.network, PointReader)  # a run's network fits its objective
    found = errors(model.network, prompts, batch=AT_ONCE, progress=progress)
    after = [dataclasses.asdict(one) for one in errors_by_examples(found, prompts)]
    result = {"loss": found.loss, "squared_error": found.squared_error, "prompts": len(prompts)}
    return {**result, "by_examples": after, "split": name}


def _refuse_path(asked: Asked) -> None:
    if asked.path is not None:
        raise ConfigError(
            f"{asked.path} was given to measure on, and this run is measured on prompts that are drawn; leave --data out"
        )
