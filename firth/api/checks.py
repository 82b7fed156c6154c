"""Whether the tables of a recipe fit together: each of them is checked where it is defined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import TransformerConfig, TransformerSeq2SeqConfig
from firth.text.catalog import data_set
from firth.text.config import DataConfig
from firth.training.config import TrainingConfig

if TYPE_CHECKING:
    from firth.api.recipe import Recipe

Objective = Literal["next-token", "classification", "translation"]

OBJECTIVE: dict[str, Objective] = {"language": "next-token", "encoder": "classification", "seq2seq": "translation"}
_METRICS: dict[str, tuple[str, ...]] = {
    "next-token": ("loss", "perplexity", "bits_per_character"),
    "classification": ("loss", "accuracy", "macro_f1"),
    "translation": ("loss", "perplexity", "bleu", "bleu_tokenised", "chrf", "exact"),
}
_SELECTING: dict[str, tuple[str, ...]] = {
    "next-token": ("loss",),
    "classification": ("loss", "accuracy", "macro_f1"),
    "translation": ("loss", "bleu", "exact"),
}
_READS = {"next-token": "running text", "classification": "texts with labels", "translation": "sentence pairs"}
_OF_PAIRS = ("target_path", "valid_target_path", "test_target_path", "source", "target", "split", "lower", "locales", "count")


def check(recipe: Recipe) -> None:
    """Family, objective, data, training and promise must be of one kind."""
    family, objective = recipe.model.family, recipe.objective.kind
    fitting = OBJECTIVE[family]
    if objective != fitting:
        raise ConfigError(
            f'model.family is "{family}" and objective.kind is "{objective}"; expected objective.kind = "{fitting}", '
            "or a model of another family"
        )
    _check_source(recipe.data, objective)
    _check_keys(recipe, objective)
    _check_training(recipe, objective)
    _check_context(recipe)
    metrics = _METRICS[objective]
    if recipe.expected is not None and recipe.expected.metric not in metrics:
        raise ConfigError(f'expected.metric is "{recipe.expected.metric}"; expected one of {", ".join(metrics)} for {objective}')


def _check_source(data: DataConfig, objective: Objective) -> None:
    """That there is what the objective reads."""
    given = f'data.name = "{data.name}"' if data.name else "data.text"
    held = _held(data)
    if held == objective or data.path is not None:
        return
    match objective:
        case "next-token":
            other = _FAMILY[held]
            raise ConfigError(
                f'{given} is {_READS[held]}, not running text; expected objective.kind = "{held}" and model.family = "{other}", '
                "or another data.name"
            )
        case "classification":
            raise ConfigError(
                f"{given} has no labels to learn; expected data.path (csv, tsv or jsonl), or a named set that has labels"
            )
        case "translation":
            raise ConfigError(
                f'{given} is {_READS[held]}, without translations; expected data.name = "dates", "multi30k", "tatoeba-en-nl" or '
                '"scan", or data.path'
            )


_FAMILY = {objective: family for family, objective in OBJECTIVE.items()}


def _held(data: DataConfig) -> Objective:
    """The objective that what is named is made for."""
    if data.name in (None, "docs"):
        return "next-token"
    if data.name == "dates":
        return "translation"
    entry = data_set(str(data.name))
    return "classification" if entry.columns is not None else "translation" if entry.pairs is not None else "next-token"


def _check_keys(recipe: Recipe, objective: Objective) -> None:
    """Refuse settings that only another objective reads."""
    usual = DataConfig(text="")
    foreign: list[tuple[str, Objective]] = [("labels", "classification")]
    foreign += [(key, "translation") for key in _OF_PAIRS]
    for key, owner in foreign:
        if objective != owner and getattr(recipe.data, key) != getattr(usual, key):
            raise _not_of(f"data.{key}", owner, objective)
    if objective == "next-token" and recipe.data.columns is not None:
        raise _not_of("data.columns", "classification", objective)
    if objective != "translation" and recipe.tokenizer.joint:
        raise _not_of("tokenizer.joint", "translation", objective)
    for key in ("beam", "penalty"):
        if objective != "translation" and getattr(recipe.decoding, key) != getattr(DecodingConfig(), key):
            raise _not_of(f"decoding.{key}", "translation", objective)
    if objective == "translation" and getattr(recipe.model, "shared", False) and not recipe.tokenizer.joint:
        raise ConfigError("model.shared needs one vocabulary for both sides; set tokenizer.joint = true, or leave it out")


def _not_of(setting: str, owner: Objective, objective: Objective) -> ConfigError:
    return ConfigError(f'{setting} is of {_READS[owner]}, and objective.kind is "{objective}"; leave it out')


def _check_training(recipe: Recipe, objective: Objective) -> None:
    training = recipe.training
    if training.select not in _SELECTING[objective]:
        raise ConfigError(f'training.select is "{training.select}"; expected {_either(_SELECTING[objective])} for {objective}')
    if objective == "classification" and training.carry:
        raise ConfigError("training.carry is true, but a classifier has no state to carry from text to text; leave it out")
    usual = TrainingConfig()
    if objective != "translation":
        if training.batch_tokens != usual.batch_tokens:
            raise _not_of("training.batch_tokens", "translation", objective)
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
