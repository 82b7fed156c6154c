"""What all arms of a study have in common: parameters, training FLOPs, tokens, steps or seconds.

One arm has it already. In every other one a setting is solved for: the number of steps, or a size of the model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from firth.api.recipe import Recipe, compose
from firth.api.training import source_tokenizer, train_into, with_facts
from firth.config import to_table
from firth.errors import ConfigError
from firth.experiments.studies.study import Budget
from firth.models.counting import Count, count
from firth.models.uninitialised import Uninitialised
from firth.progress import Progress
from firth.training import log

_WIDEST = 1 << 14
_TIMED = 20  # steps whose speed is measured


@dataclass(frozen=True)
class Solved:
    """The setting that the budget changed in an arm."""

    setting: str
    value: int

    def applied(self, recipe: Recipe) -> Recipe:
        return with_setting(recipe, self.setting, self.value)


def solved(budget: Budget, recipes: Mapping[str, Recipe], progress: Progress) -> dict[str, Solved]:
    """The setting of every arm but `budget.to`."""
    amount = _AMOUNTS[budget.equal]
    by = budget.by or ("model.width" if budget.equal == "parameters" else "training.steps")
    if budget.equal == "parameters" and by.startswith("training."):
        raise ConfigError(f'{by} does not change the number of parameters. Set budget.by to a size, such as "model.width".')
    goal = amount(Sized(recipes[budget.to], progress), None, by)
    found = {}
    for n, (name, recipe) in enumerate(recipes.items()):
        progress("solving the budget", n, len(recipes))
        if name != budget.to:
            found[name] = Solved(by, _solve(budget, by, goal, Sized(recipe, progress), name))
    progress("solving the budget", len(recipes), len(recipes))
    return found


class Sized:
    """A recipe whose data have been read once, so that many sizes of its model can be counted."""

    def __init__(self, recipe: Recipe, progress: Progress) -> None:
        self.recipe = recipe = recipe.resolved()
        data = recipe.task.read(recipe.tokenizer, progress)
        self.vocabs = source_tokenizer(data).vocab, data.tokenizer.vocab
        self.facts = with_facts(recipe, data)
        self._speed: float | None = None

    def counted(self, by: str, value: int | None) -> Count:
        recipe = self.facts if value is None or by.startswith("training.") else with_setting(self.facts, by, value)
        with torch.device("meta"), Uninitialised():
            return count(recipe.task.network(*self.vocabs))

    def steps(self, by: str, value: int | None) -> int:
        return value if value is not None and by == "training.steps" else self.recipe.training.steps

    @property
    def tokens_per_step(self) -> int:
        training = self.recipe.training
        by_tokens = "training.batch_tokens" in self.recipe.task.uses
        return training.batch_tokens if by_tokens else training.batch * training.context

    def flops_per_token(self, by: str, value: int | None) -> int:
        attended = self.recipe.training.context if self.recipe.model.kind == "transformer" else 0
        return 3 * self.counted(by, value).flops(attended)

    @property
    def seconds_per_step(self) -> float:
        if self._speed is None:
            self._speed = _timed(self.recipe)
        return self._speed


def training_flops(recipe: Recipe, flops: int) -> int:
    """Three times the FLOPs of a forward pass, for every token of every step."""
    training = recipe.training
    by_tokens = "training.batch_tokens" in recipe.task.uses
    return 3 * flops * training.steps * (training.batch_tokens if by_tokens else training.batch * training.context)


_AMOUNTS: Mapping[str, Callable[[Sized, int | None, str], float]] = {
    "parameters": lambda sized, value, by: sized.counted(by, value).parameters,
    "flops": lambda sized, value, by: sized.flops_per_token(by, value) * sized.tokens_per_step * sized.steps(by, value),
    "tokens": lambda sized, value, by: sized.tokens_per_step * sized.steps(by, value),
    "steps": lambda sized, value, by: sized.steps(by, value),
    "seconds": lambda sized, value, by: sized.seconds_per_step * sized.steps(by, value),
}


def _solve(budget: Budget, by: str, goal: float, sized: Sized, arm: str) -> int:
    """The value of `by` that comes closest to the goal. Every amount grows with it."""

    def amount(n: int) -> float:
        try:
            return _AMOUNTS[budget.equal](sized, n * budget.multiple, by)
        except ConfigError as error:
            raise ConfigError(f'the budget of arm "{arm}" cannot be solved: {error.marked}') from None

    if by == "training.steps":
        nearest = max(1, round(goal / amount(1)))
    else:
        low, high = 1, 2
        while amount(high) < goal:
            low, high = high, 2 * high
            if high * budget.multiple > _WIDEST:
                raise ConfigError(f'the budget of arm "{arm}" needs {by} above {_WIDEST:,}. Choose another arm for budget.to.')
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if amount(middle) < goal else (low, middle)
        nearest = min((low, high), key=lambda n: abs(amount(n) - goal))
    got = amount(nearest)
    if abs(got - goal) > budget.tolerance * goal:
        raise ConfigError(
            f'arm "{arm}" has {got:,.0f} {budget.equal} with {by} = {nearest * budget.multiple}, instead of {goal:,.0f}. Raise '
            "budget.tolerance, lower budget.multiple, or solve for another setting."
        )
    return nearest * budget.multiple


def with_setting(recipe: Recipe, name: str, value: Any) -> Recipe:
    return compose(to_table(recipe), [(name, value)])


def _timed(recipe: Recipe) -> float:
    """Seconds of a training step on this machine, the first ones left out."""
    short = compose(to_table(recipe), [("training.steps", _TIMED), ("training.log_every", 1), ("training.warmup", 0)])
    with tempfile.TemporaryDirectory(prefix="firth-timed-") as folder:
        lines = log.read(train_into(short, Path(folder) / "run").log)
    half = lines[len(lines) // 2]
    return float((lines[-1]["seconds"] - half["seconds"]) / max(1, lines[-1]["step"] - half["step"]))
