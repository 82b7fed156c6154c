"""One trial of a sweep, in a process of its own: trained, or resumed, with its validations reported to Optuna."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from optuna.trial import Trial

from firth.api.recipe import Recipe
from firth.api.training import Watcher, train_into
from firth.errors import ConfigError, DataError, Diverged, FirthError, OutOfMemory, Pruned
from firth.experiments.clusters.lease import leased
from firth.experiments.sweeps.storage import joined_study
from firth.experiments.workers import remarks
from firth.training import log
from firth.training.folder import RunFolder
from firth.training.trainer import StepReport, best_validation

Ending = Literal["finished", "pruned", "diverged", "failed"]


@dataclass(frozen=True)
class SweepJob:
    """A trial to train."""

    number: int
    trial_id: int  # in the storage
    recipe: Recipe
    sweep: Path  # the folder of the sweep
    prune: bool

    @property
    def folder(self) -> Path:
        return run_of(self.sweep, self.number)

    @property
    def metric(self) -> str:
        return self.recipe.training.select


@dataclass(frozen=True)
class SweepEnding:
    """How a trial ended."""

    ending: Ending
    value: float | None = None  # the best validation, if it finished
    error: FirthError | None = None  # why it diverged or failed
    notes: tuple[str, ...] = ()  # remarks about the recipe and the data


def run_of(sweep: Path, number: int) -> Path:
    return sweep / "runs" / f"trial-{number:03}"


def run_trial(job: SweepJob) -> SweepEnding:
    """Train the trial, or the rest of it. Errors that may be due to its settings make it fail; others are raised."""
    notes: list[str] = []
    with leased(job.folder), remarks() as warned:
        ending, error = _trained(job, notes)
    value = None
    if ending == "finished":
        best = best_validation(log.read(RunFolder(job.folder).log), job.metric)
        assert best is not None  # the Watcher expects validation data
        value = float(best[job.metric])
    return SweepEnding(ending, value, error, tuple(dict.fromkeys((*notes, *warned))))


def _trained(job: SweepJob, notes: list[str]) -> tuple[Ending, FirthError | None]:
    validations = _Validations(job)
    watcher = Watcher(step=validations.report, notice=notes.append, expects_validation=True)
    try:
        validations.expect_promising()
        train_into(job.recipe, job.folder, resume=True, watcher=watcher)
    except Pruned:
        return "pruned", None
    except Diverged as error:
        return "diverged", error
    except (ConfigError, DataError, OutOfMemory) as error:
        return "failed", error
    return "finished", None


class _Validations:
    """The validations of a trial, which Optuna compares with those of other trials."""

    def __init__(self, job: SweepJob) -> None:
        self._job = job
        self._trial = Trial(joined_study(job.sweep, job.prune), job.trial_id)
        self._reported = set(self._trial.storage.get_trial(job.trial_id).intermediate_values)

    def report(self, seen: StepReport) -> None:
        """Called after each step. Reports every validation in the log: a process may be killed after logging one."""
        if seen.valid is None:
            return
        for line in log.read(RunFolder(self._job.folder).log):
            if "valid" in line and line["step"] not in self._reported:
                self._trial.report(float(line["valid"][self._job.metric]), line["step"])
                self._reported.add(line["step"])
        self.expect_promising()

    def expect_promising(self) -> None:
        """Raise Pruned if the pruner gives up on the trial before its last step."""
        step = max(self._reported, default=0)
        if 0 < step < self._job.recipe.training.steps and self._trial.should_prune():
            raise Pruned(f"pruned at step {step}")


def settings_of(trial_settings: dict[str, Any]) -> str:
    """ "model.width = 64, training.rate = 0.00316" """
    return ", ".join(f"{name} = {shown(value)}" for name, value in trial_settings.items())


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
