"""Parameters, FLOPs and memory of a preset, a recipe or a run, without allocating it (S26)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from firth.api.init_from_run import can_start_from, initialise_from_run, with_kept_run, with_vocabulary
from firth.api.loading import network_of
from firth.api.recipe import Recipe, find_recipe
from firth.api.training import source_tokenizer, with_facts
from firth.errors import ConfigError, did_you_mean
from firth.experiments.distribution import Blocks, PerProcess, per_process
from firth.files import exists, is_file
from firth.interop import is_model
from firth.models import Network
from firth.models.adapters import adapt, freeze, trained_parameters
from firth.models.counting import Count, count
from firth.models.presets import PRESETS, Preset, preset, varied
from firth.models.uninitialised import Uninitialised
from firth.progress import Progress, silent
from firth.shipped import FOLDER
from firth.tasks import task_class
from firth.tasks.task import Tables, Tokenizers
from firth.text import TokenizerConfig
from firth.training import history
from firth.training.checkpoint import load_base
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class Description:
    name: str
    summary: str
    parameters: int  # all that are learned; for a preset counted as lectures do, those in matrices
    left_out: int  # the other parameters of such a preset
    context: int | None  # tokens read at once, on which FLOPs and memory depend; None: no limit
    tokens: int  # per training batch
    differs: str  # from the model published under this name
    of: Count
    trained: int | None = None  # parameters of LoRA adapters and of new layers, where the others are frozen
    blocks: Blocks = field(default_factory=Blocks)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    history: tuple[dict[str, Any], ...] = ()  # of a run: versions and commands, see training/history.py

    def distributed(self, world: int) -> PerProcess:
        """What each of `world` processes holds and sends while it trains."""
        if world < 1:
            raise ConfigError(f"world is {world}; expected 1 or more processes")
        return per_process(self.of, self.blocks, self.training, self.tokens, world)

    @property
    def flops_per_token(self) -> int:
        """For the last token of a full context."""
        return self.of.flops(self.context or 0)

    @property
    def training_flops_per_token(self) -> int:
        return 3 * self.flops_per_token

    @property
    def training_bytes(self) -> int:
        return self.of.training_bytes(self.tokens, self.trained)

    @property
    def inference_bytes(self) -> int:
        return self.of.inference_bytes(self.context or 0)


def describe(name: str, assignments: Sequence[str] = (), progress: Progress = silent) -> Description:
    """The preset, the recipe of that name or file, or the run folder; the first that exists.

    `assignments` change settings of a preset or recipe: ["model.depth=2"]. The data of a recipe are read, because its vocabulary
    is learned from them."""
    if name in PRESETS:
        return _of_preset(name, varied(preset(name), assignments, _note) if assignments else preset(name))
    path = Path(name)
    if RunFolder(path).exists():
        if assignments:
            raise ConfigError(f"{name} is a run, whose settings are fixed. Describe {path / 'recipe.toml'} instead.")
        return _of_recipe(name, *network_of(path), RunFolder.open(path))
    if not path.suffix and len(path.parts) == 1 and not is_file(FOLDER / f"{name}.toml") and not exists(path):
        known = [*PRESETS, *(recipe.stem for recipe in FOLDER.glob("*.toml"))]
        raise ConfigError(f'"{name}" is neither a preset nor a recipe nor a run.{did_you_mean(name, known)}')
    if is_model(path):
        return _of_recipe(name, *network_of(path))
    return describe_recipe(name, find_recipe(name, assignments), progress)


def describe_recipe(name: str, given: Recipe, progress: Progress = silent) -> Description:
    """As `describe`, of a recipe that no file has."""
    recipe, first = with_kept_run(given.resolved())
    init = recipe.training.init
    tokenizers: TokenizerConfig | Tokenizers = recipe.tokenizer
    if init is not None and first is None and can_start_from(init):
        recipe, tokenizers = with_vocabulary(recipe)
    data = recipe.task.read(tokenizers, progress)
    recipe = with_facts(recipe, data)
    with torch.device("meta"), Uninitialised():
        network = recipe.task.network(source_tokenizer(data).vocab, data.tokenizer.vocab)
    return _of_recipe(name, recipe, network)


def _note(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _of_preset(name: str, chosen: Preset) -> Description:
    with torch.device("meta"), Uninitialised():
        network = preset_network(chosen)
    found = count(network)
    counted = found.weights if chosen.matrices_only else found.parameters
    context = getattr(chosen.config, "context", None)
    left_out = found.parameters - counted
    blocks = Blocks.of(network)
    return Description(name, chosen.summary, counted, left_out, context, context or 1, chosen.differs, found, blocks=blocks)


def preset_network(chosen: Preset) -> Network:
    """The module of a preset, its weights not yet drawn."""
    task = task_class(chosen.objective)
    tables = Tables(data=task.Data(text=""), model=chosen.config, objective=task.Objective(kind=task.name, **chosen.settings))
    return task(tables).network(chosen.vocab, chosen.vocab)


def _of_recipe(name: str, recipe: Recipe, network: Network, folder: RunFolder | None = None) -> Description:
    training = recipe.training
    tokens = training.batch_tokens if "training.batch_tokens" in recipe.task.uses else training.batch * training.context
    context = None if network.carries or recipe.model.kind != "transformer" else training.context
    found, blocks = count(network), Blocks.of(network)
    trained = _trained(recipe, network, folder) if training.lora else None
    told = () if folder is None else tuple(history.read(folder))
    return Description(name, recipe.summary, found.parameters, 0, context, tokens, "", found, trained, blocks, training, told)


def _trained(recipe: Recipe, network: Network, folder: RunFolder | None) -> int | None:
    """Parameters that are trained beside the frozen ones; None if the run to start from is not there. The network is adapted."""
    if folder is not None:
        names: Sequence[str] = load_base(folder)[1]
    elif can_start_from(str(recipe.training.init)):
        vocab = with_vocabulary(recipe)[1][1].vocab
        initialised, _ = initialise_from_run(network, recipe, vocab)
        names = [*initialised.new, *initialised.partly]
    else:
        return None
    adapt(network, recipe.training.adapters, torch.Generator())
    freeze(network, names)
    return trained_parameters(network)
