"""A preset, a recipe or a run, counted without allocating it (S26)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from firth.api.model import network_of
from firth.api.recipe import Recipe, read_recipe
from firth.api.tasks import data_for, task_for
from firth.api.tokenizers import read_tokenizers
from firth.errors import ConfigError, did_you_mean
from firth.experiments.shipped import FOLDER, find_recipe
from firth.models import Network, network
from firth.models.counting import Count, count
from firth.models.presets import PRESETS, Preset, preset
from firth.progress import Progress, silent
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class Description:
    name: str
    summary: str
    parameters: int  # all that are learned; of a preset that is counted as lectures do, those in matrices
    left_out: int  # those that such a preset has besides
    context: int | None  # tokens that it reads at once, by which FLOPs and memory are counted; None: as many as one likes
    tokens: int  # of a batch in training
    differs: str  # from what is published under this name
    of: Count

    @property
    def flops_per_token(self) -> int:
        """To read the last token of a full context."""
        return self.of.flops(self.context or 0)

    @property
    def training_flops_per_token(self) -> int:
        return 3 * self.flops_per_token

    @property
    def training_bytes(self) -> int:
        return self.of.training_bytes(self.tokens)

    @property
    def inference_bytes(self) -> int:
        return self.of.inference_bytes(self.context or 0)


def describe(name: str, assignments: Sequence[str] = (), progress: Progress = silent) -> Description:
    """What `name` is: a preset, the recipe of that name or file, or a run folder; the first of them that there is.

    A recipe's text is read, because its vocabulary is learned from it."""
    if name in PRESETS:
        if assignments:
            raise ConfigError(f'"{name}" is a preset, which has no settings to change; given {assignments[0]}; leave it out')
        return _of_preset(name, preset(name))
    path = Path(name)
    if RunFolder(path).exists():
        return _of_run(name, RunFolder.open(path))
    if not path.suffix and len(path.parts) == 1 and not (FOLDER / f"{name}.toml").is_file() and not path.exists():
        known = [*PRESETS, *(recipe.stem for recipe in FOLDER.glob("*.toml"))]
        raise ConfigError(f'"{name}" is neither a preset nor a recipe nor a run.{did_you_mean(name, known)}')
    recipe = find_recipe(name, assignments).resolved()
    data = data_for(recipe, recipe.tokenizer, progress)
    with torch.device("meta"):
        model = task_for(recipe, data).network()
    return _of_recipe(name, recipe, model)


def _of_preset(name: str, chosen: Preset) -> Description:
    with torch.device("meta"):
        model = network(chosen.config, chosen.vocab, chosen.objective, classes=2, source_vocab=chosen.vocab)
    found = count(model)
    counted = found.weights if chosen.matrices_only else found.parameters
    context = getattr(chosen.config, "context", None)
    left_out = found.parameters - counted
    return Description(name, chosen.summary, counted, left_out, context, context or 1, chosen.differs, found)


def _of_run(name: str, folder: RunFolder) -> Description:
    recipe = read_recipe(folder.recipe)
    with torch.device("meta"):
        model = network_of(recipe, *read_tokenizers(folder, recipe))
    return _of_recipe(name, recipe, model)


def _of_recipe(name: str, recipe: Recipe, model: Network) -> Description:
    training = recipe.training
    pairs = recipe.objective.kind == "translation"
    tokens = training.batch_tokens if pairs else training.batch * training.context
    context = None if getattr(model, "carries", False) or recipe.model.kind != "transformer" else training.context
    found = count(model)
    return Description(name, recipe.summary, found.parameters, 0, context, tokens, "", found)
