"""Training: the curves of finished and running runs, drawn from their logs without loading a model."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple, cast

from firth.api.recipe import read_run_recipe
from firth.errors import ConfigError, FirthError
from firth.figures.figure import COLOURS
from firth.figures.training import AGAINST, Against, metrics, training_curves
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room, choices
from firth.serving.lab.starters import GPT
from firth.training import log
from firth.training.folder import RunFolder

_LABELS = {"step": "steps", "tokens": "tokens", "seconds": "seconds"}
_QUIET = 120  # seconds without a new log line after which an unfinished run counts as stopped


class RunState(NamedTuple):
    name: Literal["finished", "running", "stopped", "unreadable"]
    text: str


def curves(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """One metric of several runs, and whether one of them is still running, in which case the page asks again."""
    names = list(dict.fromkeys(request.names("runs")))
    if not names:
        raise ConfigError("no run is selected; select one or more")
    paths = {name: library.path(name) for name in names}
    logs = {name: log.read(RunFolder(path).log) for name, path in paths.items()}
    known = metrics(logs)
    metric = request.choice("metric", known, "loss") if known else "loss"
    against = request.choice("against", AGAINST, AGAINST[0])
    log_scale = request.flag("log")
    figure = training_curves(logs, metric, cast(Against, against), log_scale)
    states = {name: state(RunFolder(path), logs[name]) for name, path in paths.items()}
    facts = {
        "metrics": [one.json() for one in choices(known)],
        "states": {name: one.text for name, one in states.items()},
        "growing": any(one.name == "running" for one in states.values()),
    }
    python = (
        "from pathlib import Path\n\n"
        "from firth.figures.training import training_curves\n"
        "from firth.training import log\n\n"
        f"runs = { ({name: str(path) for name, path in paths.items()})!r}\n"
        'logs = {name: log.read(Path(run) / "log.jsonl") for name, run in runs.items()}\n'
        f"figure = training_curves(logs, {metric!r}, {against!r}, log_scale={log_scale})\n"
        "figure.plot\n"
    )
    return ViewResult({"curves": figure}, python, facts)


def state(folder: RunFolder, lines: list[dict[str, object]]) -> RunState:
    """The state of a run (finished, running or stopped), from its log and the age of the last line."""
    try:
        training = read_run_recipe(folder.recipe).training
    except FirthError as error:
        return RunState("unreadable", str(error))
    step = cast(int, lines[-1]["step"]) if lines else 0
    if step >= training.steps:
        return RunState("finished", f"finished: {step:,} steps")
    silent = time.time() - max(folder.log.stat().st_mtime if folder.log.is_file() else 0, folder.format.stat().st_mtime)
    name: Literal["running", "stopped"] = "running" if silent < _QUIET else "stopped"
    return RunState(name, f"{name}: step {step:,} of {training.steps:,}")


ROOM = Room(
    "training",
    "Training",
    "Learning curves, also while a run is training.",
    {"curves": curves},
    names=lambda library: library.runs,
    if_none="There is no run, so there are no curves. Train one on the documentation on your disk:",
    starter=GPT,
    choices=lambda library: {"against": choices(AGAINST, _LABELS)},
    facts={"most_runs": len(COLOURS)},
    notice="Curves over tokens compare what runs learned from equal data, curves over seconds what they cost.",
    examples=(
        Example("Over steps", {"against": "step"}),
        Example("Over seconds", {"against": "seconds"}),
        Example("On a logarithmic scale", {"log": "true"}),
    ),
)
