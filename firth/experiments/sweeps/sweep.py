"""sweep(): choose settings of a recipe by validation."""

from __future__ import annotations

import importlib.util
import signal
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from firth.api.recipe import Recipe
from firth.errors import ConfigError, Interrupted, RunError, did_you_mean, option
from firth.experiments.clusters import cluster_of
from firth.experiments.sweeps import SamplerName
from firth.experiments.sweeps.report import SweepReport, SweepTrial
from firth.experiments.workers import Cluster, RunProgress, Watch
from firth.progress import Progress
from firth.progress.display import followed, shows_progress
from firth.text.threads import cores
from firth.training import log
from firth.training.folder import RunFolder, held
from firth.training.loop import device_for

if TYPE_CHECKING:
    from optuna.study import Study

    from firth.experiments.sweeps.plan import SweepPlan

OUT = Path("sweeps")
_PARTS = ("data.", "tokenizer.")  # settings that may make losses of other texts or tokens


@shows_progress
def sweep(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    settings: Mapping[str, Sequence[Any] | str],
    *,
    out: str | Path | None = None,
    trials: int | None = None,
    sampler: SamplerName = "tpe",
    metric: str | None = None,
    prune: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    ray: str | None = None,
    slurm: Mapping[str, Any] | None = None,
    resume: bool = False,
    changes: Mapping[str, Any] | None = None,
    watch: Watch = lambda states: None,
    progress: Progress | bool = True,
) -> SweepReport:
    """Train a recipe several times with different settings, compare the runs on validation data, and return a report: `.best`,
    `.text()`, `.facts()`, `.figures()`, `.save("page.html")`.

    `recipe`: the name of a shipped one, a TOML file, a nested dict or a Recipe. `settings`: for the dotted name of each setting,
    a list of values, or a range as text: "LOW:HIGH", "LOW:HIGH:STEP", "log:LOW:HIGH", or "int:LOW:HIGH" for whole numbers. `out`:
    the folder of the sweep, by default sweeps/NAME; every trial is a run in it. `trials`: the number of runs, by default 20, or
    all combinations if there are fewer. `sampler`: how the settings of a trial are chosen: "tpe", "random", "grid", "qmc" or
    "gp". `metric`: the validation metric that compares trials and selects the weights of each, by default training.select.
    `prune`: stop trials whose validations are worse than the median of the others. `seed`: the seed of the sampler; every trial
    keeps the recipe's own. `jobs`: trials at a time, by default one for each core, or one on a GPU; on a Ray cluster one
    for each of its GPUs, or CPUs if it has none. `ray`: the address of a Ray cluster that trains the trials, such as "auto"; its
    machines must share the folder of the sweep. `slurm`: options of sbatch, such as {"partition": "gpu", "time": 60}, with which
    each trial becomes a Slurm job; needs the number of jobs, and a shared folder. With `resume` the sweep in the folder is
    continued, and finished trials are not trained again. `changes`: settings of all trials that replace the recipe's, by their
    dotted names. `watch` is called with the state of all trials, about twice a second."""
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError('a sweep needs the package optuna. Install it with pip install "firth[sweep]".')
    if (jobs is not None and jobs < 1) or seed < 0:
        raise ConfigError(f"jobs and seed are {jobs} and {seed}; expected 1 or more jobs, and a seed of 0 or more")
    if sampler not in get_args(SamplerName):
        raise ConfigError(f'there is no sampler "{sampler}".{did_you_mean(sampler, get_args(SamplerName))}')
    from firth.experiments.sweeps.plan import SweepPlan
    from firth.experiments.sweeps.samplers import number_of_trials
    from firth.experiments.sweeps.samplers import sampler as made
    from firth.experiments.sweeps.space import space_of

    cluster = cluster_of(ray, slurm, jobs)
    space = space_of(recipe, settings, changes or {}, metric, prune)
    made(sampler, space, seed, 0)  # refuses a space that it cannot sample
    name = Path(recipe).stem if isinstance(recipe, str | Path) else "recipe"
    folder = OUT / name if out is None else Path(out)
    plan = SweepPlan(name, folder, space, sampler, seed, number_of_trials(sampler, space, trials))
    _note_incomparable(plan)
    report = followed(progress)

    def seen(states: Sequence[RunProgress]) -> None:
        watch(states)
        report("training", sum(one.step for one in states), sum(one.steps for one in states))

    with held(folder):
        study = _opened(plan, resume)
        _run(plan, study, jobs, cluster, seen)
        return _report(plan, study)


def _note_incomparable(plan: SweepPlan) -> None:
    for one in plan.space.swept:
        if one.name.startswith(_PARTS):
            warnings.warn(
                f"{one.name} differs between trials: compare their {plan.space.metric} only if it leaves the validation text and "
                "its tokens as they are",
                stacklevel=3,
            )


def _opened(plan: SweepPlan, resume: bool) -> Study:
    from firth.experiments.sweeps.storage import journal_of, open_study

    journal = journal_of(plan.out)
    if journal.exists() and not resume:
        raise RunError(
            f"{plan.out} already holds a sweep. Add {option('resume=True')} to continue it, or choose another "
            f"{option('folder', '--out')}."
        )
    if not journal.exists():
        RunFolder.expect_room(plan.out)
    study = open_study(plan.out, plan.space.higher, plan.space.prune)
    plan.record(study)
    there = len(study.get_trials(deepcopy=False))
    if there > plan.trials:
        raise ConfigError(
            f"{option('trials', '--trials')} is {plan.trials}, but {plan.out} already has {there}. Ask for {there} or more."
        )
    return study


def _run(plan: SweepPlan, study: Study, jobs: int | None, cluster: Cluster | None, watch: Watch) -> None:
    from firth.experiments.sweeps.runner import SweepRunner

    runner = SweepRunner(plan, study, watch)
    try:
        usual = cores() if cluster or device_for(plan.recipe().training.device).type == "cpu" else 1
        runner.run(jobs, usual, cluster)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped with {runner.left} of {plan.trials} trials to go; those that were running are saved. Add "
            f"{option('resume=True')} to continue",
            signal.SIGINT,
        ) from None


def _report(plan: SweepPlan, study: Study) -> SweepReport:
    from firth.experiments.sweeps.runner import ENDING, NOTES, REASON, SETTINGS
    from firth.experiments.sweeps.trial import run_of

    trials = []
    for one in study.get_trials(deepcopy=False):
        run, told = run_of(plan.out, one.number), one.user_attrs
        lines = log.read(RunFolder(run).log)
        trials.append(
            SweepTrial(
                number=one.number,
                ending=told[ENDING],
                value=one.value if told[ENDING] == "finished" else None,
                settings=told[SETTINGS],
                steps=lines[-1]["step"] if lines else 0,
                run=run,
                reason=told.get(REASON),
                notes=tuple(told.get(NOTES, ())),
            )
        )
    space = plan.space
    return SweepReport(
        plan.name, plan.out, space.metric, space.higher, plan.sampler, plan.seed, plan.settings(), tuple(trials), study
    )
