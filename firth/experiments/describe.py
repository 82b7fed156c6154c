"""Parameters, FLOPs and memory of a preset, a recipe or a run, without allocating it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from firth.api.init_from_run import can_start_from, initialise_from_run, with_kept_run, with_vocabulary
from firth.api.loading import network_of
from firth.api.recipe import Recipe, compose
from firth.api.training import source_tokenizer, with_facts
from firth.config import to_table
from firth.errors import ConfigError
from firth.experiments.named import planned, trained
from firth.figures.counting import in_bytes, parameters, short
from firth.figures.figure import Figure, Table
from firth.layers.block import Block
from firth.models import Network
from firth.models.adapters import adapt, freeze, trained_parameters
from firth.models.counting import FLOAT, Count, count
from firth.models.presets import Preset
from firth.models.uninitialised import Uninitialised
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.tasks import TASKS
from firth.tasks.ability import Ability
from firth.tasks.run import Run, has_template
from firth.tasks.task import Tables, Tokenizers
from firth.text.config import TokenizerConfig
from firth.training import history
from firth.training.checkpoint import load_base
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class Blocks:
    """The units that FSDP gathers one by one, and that training.recompute computes twice."""

    count: int = 0
    layers: int = 0  # more than blocks where layers share their weights
    weights: int = 0  # of all blocks
    width: int = 0

    @staticmethod
    def of(network: Network) -> Blocks:
        modules = [module for module in network.modules() if isinstance(module, Block)]
        sizes = [sum(weight.numel() for weight in block.parameters()) for block in modules]
        width = getattr(getattr(network, "config", None), "width", 0)
        return Blocks(len(modules), sum(block.config.layers for block in modules), sum(sizes), width)


@dataclass(frozen=True)
class PerProcess:
    world: int
    parallel: str
    weights: int  # bytes, as all that follow
    gradients: int
    optimizer: int
    gathered: int
    activations: int
    sent: int  # in a step; as much is received
    tokens: int  # of a step, in this process
    step_tokens: int  # in all

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.gathered + self.activations


def per_process(count: Count, blocks: Blocks, config: TrainingConfig, tokens: int, world: int) -> PerProcess:
    """Memory and traffic of each of `world` processes in a training step (training.parallel). `tokens`: of a batch, which they
    share.

    N weights, W processes, b blocks of n weights each, r = N − b n weights outside the blocks, in float32 with AdamW:

                 weights   gradients   optimiser   gathered        sent and received in a step
        ddp      4 N       4 N         8 N         -               2 (W − 1)/W · g N
        fsdp     4 N/W     4 N/W       8 N/W       8 r + 16 n      (W − 1)/W · (4 a (N + b n) + g N)

    g is 4 bytes, or 2 with training.reduce = "bf16"; a is training.accumulate, because each piece of a batch gathers the weights,
    for the forward pass and, in the blocks, again for the backward pass. Gathered are the weights outside the blocks with their
    gradients, and of the blocks the one at work and the next. Activations are those of the tokens of one piece; with
    training.recompute the inputs of all blocks, and what is inside one of them."""
    number, own = count.parameters, -(-tokens // world)
    kept = own // config.accumulate * _activations(count, blocks, config.recompute)
    wire = 2 if config.reduce == "bf16" else FLOAT
    if config.parallel != "fsdp":
        sent = 2 * (world - 1) * wire * number // world
        return PerProcess(world, "ddp", FLOAT * number, FLOAT * number, 2 * FLOAT * number, 0, kept, sent, own, tokens)
    part = -(-FLOAT * number // world)
    outside, one = number - blocks.weights, blocks.weights // max(1, blocks.count)
    sent = (world - 1) * (FLOAT * config.accumulate * (number + blocks.weights) + wire * number) // world
    return PerProcess(world, "fsdp", part, part, 2 * part, 2 * FLOAT * (outside + 2 * one), kept, sent, own, tokens)


def _activations(count: Count, blocks: Blocks, recompute: bool) -> int:
    """Bytes per token that are kept for the backward pass."""
    if not (recompute and blocks.layers):
        return count.activations_per_token
    return FLOAT * blocks.width * blocks.layers + count.activations_per_token // blocks.layers


@dataclass(frozen=True, repr=False)
class Description:
    """The counts of a model. `.text()` prints them, `.facts()` is plain data, `.figure()` draws where the parameters are."""

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
    abilities: tuple[Ability, ...] = ()  # of a recipe or a run: what it can do

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        parts = [
            {"name": part.name, "shape": part.shape, "count": part.count, "weights": part.weights, "matrix": part.is_matrix}
            for part in self.of.parts
        ]
        names = ("name", "summary", "parameters", "trained", "left_out", "context", "flops_per_token", "training_flops_per_token")
        memory = ("training_bytes", "inference_bytes")
        facts = {key: getattr(self, key) for key in names + memory}
        counts = ("weights", "matrices", "state_per_token", "state", "activations_per_token")
        own = {key: getattr(self.of, key) for key in counts}
        return {
            **facts,
            **own,
            "differs": self.differs or None,
            "parts": parts,
            "history": list(self.history),
            "abilities": [one.name for one in self.abilities],
        }

    def text(self) -> str:
        """The parts of the model and their totals, as `firth describe` prints them."""
        head = [f"{self.name}: {self.summary}" if self.summary else self.name]
        head += [f"({self.differs})"] if self.differs else []
        margin = max(len(part.name) for part in self.of.parts) + 2
        parts = []
        for part in self.of.parts:
            shape = " × ".join(f"{size:,}" for size in part.shape)
            parts.append(f"  {part.name:<{margin}}{part.count:>8,} of {shape:<20}{part.weights:>20,}")
        totals = [f"{name:<20}{value}" for name, value in self.totals()]
        for number, line in enumerate(self.history):
            totals.append(f"{'resumed' if number else 'made by':<20}{history.summary(line)}")
        return "\n".join([*head, "", *parts, "", *totals])

    def totals(self) -> list[tuple[str, str]]:
        """The names and values of the counts over all parts."""
        of, of_batch = self.of, f"a batch of {self.tokens:,} tokens"
        note = f", without {self.left_out:,} in norms and biases" if self.left_out else ""
        lines = [("parameters", f"{self.parameters:,}{note}")]
        if self.trained is not None:
            lines.append(("trained", f"{self.trained:,}: LoRA adapters and new layers; the parameters above are frozen"))
        lines.append(("matrices", f"{of.matrices:,}, with {of.weights:,} weights"))
        keys = f", attending to {self.context:,} tokens" if self.context and of.flops_per_key else ""
        forward, training = short(self.flops_per_token), short(self.training_flops_per_token)
        lines.append(("FLOPs per token", f"{forward} forward{keys}; {training} training"))
        activations = in_bytes(self.tokens * of.activations_per_token)
        memory = f"about {in_bytes(self.training_bytes)}: float32, AdamW, {of_batch} ({activations} of it activations)"
        lines.append(("memory, training", memory))
        kept = f"; {in_bytes(of.state_per_token)} more per token of context" if of.state_per_token else ""
        kept += f"; {in_bytes(of.state)} of state" if of.state else ""
        lines.append(("memory, inference", f"{in_bytes(self.inference_bytes)}: float32, one text{kept}"))
        return [*lines, ("can", ", ".join(one.title() for one in self.abilities))] if self.abilities else lines

    def figure(self) -> Figure:
        """The weights of each part as bars."""
        return parameters(self.of.parts)

    def __repr__(self) -> str:
        return f"<Description: {self.name}, {self.parameters:,} parameters; .text() prints it>"

    def _repr_html_(self) -> str:
        return Table((self.name, ""), self.totals()).html()

    def distributed(self, world: int) -> PerProcess:
        """The memory and the traffic of each of `world` processes that train together."""
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


@shows_progress
def describe(
    of: str | Path | Recipe | Run[Any], assignments: Sequence[str] = (), progress: Progress | bool = True
) -> Description:
    """Count the parameters, FLOPs and memory of a model; no weights are allocated.

    `of` is a preset such as "gpt3", a recipe (its name, its file or a Recipe), or a run (loaded, or its folder); of a name, the
    first of these that exists. `assignments` change settings of a preset or recipe: ["model.depth=2"]. The data of a recipe are
    read, because its vocabulary is learned from them."""
    progress = followed(progress)
    if isinstance(of, Run) and of.path is None:  # a public model
        with torch.device("meta"), Uninitialised():
            network = of.recipe.task.network(of.source_tokenizer.vocab, of.tokenizer.vocab)
        return _of_recipe(of.recipe.summary, of.recipe, network, of.abilities)
    if isinstance(of, Recipe):
        return describe_recipe("recipe", compose(to_table(of), assignments) if assignments else of, progress)
    name = str(of.path if isinstance(of, Run) else of)
    if (path := trained(name, assignments)) is not None:
        return _of_recipe(name, *network_of(path), RunFolder.open(path) if RunFolder(path).exists() else None)
    found = planned(name, assignments)
    return _of_preset(name, found) if isinstance(found, Preset) else describe_recipe(name, found, progress)


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
    return _of_recipe(name, recipe, network, recipe.task.abilities(has_template(data.tokenizer)))


def _of_preset(name: str, chosen: Preset) -> Description:
    with torch.device("meta"), Uninitialised():
        network = preset_network(chosen)
    counts = count(network)
    counted = counts.weights if chosen.matrices_only else counts.parameters
    context = getattr(chosen.config, "context", None)
    left_out = counts.parameters - counted
    blocks = Blocks.of(network)
    return Description(name, chosen.summary, counted, left_out, context, context or 1, chosen.differs, counts, blocks=blocks)


def preset_network(chosen: Preset) -> Network:
    """The module of a preset, its weights not yet drawn."""
    task = TASKS[chosen.objective]
    tables = Tables(data=task.Data(text=""), model=chosen.config, objective=task.Objective(kind=task.name, **chosen.settings))
    return task(tables).network(chosen.vocab, chosen.vocab)


def _of_recipe(
    name: str, recipe: Recipe, network: Network, can: tuple[Ability, ...], folder: RunFolder | None = None
) -> Description:
    training = recipe.training
    tokens = training.batch_tokens if "training.batch_tokens" in recipe.task.uses else training.batch * training.context
    context = None if network.carries or recipe.model.kind != "transformer" else training.context
    counts, blocks = count(network), Blocks.of(network)
    trained = _trained(recipe, network, folder) if training.lora else None
    told = () if folder is None else tuple(history.read(folder))
    return Description(
        name, recipe.summary, counts.parameters, 0, context, tokens, "", counts, trained, blocks, training, told, can
    )


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
