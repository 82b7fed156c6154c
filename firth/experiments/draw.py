"""firth.draw: a drawing of a preset, a recipe or a run, from its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firth.api.recipe import Recipe, compose
from firth.config import to_table
from firth.errors import ConfigError
from firth.experiments.named import named
from firth.figures.diagram import Diagram, Theme
from firth.inspection.drawing import Ends, draw_model
from firth.models.presets import Preset
from firth.tasks import TASKS
from firth.tasks.run import Run
from firth.tasks.task import Task

_LONGEST = 60  # characters of a title


def draw(
    of: str | Path | Recipe | Run[Any], kind: str = "model", assignments: Sequence[str] = (), theme: Theme = "auto"
) -> Diagram:
    """Draw a model from its settings; neither data nor weights are read.

    `of` is a preset such as "gpt2", a recipe (its name, its file or a Recipe), or a run (loaded, or its folder). `kind`: "model",
    "cell", "block", "attention" or "mask"; a model has those that apply to it. `assignments` change settings of a preset or
    recipe: ["model.depth=2"]. `theme`: "light", "dark", or "auto", which follows the reader's screen. A notebook shows the
    drawing; `.save(path)` writes it as SVG."""
    name, found = _found(of, assignments)
    if isinstance(found, Preset):
        config, task = found.config, TASKS[found.objective]
    else:
        config, task = found.model.with_room(found.training.context), type(found.task)
    drawing = draw_model(config, kind, name if len(name) <= _LONGEST else f"…{name[-_LONGEST:]}", ends_of(task))
    return dataclasses.replace(drawing, theme=theme)


def _found(of: str | Path | Recipe | Run[Any], assignments: Sequence[str]) -> tuple[str, Preset | Recipe]:
    if isinstance(of, Recipe):
        return "recipe", compose(to_table(of), assignments) if assignments else of
    if isinstance(of, Run):
        if of.path is None:
            if assignments:
                raise ConfigError("the settings of a loaded model are fixed. Draw a recipe or a preset to change them.")
            return "model", of.recipe
        of = of.path
    return Path(of).name or str(of), named(of, assignments)


def ends_of(task: type[Task[Any, Any, Any]]) -> Ends:
    """What the models of a task read and predict, as drawings say it."""
    if task.reads == "points of linear functions":
        return Ends("point", "linear", "next value")
    return Ends(readout=task.noun if "encoder" in task.families else "")
