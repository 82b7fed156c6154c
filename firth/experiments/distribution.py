"""Memory and traffic of each process in a training step, counted before the training starts (training.parallel).

N weights, W processes, b blocks of n weights each, r = N − b n weights outside the blocks, in float32 with AdamW:

             weights   gradients   optimiser   gathered        sent and received in a step
    ddp      4 N       4 N         8 N         -               2 (W − 1)/W · g N
    fsdp     4 N/W     4 N/W       8 N/W       8 r + 16 n      (W − 1)/W · (4 a (N + b n) + g N)

g is 4 bytes, or 2 with training.reduce = "bf16"; a is training.accumulate, because each piece of a batch gathers the weights, for
the forward pass and, in the blocks, again for the backward pass. Gathered are the weights outside the blocks with their
gradients, and of the blocks the one at work and the next. Activations are those of the tokens of one piece; with
training.recompute the inputs of all blocks, and what is inside one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from firth.layers.block import Block
from firth.models import Network
from firth.models.counting import FLOAT, Count
from firth.training.config import TrainingConfig


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
    """`tokens`: of a batch, which the processes share."""
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
