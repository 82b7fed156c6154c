"""fit(): a generator of step records. Logging, checkpoints, evaluation and progress are its consumers.

Between two steps the `Training` object is consistent, so a consumer may save it, evaluate its model, or stop.
Letters: B batch, T time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from firth.errors import ConfigError, Diverged
from firth.layers.state import RecurrentState
from firth.models import LanguageModel
from firth.training.allocator import keep_freed_memory
from firth.training.config import Device, TrainingConfig
from firth.training.optim import optimizer_for
from firth.training.randomness import Randomness
from firth.training.schedule import rate_at

Loss = Callable[[LanguageModel, Tensor, Tensor, Any], tuple[Tensor, Any]]


class Batch(Protocol):
    @property
    def input_BT(self) -> np.ndarray[Any, Any]: ...
    @property
    def target_BT(self) -> np.ndarray[Any, Any]: ...
    @property
    def fresh(self) -> bool: ...


class Batches(Protocol):
    position: int

    def next(self) -> Batch: ...
    def seek(self, position: int) -> None: ...


@dataclass(frozen=True)
class Step:
    """What one update did."""

    step: int  # updates finished, this one included
    loss: float  # nats per token, before the update
    rate: float
    gradient_norm: float  # before clipping
    tokens: int
    seconds: float


@dataclass
class Training:
    """Everything that changes while a model is trained; a checkpoint is this and nothing else."""

    model: LanguageModel
    optimizer: torch.optim.Optimizer
    batches: Batches
    random: Randomness
    device: torch.device
    step: int = 0
    carried: RecurrentState | None = None
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # lowest validation loss so far
    best_step: int = 0
    since_best: int = 0  # evaluations since then
    recent: list[float] = field(default_factory=list)  # losses since the last line of the log


def start(model: LanguageModel, batches: Batches, config: TrainingConfig) -> Training:
    """A training at step 0, with the model moved to its device."""
    if config.carry and not model.carries:
        raise ConfigError(
            "training.carry is true, but a Transformer has no state to carry from one window to the next; leave it out"
        )
    device = device_for(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    model = model.to(device)
    return Training(model, optimizer_for(model, config), batches, Randomness(config.seed, device), device)


def fit(training: Training, loss: Loss, config: TrainingConfig) -> Iterator[Step]:
    """Update the model until `config.steps` updates are done, yielding after each."""
    compiled: Loss = torch.compile(loss) if config.compile else loss
    training.model.train()
    while training.step < config.steps:
        yield _update(training, compiled, config)
        training.model.train()  # a consumer may have evaluated


def _update(training: Training, loss: Loss, config: TrainingConfig) -> Step:
    began = time.perf_counter()
    batch = training.batches.next()
    rate = rate_at(config, training.step)
    for group in training.optimizer.param_groups:
        group["lr"] = rate
    with training.random.scope():
        mean = _backward(training, batch, loss, config)
    gradients = [parameter.grad for parameter in training.model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    value, gradient_norm = float(mean), float(norm)
    if not (math.isfinite(value) and math.isfinite(gradient_norm)):
        # Raised before the update, so the weights are still those of the last good step.
        raise Diverged(f"the loss became {value} with gradient norm {gradient_norm} at step {training.step + 1}")
    if config.clip and gradient_norm > config.clip:
        torch.nn.utils.clip_grads_with_norm_(training.model.parameters(), config.clip, norm)
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    training.step += 1
    training.tokens += batch.input_BT.size
    seconds = time.perf_counter() - began
    training.seconds += seconds
    return Step(training.step, value, rate, gradient_norm, batch.input_BT.size, seconds)


def _backward(training: Training, batch: Batch, loss: Loss, config: TrainingConfig) -> Tensor:
    """Mean loss of the batch, its gradient left in the parameters; the batch goes through in `accumulate` pieces."""
    carried = None if batch.fresh else training.carried
    states: list[RecurrentState] = []
    total = torch.zeros((), device=training.device)
    for rows in torch.arange(len(batch.input_BT)).chunk(config.accumulate):
        first, last = int(rows[0]), int(rows[-1]) + 1
        with precision(training.device, config.dtype):
            piece, state = loss(
                training.model,
                torch.from_numpy(batch.input_BT[first:last]).to(training.device),
                torch.from_numpy(batch.target_BT[first:last]).to(training.device),
                carried.select(slice(first, last)) if config.carry and carried is not None else None,
            )
        (piece / config.accumulate).backward()  # type: ignore[no-untyped-call]
        total += piece.detach() / config.accumulate
        if config.carry:
            states.append(state.detach())
    training.carried = RecurrentState.join(states) if config.carry else None
    return total


def precision(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[Any]:
    """bf16: products in bfloat16, weights and their updates in float32."""
    return torch.autocast(device.type, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()


def device_for(name: Device) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[name]:
        raise ConfigError(f'training.device is "{name}", but torch sees no such device here; use training.device=cpu')
    return torch.device(name)
