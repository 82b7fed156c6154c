"""What a swept setting may be: a list of values, or a range such as log:1e-4:1e-2, as a distribution of Optuna's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial

from firth.errors import ConfigError, option

_KINDS = ("log", "int")
_WRITTEN = "LOW:HIGH, LOW:HIGH:STEP, log:LOW:HIGH or int:LOW:HIGH"
LISTED = option("a list", "--set")  # how messages name a list of values


@dataclass(frozen=True)
class SweptSetting:
    """A setting that differs between the trials of a sweep."""

    name: str  # "model.width"
    given: list[Any] | str  # its values, or the text of its range
    distribution: BaseDistribution  # Optuna knows numbers, texts and truth values: a list stands in it as JSON
    values: tuple[Any, ...] | None  # all that it takes; None if it may be any number of a range, or has a logarithmic one
    ends: tuple[Any, ...]  # the values, or the ends of the range

    def suggest(self, trial: Trial) -> Any:
        """Its value in a trial: the recorded one, or one from the sampler."""
        match self.distribution:
            case CategoricalDistribution(choices=choices):
                assert self.values is not None
                return self.values[choices.index(trial.suggest_categorical(self.name, choices))]
            case IntDistribution(low=low, high=high, step=step, log=log):
                return trial.suggest_int(self.name, low, high, step=step, log=log)
            case FloatDistribution(low=low, high=high, step=step, log=log):
                return trial.suggest_float(self.name, low, high, step=step, log=log)
        raise AssertionError(self.distribution)

    def grid(self) -> Sequence[Any]:
        """Its values as Optuna knows them."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices
        if self.values is None:
            raise ConfigError(
                f'{option("sampler", "--sampler")} "grid" needs a finite set of values, but {self.name} has the range '
                f'"{self.given}". Give it as LOW:HIGH:STEP, or list its values with {LISTED}.'
            )
        return self.values


def choice(name: str, values: Sequence[Any]) -> SweptSetting:
    """A setting that takes one of these values."""
    stored = [one if isinstance(one, bool | int | float | str) else json.dumps(one, default=str) for one in values]
    if "" in stored:
        raise ConfigError(f"one of the values of {name} is empty. Separate them by single commas.")
    for n, one in enumerate(stored):
        if one in stored[:n]:
            raise ConfigError(f"{name} has the value {one} twice. Remove one of them.")
    if len(stored) < 2:
        count = "one value" if stored else "no values"
        raise ConfigError(f"{name} has {count}; a sweep needs two or more. {fixed(name)}")
    return SweptSetting(name, list(values), CategoricalDistribution(stored), tuple(values), tuple(values))


def fixed(name: str) -> str:
    """Advice on a setting that does not differ between trials."""
    return f"Set a fixed value with {option('changes', f'--{name}=VALUE')}."


def ranged(name: str, text: str, types: set[type]) -> SweptSetting:
    """A setting with a range. `types`: which of int and float the setting may be."""
    parts = text.split(":")
    kinds = [part for part in parts if part in _KINDS]
    numbers = parts[len(kinds) :]
    if parts[: len(kinds)] != kinds or len(set(kinds)) < len(kinds) or len(numbers) not in (2, 3):
        raise ConfigError(f'the range of {name} is "{text}"; expected {_WRITTEN}')
    if not types:
        raise ConfigError(f"{name} is not a number, so it has no range. List its values with {LISTED}.")
    whole, log = "int" in kinds or float not in types, "log" in kinds
    low, high, *step = (_number(name, text, one, whole) for one in numbers)
    _expect_order(name, text, low, high, step, log)
    by = step[0] if step else Decimal(1) if whole and not log else None
    distribution: BaseDistribution
    if whole:
        distribution = IntDistribution(int(low), int(high), log=log, step=int(by or 1))
    else:
        distribution = FloatDistribution(float(low), float(high), log=log, step=None if by is None else float(by))
    number = int if whole else float
    values = None if by is None else tuple(number(low + n * by) for n in range(int((high - low) / by) + 1))
    return SweptSetting(name, text, distribution, values, (number(low), number(high)))


def _number(name: str, text: str, part: str, whole: bool) -> Decimal:
    try:
        value = Decimal(part)
    except InvalidOperation:
        raise ConfigError(f'the range of {name} is "{text}", but "{part}" is not a number. Write it as {_WRITTEN}.') from None
    if not value.is_finite() or abs(value) >= 1 << 63:
        raise ConfigError(f'the range of {name} is "{text}"; expected finite numbers of at most 63 bits')
    if whole and value != int(value):
        raise ConfigError(f'the range of {name} is "{text}", but {name} is a whole number. Use whole numbers.')
    return value


def _expect_order(name: str, text: str, low: Decimal, high: Decimal, step: Sequence[Decimal], log: bool) -> None:
    if low >= high:
        raise ConfigError(f'the range of {name} is "{text}"; expected a first number below the second')
    if log and low <= 0:
        raise ConfigError(f'the range of {name} is "{text}", which is logarithmic; expected numbers above 0')
    if log and step:
        raise ConfigError(f'the range of {name} is "{text}", but a logarithmic range has no step. Remove "log:" or the step.')
    if step and (step[0] <= 0 or (high - low) % step[0]):
        raise ConfigError(f'the range of {name} is "{text}"; expected a step above 0 that leads from {low} to {high}')
