"""The file of a study: which models are trained, what is kept equal, what is measured, and which claims the result must hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from firth.config import Table, build, merged, read_toml
from firth.errors import ConfigError, did_you_mean
from firth.experiments.records.cost_to_loss import NOT_REACHED, cost_to_loss
from firth.experiments.studies.claims import expect_readable
from firth.files import is_file
from firth.tasks.splits import Split

FOLDER = Path(__file__).parent
Equal = Literal["parameters", "flops", "tokens", "steps", "seconds"]
_BASES = ("recipe", "vectors", "counts", "dynamics")  # what an arm is made from: one of them
FigureKind = Literal["bars", "curves", "against", "lengths"]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the models that are compared."""

    recipe: str | None = None  # shipped recipe, or a TOML file beside that of the study
    # in place of a recipe, word vectors that are trained: a corpus, and settings of `firth vectors train`
    vectors: Mapping[str, Any] | None = None
    # in place of a recipe, word vectors that are counted: a corpus, and settings of `firth vectors cooccur`
    counts: Mapping[str, Any] | None = None
    # in place of a recipe, points that attention moves: settings of `firth dynamics`
    dynamics: Mapping[str, Any] | None = None
    about: str = ""  # what it is, for the tables
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the recipe in its tables, or of the table in place of it
    # settings that take several values: one model for each combination, named after its values
    each: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None  # another arm, from whose weights this one starts
    published: Mapping[str, float] = field(default_factory=dict)  # measure → its value in print

    @property
    def base(self) -> str:
        """What it has: recipe, vectors, counts or dynamics."""
        return next(name for name in _BASES if getattr(self, name) is not None)

    @property
    def own_settings(self) -> Table:
        """Those that it sets itself, in their tables."""
        tables = {name: table for name in _BASES if isinstance(table := getattr(self, name), Mapping)}
        return merged(tables, self.settings)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What all arms have in common. One of their settings is solved for."""

    equal: Equal  # what is equal; parameters and FLOPs are counted, seconds are measured on this machine
    to: str  # the arm that already has it
    by: str | None = None  # setting to solve for; if not set, model.width for parameters, and otherwise training.steps
    multiple: int = 1  # the setting is a multiple of this, such as the number of heads
    tolerance: float = 0.02  # largest relative difference


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that every run gives: a metric of `firth evaluate`, a test of word vectors, or a fact about the training."""

    # "bleu", "loss", …, or "parameters", "flops", "tokens", "steps", "seconds", "tokens_per_second"; "state_per_token" and
    # "state": bytes in float32 that generating keeps for each token, and of the state whose size is constant;
    # "seconds_to(1.6)", "steps_to(1.6)" and "tokens_to(1.6)": cost of the training until the first validation whose loss is at
    # most 1.6; a setting that is a number, such as "training.rate". Of word vectors: "analogies", "analogies.semantic",
    # "analogies.syntactic" (accuracy) and "analogies.covered" (share of questions whose words are known); "similarity.ws353",
    # "similarity.simlex999", "similarity.men", their "similarity.mean", and "similarity" of a file (Spearman's correlation);
    # "vocabulary", "tokens", "seconds", "tokens_per_second". Of dynamics, after the last layer: "rank", "attention_rank",
    # "distance", "clusters"; before the first one: "first_rank", …
    metric: str
    about: str = ""  # what it is, for the tables
    split: Split | None = None  # part of the data that is evaluated; if not set, the first of test, valid and train that exists
    data: str | None = None  # other data to evaluate on: a file; of word vectors, with analogy questions or word pairs
    shortest: int | None = None  # only texts whose source has at least this many tokens
    longest: int | None = None  # only texts whose source has at most this many tokens
    # evaluate windows of this many times training.context tokens; only for Transformer language models; a model whose positions
    # end before that has no number
    context_ratio: float | None = None
    arms: tuple[str, ...] | None = None  # models that give it; if not set, all of them
    digits: int = 3  # digits after the decimal point in tables

    def __post_init__(self) -> None:
        cost_to_loss(self.metric)  # refuses what is not complete
        if self.context_ratio is not None and not 0 < self.context_ratio < math.inf:
            raise ConfigError(f"context_ratio is {self.context_ratio}; expected a number above 0")

    def of(self, arm: str) -> bool:
        return self.arms is None or arm in self.arms

    @property
    def missing(self) -> str:
        """What a table shows in place of a number that no run has."""
        return "–" if cost_to_loss(self.metric) is None else NOT_REACHED

    @property
    def without(self) -> str:
        """What it says about runs that lack the number."""
        return "without" if cost_to_loss(self.metric) is None else NOT_REACHED


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that the paper says, as an inequality between measures of arms."""

    says: str  # the claim in words
    check: str  # the claim as an inequality: "exact(rnnsearch) - exact(rnnenc) >= 0.3"
    published: str | None = None  # the figures in print that it rests on


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure of the page."""

    # "bars": a measure of each arm; "curves": the losses while training; "against": one measure against another; "lengths":
    # scores by source length, of translators
    kind: FigureKind
    title: str = ""  # its heading
    measure: str | None = None  # what is drawn
    against: str | None = None  # for "against", another measure; for "curves", "tokens", "step" or "seconds"
    arms: tuple[str, ...] | None = None  # if not set, all of them


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the runs are: settings of all of them."""

    about: str = ""  # duration and machine
    seeds: int | None = None  # if not set, those of the study
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all recipes; those of an arm come after them
    # of all recipes, after those of the arms: the few steps of a trial, for example
    overrides: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] | None = None  # if not set, all of them


@dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison of models."""

    summary: str  # what it shows, in one line
    source: str | None = None  # paper, with table or figure
    notes: tuple[str, ...] = ()  # differences from the paper, such as another tokenisation or test set
    seeds: int = 3  # runs of each model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all recipes
    arm: Mapping[str, Arm]  # models that are compared
    budget: Budget | None = None  # what they have in common
    measure: Mapping[str, Measure]  # what is measured
    scale: Mapping[str, Scale] = field(default_factory=lambda: {"small": Scale()})  # how large the runs are
    claim: tuple[Claim, ...] = ()  # what must hold
    figure: tuple[Drawing, ...] = ()  # figures of the page; if not set, bars of every measure and the losses

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"seeds is {self.seeds}; expected 1 or more")
        if not self.arm or not self.measure:
            raise ConfigError("a study needs at least one table [arm.NAME] and one table [measure.NAME]")
        arms, measures = list(self.arms), list(self.measure)
        for name in self._named_arms():
            _expect(name, arms, "arm")
        for name, arm in self.arm.items():
            _expect_one_base(name, arm)
            if self.budget is not None and arm.recipe is None:
                raise ConfigError(f'the budget only applies to arms with a recipe; "{name}" has {arm.base}. Remove [budget].')
        drawn = [drawing.measure for drawing in self.figure if drawing.measure is not None]
        for name in [*(one for arm in self.arm.values() for one in arm.published), *drawn]:
            _expect(name, measures, "measure")
        for claim in self.claim:
            expect_readable(claim.check, measures, arms)

    def _named_arms(self) -> list[str]:
        """The arms that its tables name."""
        chosen: list[Scale | Measure | Drawing] = [*self.scale.values(), *self.measure.values(), *self.figure]
        lists = [one.arms or () for one in chosen]
        single = [arm.after for arm in self.arm.values()] + ([self.budget.to] if self.budget else [])
        return [name for names in (*lists, single) for name in names if name is not None]

    @property
    def arms(self) -> dict[str, Arm]:
        """Every arm, those of `each` one by one."""
        every: dict[str, Arm] = {}
        for name, arm in self.arm.items():
            for label, single in _singles(name, arm):
                if label in every:
                    raise ConfigError(f'two arms are called "{label}". Rename one of them.')
                every[label] = single
        return every

    def at(self, name: str) -> Scale:
        """The scale of that name."""
        _expect(name, self.scale, "scale")
        return self.scale[name]


def _expect_one_base(name: str, arm: Arm) -> None:
    given = [base for base in _BASES if getattr(arm, base) is not None]
    if len(given) != 1:
        raise ConfigError(f'the arm "{name}" has {" and ".join(given) or "none"} of {", ".join(_BASES)}; expected one of them')
    if arm.after is not None and arm.recipe is None:
        raise ConfigError(f"arm.{name}.after only applies to arms with a recipe; this one has {arm.base}. Remove it.")


def _singles(name: str, arm: Arm) -> list[tuple[str, Arm]]:
    if not arm.each:
        return [(name, arm)]
    singles = []
    for values in itertools.product(*(value if isinstance(value, list) else [value] for value in arm.each.values())):
        own: Table = {}
        for key, value in zip(arm.each, values, strict=True):
            own = merged(own, _table(key, value))
        label = "-".join(str(value.get("kind", value) if isinstance(value, dict) else value) for value in values)
        singles.append((label, replace(arm, settings=merged(arm.settings, own), each={})))
    return singles


def _table(key: str, value: Any) -> Table:
    """model.width → {"model": {"width": value}}"""
    for part in reversed(key.split(".")):
        value = {part: value}
    table: Table = value
    return table


def _expect(name: str, known: Any, what: str) -> None:
    if name not in known:
        raise ConfigError(f'the study has no {what} "{name}".{did_you_mean(name, known)}')


def shipped_studies() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def find_study(name: str | Path) -> tuple[str, Path, Study]:
    """The study with that name, or in that TOML file: its name, its file and its contents."""
    shipped = shipped_studies()
    path = shipped.get(str(name), Path(name))
    if not is_file(path):
        raise ConfigError(f'there is no study "{name}".{did_you_mean(str(name), shipped)}')
    table = read_toml(path)
    try:
        return path.stem, path, build(Study, table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.marked}") from error


def chosen_settings(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of all tables with dots in their names; of two values, the last one counts."""
    settings: dict[str, Any] = {}
    for table in tables:
        for name, value in flattened(table):
            inner = {one: settings.pop(one) for one in list(settings) if one.startswith(f"{name}.")}
            same_kind = settings.get(name, value) == value  # the settings of another kind are gone
            settings[name] = value
            settings |= inner if same_kind else {}
    return settings


def flattened(table: Mapping[str, Any], at: str = "") -> list[tuple[str, Any]]:
    """Tables in tables as settings with dots in their names.

    The kind of an idea, such as that of model.position, stands for its table and comes first: the settings of another kind, which
    the recipe may have there, do not stay beside those of this one."""
    settings: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = f"{at}.{key}" if at else key
        if not isinstance(value, Mapping):
            settings.append((name, value))
        elif at and isinstance(value.get("kind"), str):
            settings += [(name, value["kind"]), *flattened({own: one for own, one in value.items() if own != "kind"}, name)]
        else:
            settings += flattened(value, name)
    return settings
