"""train(): runs fit() with evaluation, logging, checkpoints, early stopping and stop requests."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from firth.errors import Diverged, Interrupted, option
from firth.models import Network
from firth.training import checkpoint
from firth.training.config import TrainingConfig
from firth.training.distributed import StopVote, ranks
from firth.training.folder import RunFolder
from firth.training.log import Log, NoLog
from firth.training.loop import Loss, Step, Training, fit
from firth.training.metric import METRICS
from firth.training.parallel import gathered
from firth.training.stop import StopRequest

Evaluate = Callable[[Network], dict[str, Any]]  # validation metrics; must include "loss" and config.select


@dataclass(frozen=True)
class StepReport:
    """The record of a training step, passed to `on_step` after it."""

    step: int  # steps finished, this one included
    loss: float  # of this step, or on a GPU of the previous one: reading this step's own would wait for the device
    rate: float  # learning rate
    tokens: int  # so far
    seconds: float  # training time so far, without evaluation and saving
    valid: dict[str, Any] | None  # validation metrics, if this step was evaluated


def train(
    training: Training,
    loss: Loss,
    config: TrainingConfig,
    folder: RunFolder,
    *,
    evaluate: Evaluate | None,
    watch: Callable[[StepReport], object],
) -> None:
    """Train to the last step, or until validation stops improving. On a stop request, save and raise Interrupted."""
    if ended(training, config):
        return
    where, vote = ranks(), StopVote()
    with (
        StopRequest(once=where.world > 1) as stop,
        Log(folder, training.step, config.log_to) if where.first else NoLog() as log,
        checkpoint.Saver(folder, config) as saver,
    ):
        try:
            for step in fit(training, loss, config):
                last = step.step == config.steps
                if last or any(_due(step.step, every) for every in (config.log_every, config.evaluate_every)):
                    training.check_all()
                valid = None
                if evaluate and (last or _due(step.step, config.evaluate_every)):
                    with training.evaluated() as network:
                        valid = evaluate(network)
                    if training.average is not None:
                        training.average.validated(float(valid["loss"]))
                # read once: a later signal takes effect one step later
                stopping = vote.counted(stop.signal is not None)
                better = _note_validation(training, valid, config.select)
                _write(log, training, step, valid, config, last)
                # model.safetensors holds the best weights so far; without validation, the newest.
                saving = last or stopping or exhausted(training, config) or _due(step.step, config.checkpoint_every)
                if better or saving:
                    training.check_all()
                    _check_weights(training)
                if better or (saving and training.best is None):
                    checkpoint.save_weights(training, folder)
                if saving:
                    log.sync()
                    saver.save(training)
                watch(StepReport(step.step, training.guard.known_loss, step.rate, training.tokens, training.seconds, valid))
                if stopping and not last:
                    raise _interrupted(step.step, config.steps, stop.signal)
                if exhausted(training, config):
                    return
                if not last:
                    vote.cast(stop.signal is not None)
        except Diverged as error:
            saver.wait()
            raise Diverged(f"{error.marked}; {_last_good(folder)}. Try a smaller training.rate or training.clip") from None


def _interrupted(step: int, steps: int, number: int | None) -> Interrupted:
    """Several processes exit with 0, so that their launcher does not treat an interruption as a failure."""
    message = f"stopped at step {step} of {steps}; saved. Add {option('resume=True')} to continue"
    return Interrupted(message, number or signal.SIGTERM, exit_code=0 if ranks().world > 1 else None)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def ended(training: Training, config: TrainingConfig) -> bool:
    """Whether there are no steps left to train."""
    return training.step >= config.steps or exhausted(training, config)


def exhausted(training: Training, config: TrainingConfig) -> bool:
    return config.patience > 0 and training.since_best >= config.patience


def selection_loss(valid: dict[str, Any], select: str) -> float:
    """The number that model selection minimises: the metric, or its negative if higher is better."""
    value = float(valid[select])
    return -value if METRICS[select].higher else value


def best_validation(lines: Sequence[dict[str, Any]], select: str) -> dict[str, Any] | None:
    """The validation in a log whose weights are kept; None if there was none."""
    evaluations = [line["valid"] for line in lines if "valid" in line]
    return min(evaluations, key=lambda valid: selection_loss(valid, select), default=None)


def _note_validation(training: Training, valid: dict[str, Any] | None, select: str) -> bool:
    """Update best, best_step and since_best; True if this evaluation is the best so far."""
    if valid is None:
        return False
    if not math.isfinite(valid["loss"]):
        raise Diverged(f"the validation loss became {valid['loss']} at step {training.step}")
    if training.best is None or selection_loss(valid, select) < training.best:
        training.best, training.best_step, training.since_best = selection_loss(valid, select), training.step, 0
        return True
    training.since_best += 1
    return False


def _check_weights(training: Training) -> None:
    """An update can overflow after a finite loss; weights that are not finite must not be saved."""
    for name, weight in training.model.named_parameters():
        if not gathered(weight.isfinite().all()):
            raise Diverged(f"{name} is no longer finite at step {training.step}")


def _write(
    log: Log | NoLog, training: Training, step: Step, valid: dict[str, Any] | None, config: TrainingConfig, last: bool
) -> None:
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
    paths = checkpoint.checkpoints(folder)
    return f"the last good checkpoint is {paths[0]}" if paths else "no checkpoint had been written yet"
