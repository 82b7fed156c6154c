"""Training: the curves of runs, finished or under way, from their logs. No model is loaded for it."""

from __future__ import annotations

import time
from typing import cast

from firth.api.recipe import read_recipe
from firth.errors import ConfigError, FirthError
from firth.figures.training import Against, metrics, training_curves
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.training import log
from firth.training.folder import RunFolder

_AGAINST = ("step", "tokens", "seconds")
_QUIET = 120  # seconds without a new line after which a run that has not come to its end counts as stopped


def curves(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """One metric of several runs; which of them is still growing, so that the page asks again."""
    names = list(dict.fromkeys(asked.names("runs")))
    if not names:
        raise ConfigError("no run is chosen; choose one or several")
    paths = {name: shelf.path(name) for name in names}
    logs = {name: log.read(RunFolder(path).log) for name, path in paths.items()}
    known = metrics(logs)
    metric = asked.choice("metric", known, "loss") if known else "loss"
    against = asked.choice("against", _AGAINST, "step")
    log_scale = asked.flag("log")
    figure = training_curves(logs, metric, cast(Against, against), log_scale)
    states = {name: state(RunFolder(path), logs[name]) for name, path in paths.items()}
    facts = {"metrics": known, "states": states, "growing": any(one.startswith("running") for one in states.values())}
    python = (
        "from pathlib import Path\n\n"
        "from firth.figures.training import training_curves\n"
        "from firth.training import log\n\n"
        f"runs = { ({name: str(path) for name, path in paths.items()})!r}\n"
        'logs = {name: log.read(Path(run) / "log.jsonl") for name, run in runs.items()}\n'
        f"figure = training_curves(logs, {metric!r}, {against!r}, log_scale={log_scale})\n"
        "figure.plot\n"
    )
    return Shown({"curves": figure}, python, facts)


def state(folder: RunFolder, lines: list[dict[str, object]]) -> str:
    """finished, running or stopped, by the log and its age."""
    try:
        training = read_recipe(folder.recipe).training
    except FirthError as error:
        return str(error)
    step = cast(int, lines[-1]["step"]) if lines else 0
    if step >= training.steps:
        return f"finished: {step:,} steps"
    silent = time.time() - max(folder.log.stat().st_mtime if folder.log.is_file() else 0, folder.format.stat().st_mtime)
    return f"{'running' if silent < _QUIET else 'stopped'}: step {step:,} of {training.steps:,}"


def usable(shelf: Shelf) -> Usable:
    return Usable(
        tuple(shelf.runs), "There are no runs to draw; `firth train RECIPE --out RUN` makes one, `firth lab RUN` shows it."
    )


ROOM = Room(
    "training",
    "Training",
    "How runs learned, or are learning: loss and every other number of their logs, while they grow.",
    {"curves": curves},
    usable,
)
