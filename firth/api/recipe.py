"""A recipe: the tables [data] [tokenizer] [model] [objective] [training] [decoding] [expected], composed and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from firth.api.checks import check
from firth.api.objectives import OF_FAMILY
from firth.config import Table, build, override, read_toml, to_toml
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import (
    ModelConfig,
    PrefixConfig,
    TransformerConfig,
    TransformerEncoderConfig,
    TransformerSeq2SeqConfig,
)
from firth.objectives.answer import AnswerConfig
from firth.objectives.classification import ClassificationConfig
from firth.objectives.in_context import InContextConfig, InContextRegressionConfig
from firth.objectives.masked import MaskedConfig
from firth.objectives.next_token import ObjectiveConfig
from firth.objectives.span_corruption import SpanCorruptionConfig
from firth.objectives.tagging import TaggingConfig
from firth.objectives.translation import TranslationConfig
from firth.text.config import DataConfig, TokenizerConfig
from firth.training.config import TrainingConfig

Metric = Literal[
    "loss",
    "perplexity",
    "bits_per_character",
    "accuracy",
    "macro_f1",
    "f1",
    "wic_accuracy",
    "squared_error",
    "bleu",
    "bleu_tokenised",
    "chrf",
    "exact",
    "rouge1",
    "rouge2",
    "rougeL",
]
Split = Literal["train", "valid", "test"]
ObjectiveTable = (
    ObjectiveConfig
    | MaskedConfig
    | SpanCorruptionConfig
    | ClassificationConfig
    | TaggingConfig
    | AnswerConfig
    | TranslationConfig
    | InContextConfig
    | InContextRegressionConfig
)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What training by this recipe gives: measured by us, and published by others where somebody did."""

    metric: Metric
    direction: Literal["lower", "higher"] = "lower"
    split: Split | None = None  # the text it was measured on; as `evaluate` chooses where not given
    published: float | None = None
    source: str | None = None
    measured: float | None = None
    seeds: int | None = None  # of which `measured` is the mean; one where not given
    spread: float | None = None  # standard deviation between those seeds
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
        if (self.seeds is None) != (self.spread is None) or (self.seeds is not None and self.seeds < 2):
            raise ConfigError(
                f"expected.seeds is {self.seeds} and expected.spread is {self.spread}; expected both, of two seeds or more, "
                "or neither"
            )
        if self.metric == "wic_accuracy" and self.split not in (None, "valid"):
            raise ConfigError(
                'expected.metric is "wic_accuracy"; it is measured on the development pairs of wic, so expected.split = "valid", '
                f'not "{self.split}"'
            )
        if self.measured_random is not None and self.random_batches is None:
            raise ConfigError("expected.measured_random does not say over how many batches; give expected.random_batches")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    summary: str = ""
    data: DataConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig
    objective: ObjectiveTable = field(default_factory=ObjectiveConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    expected: Expected | None = None

    def __post_init__(self) -> None:
        check(self)

    def resolved(self) -> Recipe:
        """The same recipe with what it leaves open filled in, so that it means the same anywhere and later."""
        model, data = self.model, self.data
        if isinstance(model, TransformerConfig | TransformerEncoderConfig) and model.context is None:
            model = dataclasses.replace(model, context=self.training.context)
        if isinstance(model, TransformerSeq2SeqConfig) and model.context is None:
            model = dataclasses.replace(model, context=self.training.context + 1)  # <eos>
        if isinstance(model, PrefixConfig) and model.context is None:
            model = dataclasses.replace(model, context=2 * (self.training.context + 1))  # both sides
        model = dataclasses.replace(model, vectors=_absolute(model.vectors))
        paths = [f"{part}{key}" for part in ("", "valid_", "test_") for key in ("path", "target_path")]
        anywhere: dict[str, Any] = {key: _absolute(getattr(data, key)) for key in paths}
        data = dataclasses.replace(data, **anywhere)
        training = dataclasses.replace(self.training, init=_absolute(self.training.init))
        return dataclasses.replace(self, model=model, data=data, training=training)

    def toml(self) -> str:
        return to_toml(self)


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, with `--a.b=value` settings put in."""
    return compose(read_toml(path), assignments)


def compose(table: Table, assignments: Sequence[str] = ()) -> Recipe:
    changed = override(table, assignments)
    if assignments:
        changed.pop("expected", None)  # it speaks of the recipe as written, not of this one
        _prefer_new_source(changed, assignments)
    _fill_objective(changed)
    return build(Recipe, changed)


def _fill_objective(table: Table) -> None:
    """A recipe that says of which family its model is need not say what such a model learns."""
    model, objective = table.get("model"), table.get("objective", {})
    if isinstance(model, dict) and isinstance(objective, dict) and model.get("family") in OF_FAMILY:
        table["objective"] = {"kind": OF_FAMILY[model["family"]][0], **objective}


def _absolute(path: str | None) -> str | None:
    return path if path in (None, "-") else str(Path(str(path)).absolute())


def _prefer_new_source(table: Table, assignments: Sequence[str]) -> None:
    """`--data.path=my.txt` on a recipe with data.name takes the place of that name, and of the other side of its pairs."""
    sources = {"name", "path", "text"}
    named = {assignment.lstrip("-").partition("=")[0].removeprefix("data.") for assignment in assignments}
    given = named & sources
    if given:
        for other in (sources - given) | {"target_path"}:
            if other not in named:
                table.get("data", {}).pop(other, None)
