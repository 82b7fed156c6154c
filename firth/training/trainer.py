"""train(): the consumers of fit(), in one loop — evaluation, log, checkpoints, early stopping, stop requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from firth.errors import Diverged, Interrupted
from firth.training import checkpoint
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder
from firth.training.log import Log
from firth.training.loop import Loss, Step, Training, fit
from firth.training.stop import StopRequest

Evaluate = Callable[[], dict[str, Any]]  # validation metrics; must hold "loss", and what config.select names


@dataclass(frozen=True)
class Seen:
    """What a watcher is told after each step."""

    step: Step
    loss: float  # of this step, or on a GPU of the one before: step.loss would wait for the device
    tokens: int  # so far
    seconds: float  # that training has taken so far, without evaluation and saving
    valid: dict[str, Any] | None  # where this step was evaluated


def train(
    training: Training,
    loss: Loss,
    config: TrainingConfig,
    folder: RunFolder,
    *,
    evaluate: Evaluate | None,
    watch: Callable[[Seen], None],
) -> None:
    """Train to the last step, or until validation stops improving. Raises Interrupted after a saved stop."""
    if _exhausted(training, config):
        return
    events = folder.tensorboard if config.tensorboard else None
    with StopRequest() as stop, Log(folder.log, training.step, events) as log:
        try:
            for step in fit(training, loss, config):
                last = step.step == config.steps
                if last or any(_due(step.step, every) for every in (config.log_every, config.evaluate_every)):
                    training.settle()
                valid = None
                if evaluate and (last or _due(step.step, config.evaluate_every)):
                    with training.standing():
                        valid = evaluate()
                stopping = stop.signal is not None  # asked once: a signal after this line is answered one step later
                better = _judge(training, valid, config.select)
                _write(log, training, step, valid, config, last)
                # Without validation the newest weights are the ones the run stands for; with it, the best so far.
                saving = last or stopping or _exhausted(training, config) or _due(step.step, config.checkpoint_every)
                if better or saving:
                    training.settle()
                    _check_weights(training)
                if better or (saving and training.best is None):
                    with training.standing():
                        checkpoint.save_weights(training, folder)
                if saving:
                    log.sync()
                    checkpoint.save(training, folder, config.keep)
                watch(Seen(step, training.guard.known_loss, training.tokens, training.seconds, valid))
                if stopping and stop.signal is not None and not last:
                    raise Interrupted(f"stopped at step {step.step} of {config.steps}; saved. Add --resume to go on", stop.signal)
                if _exhausted(training, config):
                    return
        except Diverged as error:
            raise Diverged(f"{error}; {_last_good(folder)}. Try a smaller training.rate or training.clip") from None


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _exhausted(training: Training, config: TrainingConfig) -> bool:
    return config.patience > 0 and training.since_best >= config.patience


def badness(valid: dict[str, Any], select: str) -> float:
    """What selection makes as low as it can: the loss, or a metric of which more is better, with its sign turned."""
    value = float(valid[select])
    return value if select == "loss" else -value


def _judge(training: Training, valid: dict[str, Any] | None, select: str) -> bool:
    """Note the evaluation; True where it is the best so far."""
    if valid is None:
        return False
    if not math.isfinite(valid["loss"]):
        raise Diverged(f"the validation loss became {valid['loss']} at step {training.step}")
    if training.best is None or badness(valid, select) < training.best:
        training.best, training.best_step, training.since_best = badness(valid, select), training.step, 0
        return True
    training.since_best += 1
    return False


def _check_weights(training: Training) -> None:
    """An update can overflow after a finite loss; what is saved must be a state to come back to."""
    for name, weight in training.model.named_parameters():
        if not weight.isfinite().all():
            raise Diverged(f"{name} is no longer finite at step {training.step}")


def _write(log: Log, training: Training, step: Step, valid: dict[str, Any] | None, config: TrainingConfig, last: bool) -> None:
    training.recent.append(step.loss_on_device)
    if valid is None and not last and not _due(step.step, config.log_every):
        return
    line: dict[str, Any] = {
        "step": step.step,
        "loss": float(torch.stack(training.recent).double().mean()),
        "rate": step.rate,
        "gradient_norm": step.gradient_norm,
        "tokens": training.tokens,
        "tokens_per_second": training.tokens / training.seconds,
        "seconds": training.seconds,
    }
    if valid is not None:
        line["valid"] = valid
    log.write(line)
    training.recent.clear()


def _last_good(folder: RunFolder) -> str:
    found = checkpoint.checkpoints(folder)
    return f"the last good checkpoint is {found[0]}" if found else "no checkpoint had been written yet"
