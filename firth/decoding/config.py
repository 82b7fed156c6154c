"""The settings by which a trained model generates text: length, search, and those of every sampling filter."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from firth.config import expect_numbers, setting
from firth.decoding.constraints.choice import OneOf
from firth.decoding.constraints.constraint import Constraint
from firth.decoding.constraints.json_schema import JsonSchema
from firth.decoding.constraints.regex import Regex
from firth.decoding.sampling.dry import Dry
from firth.decoding.sampling.filter import Check, Filter
from firth.decoding.sampling.min_p import MinP
from firth.decoding.sampling.mirostat import Mirostat
from firth.decoding.sampling.repetition_penalty import RepetitionPenalty
from firth.decoding.sampling.temperature import COLDEST, Temperature
from firth.decoding.sampling.top_k import TopK
from firth.decoding.sampling.top_p import NARROWEST, TopP
from firth.decoding.sampling.typical_p import TypicalP
from firth.decoding.sampling.xtc import Xtc
from firth.errors import ConfigError
from firth.ideas import Ideas

BeamRules = Literal["wu", "transformers"]
WU: BeamRules = "wu"
_WIDEST = 4096  # beams


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    beam: int = setting(1, "beam size; 1: no beam search, so language models sample and translation is greedy")
    penalty: float = setting(0.6, "exponent α of the length penalty of a beam; 0: rank by log p alone, which favours short texts")
    # also how it ends; imported encoder–decoders get "transformers"
    beam_rules: BeamRules = setting(WU, 'score of n tokens: "wu", log p / ((5 + n) / 6)^α; "transformers", log p / n^α')
    early_stopping: bool = setting(False, 'end the search when `beam` texts have ended; only for `beam_rules = "transformers"`')
    beam_groups: int = setting(1, "number of groups of the beam, which avoid one another's tokens; 1: plain beam search")
    diversity: float = setting(0.5, "with `beam_groups`: λ, the penalty for a token of an earlier group")

    def checks(self) -> Iterable[Check]:
        yield "beam", self.beam >= 1, "at least 1"
        yield "beam", self.beam <= _WIDEST, f"at most {_WIDEST:,}"
        yield "penalty", self.penalty >= 0, "0 or more"
        yield "penalty", self.penalty <= 30, "at most 30"
        yield "beam_groups", self.beam_groups >= 1, "at least 1"
        yield "beam_groups", self.beam % max(1, self.beam_groups) == 0, f"a divisor of decoding.beam, which is {self.beam}"
        yield "diversity", self.diversity >= 0, "0 or more"
        yield "diversity", self.diversity <= 1e6, "at most 1,000,000"
        if self.early_stopping and self.beam_rules != "transformers":
            raise ConfigError(f'decoding.early_stopping needs decoding.beam_rules = "transformers"; it is "{self.beam_rules}".')


@dataclass(frozen=True, kw_only=True)
class LengthSettings:
    tokens: int = setting(200, "maximum number of tokens to generate")
    stop: tuple[str, ...] = setting((), "strings that end the text where the first of them occurs; they are not part of it")
    seed: int = setting(0, "random seed for sampling")

    def checks(self) -> Iterable[Check]:
        yield "tokens", self.tokens >= 1, "at least 1"
        yield "tokens", self.tokens < 1 << 31, "less than 2³¹"
        yield "stop", "" not in self.stop, "strings of at least one character"
        yield "seed", self.seed >= 0, "0 or more"


@dataclass(frozen=True, kw_only=True)
class DecodingConfig(
    OneOf,
    Regex,
    JsonSchema,
    RepetitionPenalty,
    Dry,
    Temperature,
    TopK,
    TopP,
    MinP,
    TypicalP,
    Xtc,
    Mirostat,
    SearchSettings,
    LengthSettings,
):  # the filters in the order in which they act
    """The settings of generated text. `firth generate` and `firth translate` have options of the same names. Translation
    searches for the most probable text; it samples only with `--sample`."""

    def __post_init__(self) -> None:
        expect_numbers("decoding", self)
        for name, holds, expected in self.all_checks():
            if not holds:
                raise ConfigError(f"decoding.{name} is {getattr(self, name)}; expected {expected}")
        if self.temperature < COLDEST:
            object.__setattr__(self, "temperature", 0.0)
        object.__setattr__(self, "top_p", max(self.top_p, NARROWEST))

    def all_checks(self) -> Iterable[Check]:
        """Those of every part."""
        parts: tuple[Any, ...] = DecodingConfig.__bases__
        return itertools.chain.from_iterable(part.checks(self) for part in parts)

    @property
    def draws(self) -> bool:
        """True if tokens are drawn; otherwise the most probable one is taken."""
        return self.temperature > 0

    @functools.cached_property
    def reads_text(self) -> bool:
        """True if a filter looks at the tokens so far."""
        return any(not one.drawing or one.alone for one in self.acting)

    @functools.cached_property
    def constrains(self) -> bool:
        """True if the text must match something."""
        return any(issubclass(one, Constraint) for one in self.acting)

    def alone_settings(self) -> tuple[str, ...]:
        """The settings of filters that follow the tokens drawn for their text, if any act."""
        return tuple(name for one in self.acting if one.alone for name in setting_names(one))

    @functools.cached_property
    def acting(self) -> tuple[type[Filter], ...]:
        """The filters that change anything."""
        return tuple(one for one in FILTERS if one.acts(self) and (self.draws or not one.drawing))


def setting_names(base: type) -> tuple[str, ...]:
    """The settings that a part of DecodingConfig declares."""
    return tuple(one.name for one in fields(base))


_GENERATED = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__match_args__", "__replace__")


def _rebuild(parts: Iterable[type]) -> None:
    """Make DecodingConfig from these parts, in place, because other modules already hold the class."""
    for name in _GENERATED:
        if name in vars(DecodingConfig):
            delattr(DecodingConfig, name)
    DecodingConfig.__bases__ = tuple(parts)
    dataclass(frozen=True, kw_only=True)(DecodingConfig)


def _add(filter: type[Filter]) -> None:
    _rebuild((*FILTERS, *_OTHERS))


def _remove(filter: type[Filter]) -> None:
    _rebuild(part for part in DecodingConfig.__bases__ if part is not filter)


FILTERS: Ideas[type[Filter]] = Ideas(
    "sampling filter", Filter, (base for base in DecodingConfig.__bases__ if issubclass(base, Filter)), joined=_add, left=_remove
)
_OTHERS = (SearchSettings, LengthSettings)
SEARCHING: tuple[str, ...] = setting_names(SearchSettings)
CONSTRAINING: tuple[str, ...] = tuple(name for one in FILTERS if issubclass(one, Constraint) for name in setting_names(one))


def offered() -> tuple[str, ...]:
    """Settings with an option in every verb that generates text."""
    filters = (name for one in sorted(FILTERS, key=lambda one: not one.drawing) for name in setting_names(one))
    return "tokens", *filters, "stop", "seed", "beam", "penalty", "beam_groups", "diversity"


def drawing() -> tuple[str, ...]:
    """Settings that only apply to sampling."""
    return (*(name for one in FILTERS if one.drawing for name in setting_names(one)), "seed")
