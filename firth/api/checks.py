"""Whether the tables of a recipe fit together: each of them is checked where it is defined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from firth.api.objectives import ABOUT, OF_FAMILY, Objective, Reads, usual
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import TransformerConfig, TransformerSeq2SeqConfig
from firth.text.catalog import data_set
from firth.text.config import DataConfig
from firth.training.config import TrainingConfig

if TYPE_CHECKING:
    from firth.api.recipe import Recipe

_OF_PAIRS = ("target_path", "valid_target_path", "test_target_path", "source", "target", "split", "lower", "locales", "count")


def check(recipe: Recipe) -> None:
    """Family, objective, data, training and promise must be of one kind."""
    family, objective = recipe.model.family, recipe.objective.kind
    fitting = OF_FAMILY[family]
    if objective not in fitting:
        raise ConfigError(
            f'model.family is "{family}" and objective.kind is "{objective}"; expected objective.kind = {_either(fitting)}, '
            "or a model of another family"
        )
    _check_source(recipe.data, objective)
    _check_keys(recipe, objective)
    _check_training(recipe, objective)
    _check_context(recipe)
    metrics = ABOUT[objective].metrics
    if recipe.expected is not None and recipe.expected.metric not in metrics:
        raise ConfigError(f'expected.metric is "{recipe.expected.metric}"; expected one of {", ".join(metrics)} for {objective}')


def _check_source(data: DataConfig, objective: Objective) -> None:
    """That there is what the objective reads."""
    given = f'data.name = "{data.name}"' if data.name else "data.text"
    held, wanted = _held(data), ABOUT[objective].reads
    if held == wanted or data.path is not None:
        return
    match wanted:
        case "running text":
            other, family = usual(held)
            raise ConfigError(
                f'{given} is {held}, not running text; expected objective.kind = "{other}" and model.family = "{family}", '
                "or another data.name"
            )
        case "texts with labels":
            raise ConfigError(
                f"{given} has no labels to learn; expected data.path (csv, tsv or jsonl), or a named set that has labels"
            )
        case "sentence pairs":
            raise ConfigError(
                f'{given} is {held}, without translations; expected data.name = "dates", "multi30k", "tatoeba-en-nl" or '
                '"scan", or data.path'
            )


def _held(data: DataConfig) -> Reads:
    """What kind of data is named."""
    if data.name in (None, "docs"):
        return "running text"
    if data.name == "dates":
        return "sentence pairs"
    entry = data_set(str(data.name))
    return "texts with labels" if entry.columns is not None else "sentence pairs" if entry.pairs is not None else "running text"


def _check_keys(recipe: Recipe, objective: Objective) -> None:
    """Refuse settings that only other data have."""
    reads, unset = ABOUT[objective].reads, DataConfig(text="")
    foreign: list[tuple[str, Reads]] = [("labels", "texts with labels")]
    foreign += [(key, "sentence pairs") for key in _OF_PAIRS]
    for key, owner in foreign:
        if reads != owner and getattr(recipe.data, key) != getattr(unset, key):
            raise _not_of(f"data.{key}", owner, objective)
    if reads == "running text" and recipe.data.columns is not None:
        raise _not_of("data.columns", "texts with labels", objective)
    if reads != "sentence pairs" and recipe.tokenizer.joint:
        raise _not_of("tokenizer.joint", "sentence pairs", objective)
    for key in ("beam", "penalty"):
        if reads != "sentence pairs" and getattr(recipe.decoding, key) != getattr(DecodingConfig(), key):
            raise _not_of(f"decoding.{key}", "sentence pairs", objective)
    if objective == "translation" and getattr(recipe.model, "shared", False) and not recipe.tokenizer.joint:
        raise ConfigError("model.shared needs one vocabulary for both sides; set tokenizer.joint = true, or leave it out")


def _not_of(setting: str, owner: Reads, objective: Objective) -> ConfigError:
    return ConfigError(f'{setting} is of {owner}, and objective.kind is "{objective}"; leave it out')


def _check_training(recipe: Recipe, objective: Objective) -> None:
    training = recipe.training
    selecting = ABOUT[objective].selecting
    if training.select not in selecting:
        raise ConfigError(f'training.select is "{training.select}"; expected {_either(selecting)} for {objective}')
    if objective == "classification" and training.carry:
        raise ConfigError("training.carry is true, but a classifier has no state to carry from text to text; leave it out")
    usual = TrainingConfig()
    if objective != "translation":
        if training.batch_tokens != usual.batch_tokens:
            raise _not_of("training.batch_tokens", "sentence pairs", objective)
        return
    for key, why in (
        ("batch", "batches of sentence pairs are counted in tokens: give training.batch_tokens instead"),
        ("accumulate", "batches of sentence pairs are counted in tokens: for less memory give fewer, training.batch_tokens"),
        ("carry", "nothing is carried from one sentence to the next: leave it out"),
        ("compile", "it compiles for one shape of batches, and those of sentence pairs have many: leave it out"),
    ):
        value: Any = getattr(training, key)
        if value != getattr(usual, key):
            raise ConfigError(f"training.{key} is {str(value).lower()}; {why}")


def _check_context(recipe: Recipe) -> None:
    model, training = recipe.model, recipe.training
    if isinstance(model, TransformerConfig):
        if training.carry:
            raise ConfigError(
                "training.carry is true, but a Transformer has no state to carry from window to window; leave it out"
            )
        if model.context is not None and model.context < training.context:
            raise ConfigError(
                f"training.context = {training.context} is longer than model.context = {model.context}; raise the latter"
            )
    if isinstance(model, TransformerSeq2SeqConfig) and model.context is not None and model.context <= training.context:
        raise ConfigError(
            f"sentences of up to training.context = {training.context} tokens and <eos> do not fit into model.context = "
            f"{model.context}; raise the latter, or lower the former"
        )


def _either(options: Iterable[str]) -> str:
    *most, last = (f'"{option}"' for option in options)
    return f"{', '.join(most)} or {last}" if most else last
