"""Does a recipe give what it promises? Train it afresh and compare."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.api import Expected, Watcher, find_recipe, load, train_recipe
from firth.errors import ConfigError
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run


@dataclass(frozen=True)
class Verdict:
    recipe: str
    metric: str
    measured: float  # now
    expected: float  # what the recipe says was measured
    published: float | None
    tolerance: float
    passed: bool
    same_text: bool | None  # whether the text is the one it was measured on; None where the recipe does not say
    split: str
    gap: float | None  # measured − published
    measured_random: float | None  # now, over random batches, where the recipe asks for them
    expected_random: float | None


def verify(name: str, watcher: Watcher) -> Verdict:
    """A fresh run passes when it is within `tolerance` of the recipe's `measured`; better by more than that fails too, because
    then the recipe's figure is no longer true."""
    recipe = find_recipe(name)
    expected = recipe.expected
    if expected is None or expected.measured is None:
        raise ConfigError(
            f'recipe "{name}" has no [expected] measured value to verify; train it with `firth train {name} --out RUN`'
        )
    with tempfile.TemporaryDirectory(prefix="firth-verify-") as folder:
        run = train_recipe(recipe, Path(folder) / "run", watcher=watcher)
        model = load(run.path, recipe.training.device)
        result = _measured(model, expected, watcher)
    value = result[expected.metric]
    if not isinstance(value, float):
        raise ConfigError(f'recipe "{name}" promises {expected.metric}, which its tokenizer does not define')
    return Verdict(
        recipe=name,
        metric=expected.metric,
        measured=value,
        expected=expected.measured,
        published=expected.published,
        tolerance=expected.tolerance,
        passed=abs(value - expected.measured) <= expected.tolerance,
        same_text=None if expected.sha256 is None else expected.sha256 == model.recipe.data.sha256,
        split=result["split"],
        gap=None if expected.published is None else value - expected.published,
        measured_random=result.get("loss_random"),
        expected_random=expected.measured_random,
    )


def _measured(model: Run[Any], expected: Expected, watcher: Watcher) -> dict[str, Any]:
    """On the run's own text, or, of senses, on pairs of sentences that no run is trained on."""
    if expected.metric == "wic_accuracy":
        found = model.wic(progress=watcher.work)
        return {"wic_accuracy": found["accuracy"], "split": found["split"]}
    if expected.random_batches is not None:
        language = model.expect(LanguageModelRun)
        return language.evaluate(progress=watcher.work, split=expected.split, random_batches=expected.random_batches)
    return model.evaluate(progress=watcher.work, split=expected.split)
