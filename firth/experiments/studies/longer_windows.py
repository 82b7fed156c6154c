"""Measures with `context_ratio`: a Transformer evaluated in longer, or shorter, windows than those of its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firth.api.recipe import Recipe
from firth.errors import ConfigError
from firth.experiments.studies.study import Measure
from firth.models import TransformerConfig, TransformerLM
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run


def expect_windows(recipe: Recipe, measure: str, name: str) -> None:
    """Refuse a recipe whose run cannot be evaluated in other windows."""
    if not isinstance(recipe.model, TransformerConfig) or recipe.objective.kind != "next-token":
        raise ConfigError(
            f"measure.{measure}.context_ratio only applies to Transformer language models; {name} is none. Remove one of them."
        )


def in_windows(run: Run[Any], measure: Measure) -> Mapping[str, Any]:
    """The metrics of the run in windows of `measure.context_ratio` times its training.context; none where its positions end
    before that."""
    model, ratio = run.expect(LanguageModelRun), measure.context_ratio
    assert isinstance(model.network, TransformerLM)  # see expect_windows
    assert ratio is not None
    context, end = max(1, round(ratio * run.recipe.training.context)), model.network.scheme.end
    if end is not None and context > end:
        return {}
    return model.evaluate(measure.data, split=measure.split, context=context, progress=False)
