"""Train a recipe from scratch and compare the result with its [expected] table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.api import Recipe, find_recipe, train_recipe
from firth.api.recipe import Expected
from firth.api.training import watching
from firth.errors import ConfigError
from firth.figures.figure import Tabled
from firth.progress import Progress
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run


@dataclass(frozen=True)
class Verdict(Tabled):
    """The result of a fresh run beside the expected one. `.text()` prints it."""

    recipe: str  # its name
    metric: str  # the metric that was compared
    measured: float  # by this run
    expected: float  # the recipe's `measured`
    published: float | None  # the recipe's `published`
    tolerance: float  # largest difference that passes
    passed: bool  # |measured − expected| ≤ tolerance
    same_text: bool | None  # the text has the recipe's sha256; None if the recipe has none
    split: str  # part of the data that was evaluated
    gap: float | None  # measured − published
    measured_random: float | None  # by this run over random batches, if the recipe asks for them
    expected_random: float | None  # the recipe's `measured_random`

    def text(self) -> str:
        """The verdict as `firth verify` prints it."""
        word = "passed" if self.passed else "FAILED"
        lines = [
            f"{word}: {self.recipe} reached {self.metric} {self.measured:.4f} on the {self.split} split",
            f"expected {self.expected} ± {self.tolerance}",
        ]
        if self.measured_random is not None:
            before = f", expected {self.expected_random}" if self.expected_random is not None else ""
            lines.append(f"over random batches {self.measured_random:.4f}{before}")
        if self.same_text is False:
            lines.append("the text differs from the one that was measured (other versions of Python, numpy or torch)")
        if self.published is not None:
            lines.append(f"published {self.published}, a gap of {self.gap:+.4f}")
        return "\n".join(lines)


def verify(recipe: str | Path | Recipe, progress: Progress | bool = True) -> Verdict:
    """Train `recipe` (the name of a shipped one, a TOML file or a Recipe) from scratch, and compare its result with [expected].

    The new run passes if it is within `tolerance` of the recipe's `measured`. A result that is better by more than that also
    fails, because then the recorded one is no longer true."""
    name = "this recipe" if isinstance(recipe, Recipe) else str(recipe)
    recipe = recipe if isinstance(recipe, Recipe) else find_recipe(name)
    expected = recipe.expected
    if expected is None or expected.measured is None:
        raise ConfigError(f'recipe "{name}" has no [expected] measured value to verify; use `firth train {name} --out RUN`')
    with tempfile.TemporaryDirectory(prefix="firth-verify-") as folder, watching(progress) as watcher:
        model = train_recipe(recipe, Path(folder) / "run", watcher=watcher)
        result = _measured(model, expected, watcher.work)
    value = result[expected.metric]
    if not isinstance(value, float):
        raise ConfigError(f'recipe "{name}" expects {expected.metric}, which is not defined for its tokenizer')
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


def _measured(model: Run[Any], expected: Expected, progress: Progress) -> dict[str, Any]:
    """The run's metrics on its own data, or on the WiC sentence pairs for wic_accuracy."""
    if expected.metric == "wic_accuracy":
        measures = model.wic(progress=progress)
        return {"wic_accuracy": measures["accuracy"], "split": measures["split"]}
    if expected.random_batches is not None:
        language = model.expect(LanguageModelRun)
        return language.evaluate(progress=progress, split=expected.split, random_batches=expected.random_batches)
    return model.evaluate(progress=progress, split=expected.split)
