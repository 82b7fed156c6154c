"""Whether the tables of a recipe fit together: each of them is checked where it is defined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from firth.api.objectives import ABOUT, OF_FAMILY, Objective, Reads, usual
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError
from firth.models import AverageConfig, PrefixConfig, TransformerConfig, TransformerEncoderConfig, TransformerSeq2SeqConfig
from firth.objectives.masked import MaskedConfig
from firth.objectives.span_corruption import SpanCorruptionConfig
from firth.text.config import DataConfig, TokenizerConfig
from firth.text.data.in_context import prompt_tokens
from firth.text.datasets.catalog import data_set
from firth.training.config import TrainingConfig

if TYPE_CHECKING:
    from firth.api.recipe import Recipe

_OF_PROMPTS = ("prompts of tasks", "points of functions")
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
    _check_running_text(recipe)
    _check_answers(recipe)
    _check_prompts(recipe)
    _check_rouge(recipe)
    metrics = ABOUT[objective].metrics
    if recipe.expected is not None and recipe.expected.metric not in metrics:
        raise ConfigError(f'expected.metric is "{recipe.expected.metric}"; expected one of {", ".join(metrics)} for {objective}')


def _check_source(data: DataConfig, objective: Objective) -> None:
    """That there is what the objective reads."""
    given = f'data.name = "{data.name}"' if data.name else "data.text"
    held, wanted = _held(data), ABOUT[objective].reads
    if wanted in _OF_PROMPTS and held != wanted:
        given, name = f'data.path = "{data.path}"' if data.path else given, "swaps" if objective == "in-context" else "linear"
        raise ConfigError(f'{given} tells no tasks by examples; expected data.name = "{name}"')
    # Texts with labels are text, too: what they say is read, and the labels are not.
    if held == wanted or data.path is not None or (held, wanted) == ("texts with labels", "running text"):
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
        case "words with tags":
            raise ConfigError(
                f"{given} is {held}, without tags to learn; expected data.path (CoNLL or CoNLL-U), or data.name = "
                '"ud-english-ewt" or "conll2003"'
            )
        case "questions":
            raise ConfigError(f"{given} is {held}, without questions; expected data.path, SQuAD's .json or .jsonl")
        case "sentence pairs":
            raise ConfigError(
                f'{given} is {held}, without translations; expected data.name = "dates", "multi30k", "tatoeba-en-nl", '
                '"scan", "prompts" or "docstrings", or data.path'
            )


def _held(data: DataConfig) -> Reads:
    """What kind of data is named."""
    if data.name in (None, "docs"):
        return "running text"
    if data.name in ("dates", "docstrings", "prompts"):
        return "sentence pairs"
    if data.name in ("swaps", "linear"):
        return "prompts of tasks" if data.name == "swaps" else "points of functions"
    entry = data_set(str(data.name))
    if entry.tagged is not None:
        return "words with tags"
    return "texts with labels" if entry.columns is not None else "sentence pairs" if entry.pairs is not None else "running text"


def _check_keys(recipe: Recipe, objective: Objective) -> None:
    """Refuse settings that only other data have."""
    reads, unset = ABOUT[objective].reads, DataConfig(text="")
    foreign: list[tuple[str, Reads]] = [("labels", "texts with labels")] if reads != "words with tags" else []
    foreign += [(key, "words with tags") for key in ("word", "column")]
    foreign += [(key, "sentence pairs") for key in _OF_PAIRS if not (key == "count" and reads in _OF_PROMPTS)]
    foreign += [(key, "prompts of tasks") for key in ("letters", "word_length")]
    foreign += [(key, "points of functions") for key in ("dimensions", "noise")]
    foreign += [("examples", "prompts of tasks")] if reads not in _OF_PROMPTS else []
    for key, owner in foreign:
        if reads != owner and getattr(recipe.data, key) != getattr(unset, key):
            raise _not_of(f"data.{key}", owner, objective)
    _check_tags(recipe, objective)
    if reads in ("words with tags", "questions") and recipe.data.columns is not None:
        raise _not_of("data.columns", "texts with labels", objective)
    if reads != "sentence pairs" and recipe.tokenizer.joint:
        raise _not_of("tokenizer.joint", "sentence pairs", objective)
    if recipe.tokenizer.vectors:
        if reads != "texts with labels":
            raise _not_of("tokenizer.vectors", "texts with labels", objective)
        if getattr(recipe.model, "vectors", None) is None:
            raise ConfigError("tokenizer.vectors takes the words of model.vectors, which is missing; give it, or leave it out")
    for key in ("beam", "penalty"):
        if reads != "sentence pairs" and getattr(recipe.decoding, key) != getattr(DecodingConfig(), key):
            raise _not_of(f"decoding.{key}", "sentence pairs", objective)
    if isinstance(recipe.model, PrefixConfig) and reads == "sentence pairs" and not recipe.tokenizer.joint:
        raise ConfigError('model.kind = "prefix" reads and writes with one vocabulary; set tokenizer.joint = true')
    if objective == "translation" and getattr(recipe.model, "shared", False) and not recipe.tokenizer.joint:
        raise ConfigError("model.shared needs one vocabulary for both sides; set tokenizer.joint = true, or leave it out")


def _check_tags(recipe: Recipe, objective: Objective) -> None:
    if objective == "tagging":
        return
    if recipe.data.format in ("conll", "conllu"):
        raise _not_of(f'data.format = "{recipe.data.format}"', "words with tags", objective)
    if getattr(recipe.model, "characters", None):
        raise _not_of("model.characters", "words with tags", objective)


def _not_of(setting: str, owner: Reads, objective: Objective) -> ConfigError:
    return ConfigError(f'{setting} is of {owner}, and objective.kind is "{objective}"; leave it out')


def _check_training(recipe: Recipe, objective: Objective) -> None:
    training = recipe.training
    if training.init is not None and getattr(recipe.model, "vectors", None) is not None:
        raise ConfigError(
            f'model.vectors and training.init = "{training.init}" both say what the embedding begins as; leave one of them out'
        )
    selecting = ABOUT[objective].selecting
    if training.select not in selecting:
        raise ConfigError(f'training.select is "{training.select}"; expected {_either(selecting)} for {objective}')
    if objective == "classification" and getattr(recipe.objective, "weights", None) is not None and training.accumulate > 1:
        raise ConfigError(
            f"training.accumulate is {training.accumulate}; the weighted mean of a batch is not the mean of those of its pieces: "
            "leave it out, or objective.weights"
        )
    if objective == "tagging":
        for key, why in (
            ("accumulate", "the mean over the words of a batch is not the mean of those of its pieces: leave it out"),
            ("carry", "nothing is carried from one sentence to the next: leave it out"),
            ("compile", "it compiles for one shape of batches, and those of sentences have many: leave it out"),
        ):
            if getattr(training, key) != getattr(TrainingConfig(), key):
                raise ConfigError(f"training.{key} is {str(getattr(training, key)).lower()}; {why}")
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
        windows = ABOUT[recipe.objective.kind].reads == "running text"  # texts with labels have lengths of their own
        if windows and model.context is not None and model.context < training.context:
            raise ConfigError(
                f"training.context = {training.context} is longer than model.context = {model.context}; raise the latter"
            )
    if isinstance(model, TransformerSeq2SeqConfig) and model.context is not None and model.context <= training.context:
        raise ConfigError(
            f"sentences of up to training.context = {training.context} tokens and <eos> do not fit into model.context = "
            f"{model.context}; raise the latter, or lower the former"
        )
    if isinstance(model, PrefixConfig) and model.context is not None and model.context < 2 * (training.context + 1):
        raise ConfigError(
            f"two sentences of up to training.context = {training.context} tokens, each with its <eos>, do not fit into "
            f"model.context = {model.context}; raise the latter to {2 * (training.context + 1)}, or lower the former"
        )


def _check_running_text(recipe: Recipe) -> None:
    """What objectives need that read windows and hide some of each."""
    model, training, objective = recipe.model, recipe.training, recipe.objective
    if not isinstance(objective, MaskedConfig | SpanCorruptionConfig):
        return
    if training.carry:
        raise ConfigError(f'training.carry is true, but "{objective.kind}" carries nothing from window to window; leave it out')
    if isinstance(objective, SpanCorruptionConfig) and training.context < 2:
        raise ConfigError(f"training.context is {training.context}; expected 2 or more: a token to cut out, and one to stay")
    if not isinstance(objective, MaskedConfig):
        return
    if isinstance(model, AverageConfig):
        raise ConfigError(
            'model.kind = "average" reads each token by itself, so nothing would tell it what is masked; choose "transformer", '
            '"lstm", "gru" or "rnn"'
        )
    if isinstance(model, TransformerEncoderConfig) and model.context is not None and model.context < training.context:
        raise ConfigError(
            f"training.context = {training.context} is longer than model.context = {model.context}; raise the latter"
        )
    if objective.whole_words and training.accumulate > 1:
        raise ConfigError(
            f"training.accumulate is {training.accumulate}; with objective.whole_words the pieces of a batch have more and fewer "
            "masked tokens, and their mean is not that of the batch: leave one of them out"
        )


def _check_rouge(recipe: Recipe) -> None:
    if getattr(recipe.objective, "rouge", True):  # of no other objective is it asked
        return
    promised = "" if recipe.expected is None else recipe.expected.metric
    for setting, value in (("training.select", recipe.training.select), ("expected.metric", promised)):
        if value.startswith("rouge"):
            raise ConfigError(f'{setting} is "{value}", which is measured of summaries; set objective.rouge = true')


def _check_answers(recipe: Recipe) -> None:
    model, training = recipe.model, recipe.training
    if recipe.objective.kind != "answer":
        return
    if isinstance(model, AverageConfig):
        raise ConfigError(
            'model.kind = "average" reads each token by itself, whatever is asked; choose "transformer", "lstm", "gru" or "rnn"'
        )
    if isinstance(model, TransformerEncoderConfig) and model.context is not None and model.context < training.context:
        raise ConfigError(
            f"training.context = {training.context} is longer than model.context = {model.context}; raise the latter"
        )
    if training.carry or training.compile:
        raise ConfigError("training.carry and training.compile are for windows of running text; leave them out for questions")


def _check_prompts(recipe: Recipe) -> None:
    model, training, reads = recipe.model, recipe.training, ABOUT[recipe.objective.kind].reads
    if reads not in _OF_PROMPTS:
        return
    for key in ("valid", "valid_path", "test_path"):
        if getattr(recipe.data, key) != getattr(DataConfig(text=""), key):
            raise ConfigError(
                f"data.{key} is {getattr(recipe.data, key)!r}, and {reads} are drawn, those to test too; leave it out"
            )
    if recipe.tokenizer != TokenizerConfig():
        raise ConfigError(f"[tokenizer] has settings, and {reads} are read character by character or as numbers; leave it out")
    if training.carry:
        raise ConfigError("training.carry is true, but each prompt has a task of its own; leave it out")
    if (tokens := prompt_tokens(recipe.data)) > training.context:
        raise ConfigError(
            f"training.context is {training.context}, and a prompt has {tokens} tokens (data.examples = {recipe.data.examples}); "
            f"expected {tokens} or more"
        )
    if isinstance(model, TransformerConfig) and model.context is not None and model.context < training.context:
        raise ConfigError(
            f"training.context = {training.context} is longer than model.context = {model.context}; raise the latter"
        )
    if reads == "points of functions":
        for key in ("vectors", "dropout_word"):
            if getattr(model, key, None):
                raise ConfigError(f"model.{key} is of words, and numbers are read; leave it out")


def _either(options: Iterable[str]) -> str:
    *most, last = (f'"{option}"' for option in options)
    return f"{', '.join(most)} or {last}" if most else last
