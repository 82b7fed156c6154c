"""A recipe: the tables [data] [tokenizer] [model] [objective] [training] [decoding] [expected], composed and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from firth.config import Table, build, override, read_toml, to_toml
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import ModelConfig, TransformerConfig
from firth.objectives.classification import ClassificationConfig
from firth.objectives.next_token import ObjectiveConfig
from firth.text.catalog import data_set
from firth.text.config import DataConfig, TokenizerConfig
from firth.training.config import TrainingConfig

Metric = Literal["loss", "perplexity", "bits_per_character", "accuracy", "macro_f1"]
Split = Literal["train", "valid", "test"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What training by this recipe gives: measured by us, and published by others where somebody did."""

    metric: Metric
    direction: Literal["lower", "higher"] = "lower"
    split: Split | None = None  # the text it was measured on; as `evaluate` chooses where not given
    published: float | None = None
    source: str | None = None
    measured: float | None = None
    random_batches: int | None = None  # where it is published as a mean over so many random batches: measured that way, too
    measured_random: float | None = None
    hardware: str | None = None
    date: str | None = None
    minutes: float | None = None
    tolerance: float = 0.02  # how far a fresh run may be from `measured`, in units of the metric
    sha256: str | None = None  # of the text it was measured on, where that differs from machine to machine

    def __post_init__(self) -> None:
        if self.random_batches is not None and (self.metric != "loss" or self.random_batches < 1):
            raise ConfigError(
                f'expected.random_batches is {self.random_batches} with expected.metric = "{self.metric}"; '
                'expected 1 or more, and the metric "loss"'
            )
        if self.measured_random is not None and self.random_batches is None:
            raise ConfigError("expected.measured_random does not say over how many batches; give expected.random_batches")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    summary: str = ""
    data: DataConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig
    objective: ObjectiveConfig | ClassificationConfig = field(default_factory=ObjectiveConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    expected: Expected | None = None

    def __post_init__(self) -> None:
        _check_objective(self)
        if not isinstance(self.model, TransformerConfig):
            return
        if self.training.carry:
            raise ConfigError(
                "training.carry is true, but a Transformer has no state to carry from window to window; leave it out"
            )
        context = self.model.context
        if context is not None and context < self.training.context:
            raise ConfigError(
                f"training.context = {self.training.context} is longer than model.context = {context}; raise the latter"
            )

    def resolved(self) -> Recipe:
        """The same recipe with what it leaves open filled in, so that it means the same anywhere and later."""
        model, data = self.model, self.data
        if isinstance(model, TransformerConfig) and model.context is None:
            model = dataclasses.replace(model, context=self.training.context)
        model = dataclasses.replace(model, vectors=_absolute(model.vectors))
        data = dataclasses.replace(
            data, path=_absolute(data.path), valid_path=_absolute(data.valid_path), test_path=_absolute(data.test_path)
        )
        return dataclasses.replace(self, model=model, data=data)

    def toml(self) -> str:
        return to_toml(self)


def _check_objective(recipe: Recipe) -> None:
    """Family, objective, data and promise must be of one kind."""
    family, objective, data = recipe.model.family, recipe.objective.kind, recipe.data
    fitting = {"language": "next-token", "encoder": "classification"}[family]
    if objective != fitting:
        raise ConfigError(
            f'model.family is "{family}" and objective.kind is "{objective}"; expected objective.kind = "{fitting}", '
            "or a model of another family"
        )
    _check_no_pairs(recipe)
    labelled = objective == "classification"
    named = data.name is not None and data.name != "docs" and data_set(data.name).columns is not None
    if labelled and not (named or data.path is not None):
        given = f'data.name = "{data.name}"' if data.name else "data.text"
        raise ConfigError(
            f"{given} has no labels to learn; expected data.path (csv, tsv or jsonl), or a named set that has labels"
        )
    if named and not labelled:
        raise ConfigError(
            f'data.name = "{data.name}" is texts with labels, not running text; expected objective.kind = "classification", '
            "or another data.name"
        )
    for key in ("columns", "labels"):
        if not labelled and getattr(data, key) is not None:
            raise ConfigError(f'data.{key} is of texts with labels, and objective.kind is "{objective}"; leave it out')
    if labelled and recipe.training.carry:
        raise ConfigError("training.carry is true, but a classifier has no state to carry from text to text; leave it out")
    metrics = ("loss", "accuracy", "macro_f1") if labelled else ("loss", "perplexity", "bits_per_character")
    if recipe.expected is not None and recipe.expected.metric not in metrics:
        raise ConfigError(f'expected.metric is "{recipe.expected.metric}"; expected one of {", ".join(metrics)} for {objective}')


def _check_no_pairs(recipe: Recipe) -> None:
    """Sentence pairs are read (text/parallel.py), but no family of models that learns from them is in recipes yet."""
    name = recipe.data.name
    if name == "dates" or (name not in (None, "docs") and data_set(str(name)).pairs is not None):
        raise ConfigError(
            f'data.name = "{name}" is sentence pairs, and model.family = "{recipe.model.family}" reads single texts; '
            "choose another data.name, or data.path"
        )
    usual = DataConfig(text="")
    for key in ("target_path", "valid_target_path", "test_target_path", "source", "target", "split", "lower", "locales", "count"):
        if getattr(recipe.data, key) != getattr(usual, key):
            raise ConfigError(f'data.{key} is of sentence pairs, and model.family is "{recipe.model.family}"; leave it out')
    if recipe.tokenizer.joint:
        raise ConfigError(f'tokenizer.joint is of sentence pairs, and model.family is "{recipe.model.family}"; leave it out')


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, with `--a.b=value` settings put in."""
    return compose(read_toml(path), assignments)


def compose(table: Table, assignments: Sequence[str] = ()) -> Recipe:
    changed = override(table, assignments)
    if assignments:
        changed.pop("expected", None)  # it speaks of the recipe as written, not of this one
        _prefer_new_source(changed, assignments)
    return build(Recipe, changed)


def _absolute(path: str | None) -> str | None:
    return path if path in (None, "-") else str(Path(str(path)).absolute())


def _prefer_new_source(table: Table, assignments: Sequence[str]) -> None:
    """`--data.path=my.txt` on a recipe with data.name takes the place of that name."""
    sources = {"name", "path", "text"}
    given = {assignment.lstrip("-").partition("=")[0].removeprefix("data.") for assignment in assignments} & sources
    if given:
        for other in sources - given:
            table.get("data", {}).pop(other, None)
