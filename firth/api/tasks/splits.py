"""What `evaluate` is asked: on which text, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, get_args

from firth.api.objectives import ABOUT
from firth.api.recipe import Recipe, Split
from firth.errors import ConfigError, DataError, did_you_mean

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Asked:
    """See Model.evaluate; what is None was not given."""

    path: str | Path | None = None
    split: Split | None = None
    streams: int | None = None
    random_batches: int | None = None
    seed: int = 0
    target: str | Path | None = None
    beam: int | None = None

    def check(self, recipe: Recipe) -> None:
        """Refuse what cannot be read: a path and a split at once, a split that is none, standard input a second time; and what
        another objective is asked."""
        if self.path is not None and self.split is not None:
            raise ConfigError(
                f'a text to read, {self.path}, and a split of the run\'s own, "{self.split}", were given; give one of them'
            )
        if self.split is not None and self.split not in get_args(Split):
            raise ConfigError(
                f'split is "{self.split}"; expected train, valid or test.{did_you_mean(self.split, get_args(Split))}'
            )
        if self.path is None and recipe.data.path == "-":
            raise DataError("this run read its text from standard input, which cannot be read again; give --data PATH")
        about = ABOUT[recipe.objective.kind]
        for name, (objective, what) in _OWNERS.items():
            if getattr(self, name) is not None and recipe.objective.kind != objective:
                raise ConfigError(f"--{name.replace('_', '-')} is {what}, and this run {about.run}; leave it out")


_OWNERS = {
    "target": ("translation", "a way to measure translations"),
    "beam": ("translation", "a way to measure translations"),
    "streams": ("next-token", "a way to read running text"),
    "random_batches": ("next-token", "a way to read running text"),
}


class _Splits(Protocol[T_co]):
    """The parts of a run's own data."""

    @property
    def train(self) -> T_co: ...

    @property
    def valid(self) -> T_co | None: ...

    @property
    def test(self) -> T_co | None: ...


def chosen(data: _Splits[T], split: str | None) -> tuple[str, T]:
    """The text of `split`; where that is not given, the first that there is: test, validation, training."""
    own: dict[str, T] = {name: text for name in ("test", "valid", "train") if (text := getattr(data, name)) is not None}
    if split is not None and split not in own:
        raise DataError(f"this run has no {split} text, only {' and '.join(own)}; choose one of them, or give --data PATH")
    name = split or next(iter(own))
    return name, own[name]
