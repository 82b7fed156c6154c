"""fit(): the training loop, as a generator of step records. Logging, checkpoints, evaluation and progress consume them.

Between two steps the `Training` object is consistent: a consumer may save it, evaluate its model, or stop.
Letters: B batch, T time.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.matmul_precision import tensor_cores
from firth.layers.state import RecurrentState
from firth.models import Network
from firth.training.average import Average
from firth.training.config import Device, TrainingConfig
from firth.training.distributed import all_reduced, ranks
from firth.training.feed import Batches, Counts, DeviceBatch, Feed, rows_alike
from firth.training.guard import UpdateGuard
from firth.training.optim import OPTIMIZERS, optimizer_for
from firth.training.parallel import Loss, ModelWithLoss, ReplicaStep, gathered, mode_of, recompute_blocks, shard, worker
from firth.training.randomness import Randomness
from firth.training.schedule import rate_at

__all__ = ["Loss", "Step", "Training", "device_for", "fit", "precision", "start"]


@dataclass(frozen=True)
class Step:
    """The record of one update."""

    step: int  # updates finished, this one included
    rate: float
    tokens: int
    seconds: float
    loss_on_device: Tensor
    norm_on_device: Tensor

    @cached_property
    def loss(self) -> float:
        """Nats per token, before the update. Reading it waits for a GPU to finish the step."""
        return float(self.loss_on_device)

    @cached_property
    def gradient_norm(self) -> float:
        """Before clipping."""
        return float(self.norm_on_device)


@dataclass
class Training:
    """Everything that changes during training; a checkpoint holds exactly this."""

    model: Network
    optimizer: torch.optim.Optimizer
    batches: Feed
    random: Randomness
    guard: UpdateGuard
    device: torch.device
    average: Average | None = None
    step: int = 0
    carried: RecurrentState | None = None
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # lowest trainer.selection_loss so far
    best_step: int = 0
    since_best: int = 0  # evaluations since then
    recent: list[Tensor] = field(default_factory=list)  # losses since the last line of the log
    # with FSDP: the model in the module that gathers its weights while they are needed, and a whole one to evaluate
    sharded: ModelWithLoss | None = None
    replica: Network | None = None

    def check_all(self) -> None:
        """Wait until every step is done and known to be good; the wait counts as training time."""
        began = time.perf_counter()
        self.guard.check_all()
        self.seconds += time.perf_counter() - began

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[Network]:
        """A network with the weights to evaluate and save: the averaged ones if there is an average."""
        if self.replica is not None:
            yield self._filled(self.replica)
            self.replica.to("cpu")
        elif self.average is None:
            yield self.model
        else:
            with self.average.applied_to(self.model):
                yield self.model

    @torch.no_grad()
    def _filled(self, replica: Network) -> Network:
        """The replica with all weights, whose parts the processes hold."""
        averaged = {} if self.average is None else self.average.weights
        targets = dict(replica.to(self.device).named_parameters())
        for name, weight in self.model.named_parameters():
            targets[name].copy_(gathered(averaged.get(name, weight).detach()))
        return replica


def start(model: Network, batches: Batches, config: TrainingConfig, counts: Counts = rows_alike) -> Training:
    """A Training at step 0, with the model moved to its device. `counts`: what each row of a batch counts in the mean loss."""
    if config.carry and not model.carries:
        raise ConfigError("training.carry is true, but a Transformer has no recurrent state to carry; remove it")
    if config.carry and config.batch < ranks().world:
        raise ConfigError(
            f"training.batch is {config.batch}, and with training.carry each of the {ranks().world} processes needs a row of its "
            "own. Raise training.batch."
        )
    device = device_for(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    fsdp = mode_of(config) == "fsdp"
    if fsdp and config.lora:
        raise ConfigError('training.parallel = "fsdp" cannot be combined with training.lora. Use "ddp".')
    replica = copy.deepcopy(model).requires_grad_(False) if fsdp else None
    if config.recompute:
        recompute_blocks(model)
    sharded = shard(model, config, device) if fsdp else None
    model = model.to(device)
    optimizer, random = optimizer_for(model, config), Randomness(config.seed, device)
    average = OPTIMIZERS[config.optimizer].average(model, optimizer, config)
    guard = UpdateGuard(device, waits=fsdp)
    feed = Feed(batches, device, counts)
    return Training(model, optimizer, feed, random, guard, device, average, sharded=sharded, replica=replica)


def fit(training: Training, loss: Loss, config: TrainingConfig) -> Iterator[Step]:
    """Update the model until `config.steps` updates are done; yield after each."""
    compute = worker(training.model, training.sharded, loss, config)
    training.model.train()
    while training.step < config.steps:
        yield _update(training, compute, config)
        if not training.model.training:  # a consumer evaluated the model
            training.model.train()
    training.check_all()


def _update(training: Training, compute: ReplicaStep, config: TrainingConfig) -> Step:
    began = time.perf_counter()
    batch = training.batches.next()
    rate = rate_at(config, training.step) * batch.rate_factor
    for group in training.optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)
    if ranks().world > 1:
        training.random.reseed(config.seed, training.step, ranks().rank)
    with training.random.scope(), tensor_cores(config.dtype == "tf32"):  # also around the backward pass
        mean = all_reduced(_backward(training, batch, compute, config))
    norm = training.guard.update(training.optimizer, mean, config.clip, training.step + 1)
    training.optimizer.zero_grad(set_to_none=True)
    if training.average is not None:
        training.average.update(training.step + 1)
    training.batches.prefetch()
    training.guard.check_previous()
    training.step += 1
    training.tokens += batch.tokens
    seconds = time.perf_counter() - began
    training.seconds += seconds
    return Step(training.step, rate, batch.tokens, seconds, mean, norm)


def _backward(training: Training, batch: DeviceBatch, compute: ReplicaStep, config: TrainingConfig) -> Tensor:
    """This process's part of the mean loss of the batch, in `accumulate` pieces; the gradients are left in the parameters."""
    carried = None if batch.fresh else training.carried
    states: list[RecurrentState] = []
    total = torch.zeros((), device=training.device)
    pieces, world = list(batch.pieces(config.accumulate)), ranks().world
    for piece in pieces:
        before = carried.select(piece.rows) if config.carry and carried is not None else None
        with compute.synchronised(piece is pieces[-1]):
            with precision(training.device, config.dtype):
                loss, state = compute(batch.slice_rows(piece.rows), before)
            part = piece.part(loss)
            (part * world if world > 1 else part).backward()  # type: ignore[no-untyped-call]
        total += part.detach()
        if config.carry:
            states.append(state.detach())
    training.carried = RecurrentState.join(states) if config.carry else None
    return total


def precision(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """Matrix products in bfloat16 (bf16) or, where the hardware has it, TF32 (tf32). Weights and updates stay float32."""
    if dtype == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return tensor_cores(dtype == "tf32")


def device_for(name: Device) -> torch.device:
    """The device to train on; several processes on one machine use one GPU each."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(name):
        raise ConfigError(f'device is "{name}", but torch finds no such device. Choose cpu.')
    return torch.device(name, ranks().local) if name == "cuda" and ranks().world > 1 else torch.device(name)


def keep_freed_memory() -> None:
    """Make glibc, where it is the C library, keep the large blocks of memory that every step frees and allocates again, for the
    rest of this process. By default it returns them to the system, and the next step pays for them with thousands of page
    faults: see benchmarks/cpu_operations.py."""
    trim_threshold, mmap_threshold = -1, -3  # <malloc.h>
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(mmap_threshold, 1 << 30)
        mallopt(trim_threshold, 2**31 - 1)
