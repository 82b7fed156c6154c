"""training.init: a run starts from the weights and the vocabulary of another, or of a public model in a Hugging Face
folder or a GGUF file, whose quantised weights are dequantised.

"recipe:NAME" stands for the run of another recipe. It is trained when it is first needed and kept in the cache folder, under a
name that contains a hash of its settings; until it is complete, its folder ends in ".unfinished", and training resumes there.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from firth import interop
from firth.api.importing import recipe_of
from firth.api.recipe import FROM_RECIPE, Recipe, find_recipe, read_run_recipe
from firth.api.tokenizers import read_tokenizers
from firth.config import to_table
from firth.errors import ConfigError, RunError
from firth.files import exists
from firth.models import Network
from firth.models.pretrained import Initialised, check_meaning, initialise
from firth.tasks.task import Tokenizers
from firth.text.cache import cache_folder
from firth.text.config import TokenizerConfig
from firth.training import checkpoint
from firth.training.distributed import all_arrived, all_told, ranks
from firth.training.folder import RunFolder


def with_kept_run(recipe: Recipe) -> tuple[Recipe, Recipe | None]:
    """The recipe with the folder of the kept run in training.init, and the recipe to train into it unless it is there."""
    init = recipe.training.init
    if init is None or not init.startswith(FROM_RECIPE):
        return recipe, None
    first = find_recipe(init.removeprefix(FROM_RECIPE)).resolved()
    settings = dataclasses.replace(first, summary="", expected=None).toml()
    name = f"{Path(init.removeprefix(FROM_RECIPE)).stem}-{hashlib.sha256(settings.encode()).hexdigest()[:16]}"
    folder = cache_folder() / "runs" / name
    changed = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, init=str(folder)))
    return changed, None if RunFolder(folder).exists() else first


def train_kept_run(first: Recipe, folder: Path, train: Callable[[Recipe, Path, bool], object]) -> None:
    """Train `first` into `folder`, which appears only once the run is complete."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    train(first, unfinished, all_told(RunFolder(unfinished).exists))
    if ranks().first:
        unfinished.rename(folder)
    all_arrived()


@dataclass(frozen=True)
class StartingRun:
    """The recipe and weights that a run starts from."""

    recipe: Recipe
    tokenizers: Tokenizers
    weights: Callable[[Callable[[str], None]], Mapping[str, Tensor]]  # takes notices about damaged files


def with_vocabulary(recipe: Recipe) -> tuple[Recipe, Tokenizers]:
    """The recipe with the [tokenizer] of the run it starts from, and that run's tokenizers."""
    origin = _opened(recipe)
    there, (source, tokenizer) = origin.recipe, origin.tokenizers
    if not _left_open(recipe.tokenizer, there.tokenizer):
        raise ConfigError(
            f'training.init = "{recipe.training.init}" has another vocabulary: '
            f"{_difference(there.tokenizer, recipe.tokenizer)}. Remove [tokenizer], or training.init."
        )
    two_sides = recipe.task.two_sides
    if source is not tokenizer and (not two_sides or recipe.tokenizer.joint):
        raise ConfigError(
            f'training.init = "{recipe.training.init}" has a vocabulary per side of its sentence pairs, but this run needs one. '
            "Start from a run with tokenizer.joint = true."
        )
    check_meaning(there.model, recipe.model, str(recipe.training.init))  # an error now, not after the data have been read
    start = there.tokenizer.start if "tokenizer.start" in recipe.task.uses else None  # other tasks do not put it before a text
    own = dataclasses.replace(_plain(there.tokenizer), joint=two_sides and source is tokenizer, start=start)
    return dataclasses.replace(recipe, tokenizer=own), (source, tokenizer)


def with_tokenizer_of_run(recipe: Recipe, old: Recipe) -> Recipe:
    """A recipe that resumes a run, with the [tokenizer] that the run took from training.init when it was started, and its
    tokenizer.start."""
    if recipe.tokenizer.start is None:
        recipe = dataclasses.replace(recipe, tokenizer=dataclasses.replace(recipe.tokenizer, start=old.tokenizer.start))
    if recipe.training.init is None or not _left_open(recipe.tokenizer, old.tokenizer):
        return recipe
    return dataclasses.replace(recipe, tokenizer=old.tokenizer)


def initialise_from_run(network: Network, recipe: Recipe, vocab: int) -> tuple[Initialised, str]:
    """Copy the weights of the run that training.init names into `network`. Which were copied, also as a message."""
    origin = _opened(recipe)
    there, notices = origin.recipe, list[str]()
    weights = origin.weights(notices.append)
    labels = [getattr(one.data, "labels", None) for one in (there, recipe)]
    same = there.objective.kind == recipe.objective.kind and labels[0] == labels[1]
    initialised = initialise(network, weights, vocab, whole=same)
    if not initialised.taken:
        raise ConfigError(f'training.init = "{recipe.training.init}" has no weights in common with this model. Remove it.')
    return initialised, "\n".join([*notices, initialised.told(str(recipe.training.init))])


def can_start_from(init: str) -> bool:
    """True if the path is a run or a public model."""
    path = Path(init)
    return RunFolder(path).exists() or (path.exists() and interop.is_model(path))


def _opened(recipe: Recipe) -> StartingRun:
    path = Path(str(recipe.training.init))
    if not exists(path):
        raise RunError(
            f'training.init = "{path}" does not exist; expected a run, or the folder of a public model or its GGUF file'
        )
    if interop.is_model(path) and not RunFolder(path).exists():
        return _foreign(path)
    try:
        folder = RunFolder.open(path)
    except RunError as error:
        raise RunError(f"training.init: {error.marked}") from error
    there = read_run_recipe(folder.recipe)
    return StartingRun(there, read_tokenizers(folder, there), lambda notice: checkpoint.load_weights(folder, notice))


def _foreign(path: Path) -> StartingRun:
    foreign = interop.open_model(path)
    recipe, vocab = recipe_of(foreign), foreign.tokenizer.vocab

    def weights(notice: Callable[[str], None]) -> Mapping[str, Tensor]:
        with torch.device("meta"):
            network = recipe.task.network(vocab, vocab)
        return foreign.weights({name: tensor.shape for name, tensor in network.state_dict().items()})

    return StartingRun(recipe, (foreign.source_tokenizer or foreign.tokenizer, foreign.tokenizer), weights)


def _left_open(given: TokenizerConfig, own: TokenizerConfig) -> bool:
    """True if a [tokenizer] is left out, or the same as the run's own."""
    if given.start not in (None, own.start):
        return False
    here, there = (dataclasses.replace(_plain(one), start=None) for one in (given, own))
    return here in (TokenizerConfig(), there)


def _plain(tokenizer: TokenizerConfig) -> TokenizerConfig:
    """Without the settings that concern the data a vocabulary is learned from."""
    return dataclasses.replace(tokenizer, joint=False, vectors=False)


def _difference(there: TokenizerConfig, here: TokenizerConfig) -> str:
    old, new = to_table(_plain(there)), to_table(_plain(here))
    key = next(key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
    return f"tokenizer.{key} is {old.get(key)!r} there and {new.get(key)!r} here"
