"""The trials of a sweep, several at a time: each is asked for when a process is free, so that it can learn from those before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optuna.samplers import RandomSampler
from optuna.study import Study
from optuna.trial import Trial, TrialState

from firth.errors import ConfigError, DataError
from firth.experiments.sweeps.plan import SweepPlan
from firth.experiments.sweeps.samplers import sampler
from firth.experiments.sweeps.trial import SweepEnding, SweepJob, run_of, run_trial, settings_of, shown
from firth.experiments.workers import Cluster, RunProgress, Watch, running, workers_on

_STATES = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
# To a sampler, a trial that diverged is one that was stopped early with bad values: it has to learn to avoid such settings.
_STATES["diverged"] = TrialState.PRUNED
ENDING, SETTINGS, REASON, NOTES = "ending", "settings", "reason", "notes"  # attributes of a trial in the storage


class SweepRunner:
    """Trains the trials of a plan that the study lacks."""

    def __init__(self, plan: SweepPlan, study: Study, watch: Watch) -> None:
        self._plan, self._study, self._watch = plan, study, watch
        self._trials: dict[int, Trial] = {}  # those that are not finished
        self._jobs = self._next_jobs()
        self._steps = plan.recipe().training.steps

    def run(self, jobs: int | None, usual: int, cluster: Cluster | None) -> None:
        """Train the trials that are left, `jobs` at a time."""
        self._look()
        if self.left:
            with workers_on(cluster, self._plan.out, jobs, self.left, usual) as team:
                team.work(self._ready, run_trial, self._done, self._look)
        self._look()

    @property
    def left(self) -> int:
        """Trials that have not ended."""
        return self._plan.trials - sum(one.state.is_finished() for one in self._study.get_trials(deepcopy=False))

    def _ready(self, free: int) -> list[SweepJob]:
        return [job for _, job in zip(range(free), self._jobs, strict=False)]

    def _next_jobs(self) -> Iterator[SweepJob]:
        """The trials that were interrupted, then new ones. One whose settings exclude each other has failed at once."""
        for one in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            yield from self._job(Trial(self._study, one._trial_id))
        while (number := len(self._study.get_trials(deepcopy=False))) < self._plan.trials:
            self._study.sampler = sampler(self._plan.sampler, self._plan.space, self._plan.seed, number)
            yield from self._job(self._study.ask())

    def _job(self, trial: Trial) -> Iterator[SweepJob]:
        values = self._plan.space.suggest(trial)
        trial.set_user_attr(SETTINGS, values)
        self._trials[trial.number] = trial
        try:
            recipe = self._plan.space.recipe(values)
        except ConfigError as error:
            self._tell(trial, SweepEnding("failed", error=error))
            return
        yield SweepJob(trial.number, trial._trial_id, recipe, self._plan.out, self._plan.space.prune)

    def _done(self, job: SweepJob, ended: SweepEnding) -> None:
        """Record how a trial ended. A mistake in the recipe or the data ends the sweep if no trial has been trained before."""
        trial, error = self._trials[job.number], ended.error
        if ended.ending == "failed" and isinstance(error, ConfigError | DataError) and not self._any_trained():
            raise type(error)(f"trial {job.number} ({settings_of(trial.user_attrs[SETTINGS])}): {error.marked}")
        self._tell(trial, ended)

    def _any_trained(self) -> bool:
        return any(one.state in (TrialState.COMPLETE, TrialState.PRUNED) for one in self._study.get_trials(deepcopy=False))

    def _tell(self, trial: Trial, ended: SweepEnding) -> None:
        trial.set_user_attr(ENDING, ended.ending)
        if ended.error is not None:
            trial.set_user_attr(REASON, str(ended.error))
        if ended.notes:
            trial.set_user_attr(NOTES, list(ended.notes))
        self._study.sampler = RandomSampler()  # no sampler learns from `tell`, and GridSampler raises an error in it
        self._study.tell(trial, ended.value, state=_STATES[ended.ending])
        del self._trials[trial.number]

    def _look(self) -> None:
        self._watch([*map(self._state, self._study.get_trials(deepcopy=False)), *self._waiting()])

    def _state(self, trial: Any) -> RunProgress:
        values = trial.user_attrs.get(SETTINGS, {})
        name, steps = f"trial {trial.number}: {settings_of(values)}", values.get("training.steps", self._steps)
        if not trial.state.is_finished():
            return running(name, run_of(self._plan.out, trial.number), steps)
        ending = trial.user_attrs[ENDING]
        result = f"{self._plan.space.metric} {shown(trial.value)}" if ending == "finished" else ending
        return RunProgress(name, "finished", steps, steps, result=result)

    def _waiting(self) -> list[RunProgress]:
        there = len(self._study.get_trials(deepcopy=False))
        return [RunProgress(f"trial {n}", "waiting", self._steps) for n in range(there, self._plan.trials)]
