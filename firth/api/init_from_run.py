"""training.init: a run begins with the weights and the vocabulary of another."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from firth.api.recipe import Recipe, read_recipe
from firth.api.tokenizers import read_tokenizers
from firth.config import to_table
from firth.errors import ConfigError, RunError
from firth.models import Network
from firth.models.pretrained import begin, check_meaning
from firth.text import TokenizerConfig
from firth.text.data.parallel import Tokenizers
from firth.training import checkpoint
from firth.training.folder import RunFolder


def with_vocabulary(recipe: Recipe) -> tuple[Recipe, Tokenizers]:
    """The recipe with the [tokenizer] of the run it begins with, and that run's vocabulary."""
    folder, there = _opened(recipe)
    source, tokenizer = read_tokenizers(folder, there)
    if not _left_open(recipe.tokenizer, there.tokenizer):
        raise ConfigError(
            f'training.init = "{recipe.training.init}" has a vocabulary, and this run would have another: '
            f"{_difference(there.tokenizer, recipe.tokenizer)}; leave [tokenizer] out, or training.init"
        )
    translates = recipe.objective.kind == "translation"
    if source is not tokenizer and (not translates or recipe.tokenizer.joint):
        raise ConfigError(
            f'training.init = "{recipe.training.init}" has a vocabulary for each side of its sentence pairs, and this run needs '
            "one; begin with a run that has tokenizer.joint = true"
        )
    check_meaning(there.model, recipe.model, str(recipe.training.init))  # said now, not after the text has been read
    own = dataclasses.replace(_plain(there.tokenizer), joint=translates and source is tokenizer)
    return dataclasses.replace(recipe, tokenizer=own), (source, tokenizer)


def as_begun(recipe: Recipe, old: Recipe) -> Recipe:
    """A recipe that is given again to resume a run, with the [tokenizer] that the run found when it began."""
    if recipe.training.init is None or not _left_open(recipe.tokenizer, old.tokenizer):
        return recipe
    return dataclasses.replace(recipe, tokenizer=old.tokenizer)


def begin_as(network: Network, recipe: Recipe, vocab: int) -> str:
    """Give `network` the weights of the run that the recipe names, and say which."""
    folder, there = _opened(recipe)
    said: list[str] = []
    weights = checkpoint.load_weights(folder, said.append)
    same = (there.objective.kind, there.data.labels) == (recipe.objective.kind, recipe.data.labels)
    begun = begin(network, weights, vocab, whole=same)
    if not begun.taken:
        raise ConfigError(f'training.init = "{recipe.training.init}" has no weights that this model has; leave it out')
    return "\n".join([*said, begun.told(str(recipe.training.init))])


def _opened(recipe: Recipe) -> tuple[RunFolder, Recipe]:
    try:
        folder = RunFolder.open(Path(str(recipe.training.init)))
    except RunError as error:
        raise RunError(f"training.init: {error}") from error
    return folder, read_recipe(folder.recipe)


def _left_open(given: TokenizerConfig, own: TokenizerConfig) -> bool:
    """Whether a [tokenizer] asks for nothing else than there is: it is left out, or the same."""
    return _plain(given) in (TokenizerConfig(), _plain(own))


def _plain(tokenizer: TokenizerConfig) -> TokenizerConfig:
    """Without what is said of the data that a vocabulary is learned from."""
    return dataclasses.replace(tokenizer, joint=False, vectors=False)


def _difference(there: TokenizerConfig, here: TokenizerConfig) -> str:
    old, new = to_table(_plain(there)), to_table(_plain(here))
    key = next(key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
    return f"tokenizer.{key} is {old.get(key)!r} there and {new.get(key)!r} here"
