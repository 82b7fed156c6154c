"""Learning linear functions in context (Garg et al. 2022). Letters: B prompts, E points, D dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from firth.config import settings
from firth.errors import ConfigError
from firth.evaluation.in_context import errors, errors_by_examples
from firth.inspection.inputs import Reading
from firth.models import LanguageConfig
from firth.models.point_regressor import PointRegressor, point_regressor
from firth.progress import Progress
from firth.tasks.ability import EVALUATE, LEARN_IN_CONTEXT
from firth.tasks.in_context import AT_ONCE, PromptTask, refuse_path
from firth.tasks.run import Run
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, chosen
from firth.tasks.task import ObjectiveConfig, Tokenizers
from firth.text.config import LinearConfig, TokenizerConfig
from firth.text.data.in_context import LinearData, prepare_linear
from firth.text.datasets.in_context_tasks import PointPrompts
from firth.training.loop import Loss


@dataclass(frozen=True, kw_only=True)
class InContextRegressionConfig(ObjectiveConfig):
    kind: Literal["in-context-regression"] = "in-context-regression"


def in_context_regression(model: PointRegressor, x_BED: Tensor, y_BE: Tensor, state: None = None) -> tuple[Tensor, None]:
    """The mean of (ŷ − y)² / D, so that always predicting 0 gives 1, whatever D is (Garg et al. 2022, §3)."""
    return (model(x_BED, y_BE) - y_BE).square().mean() / model.dimensions, None


class RegressionRun(Run[PointRegressor]):
    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        """Squared error after 0, 1, … examples, beside least squares and always predicting 0."""
        refuse_path(path)
        name, prompts = chosen(prepare_linear(self.recipe.data, self.tokenizer), split)
        measures = errors(self.network, prompts, batch=AT_ONCE, progress=progress)
        after = [dataclasses.asdict(one) for one in errors_by_examples(measures, prompts)]
        result = {"loss": measures.loss, "squared_error": measures.squared_error, "prompts": len(prompts)}
        return {**result, "by_examples": after, "split": name}

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        raise ConfigError("this run reads numbers, so there is no text to inspect. Use another run.")


class InContextRegression(PromptTask[LinearConfig, InContextRegressionConfig, PointPrompts]):
    name = "in-context-regression"
    Data = LinearConfig
    Objective = InContextRegressionConfig
    reads = "points of linear functions"
    files = ""
    metrics = ("loss", "squared_error")
    selecting = ("loss",)
    run_class = RegressionRun
    noun = "a model that learns functions from its prompt"
    can = (LEARN_IN_CONTEXT, EVALUATE)
    unit = "(ŷ − y)² / D"
    measure = "squared_error"

    def check(self) -> None:
        super().check()
        given = {name: value for name, value, _ in settings(self.recipe.model)}
        for name in ("embedding.vectors", "dropout_word"):
            if given.get(name):
                raise ConfigError(f"model.{name} applies to words, but this task reads numbers. Remove it.")

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> LinearData:
        return prepare_linear(self.recipe.data, target_of(tokenizers))

    def network(self, source_vocab: int, vocab: int) -> PointRegressor:
        assert isinstance(self.recipe.model, LanguageConfig)  # a recipe's family fits its objective
        return point_regressor(self.recipe.model, self.recipe.data.dimensions)

    def loss(self, data: LinearData) -> Loss:
        return in_context_regression

    def validate(self, network: PointRegressor, data: LinearData, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        measures = errors(network, data.valid, batch=AT_ONCE, dtype=self.recipe.training.dtype, progress=progress)
        return {"loss": measures.loss, "squared_error": measures.squared_error}

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"squared error {metrics['squared_error']:.4f}"
