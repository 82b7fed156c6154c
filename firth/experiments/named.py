"""The preset, recipe or run that a name stands for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from firth.api.loading import described
from firth.api.recipe import Recipe, find_recipe
from firth.errors import ConfigError, did_you_mean
from firth.files import exists, is_file
from firth.interop import is_model
from firth.models.presets import PRESETS, Preset, preset, varied
from firth.shipped import FOLDER
from firth.training.folder import RunFolder


def trained(name: str | Path, assignments: Sequence[str] = ()) -> Path | None:
    """The folder or file of a run, or of a public model, of that name; None if it stands for something else."""
    path = Path(name)
    if str(name) in PRESETS:
        return None
    if RunFolder(path).exists():
        if assignments:
            raise ConfigError(f"{name} is a run, whose settings are fixed. Use {path / 'recipe.toml'} instead.")
        return path
    if not path.suffix and len(path.parts) == 1 and not is_file(FOLDER / f"{name}.toml") and not exists(path):
        known = [*PRESETS, *(recipe.stem for recipe in FOLDER.glob("*.toml"))]
        raise ConfigError(f'"{name}" is neither a preset nor a recipe nor a run.{did_you_mean(str(name), known)}')
    return path if is_model(path) else None


def planned(name: str | Path, assignments: Sequence[str] = ()) -> Preset | Recipe:
    """The preset or recipe of a name that is not `trained`, with some settings changed."""
    if str(name) in PRESETS:
        return varied(preset(str(name)), assignments, _note) if assignments else preset(str(name))
    return find_recipe(str(name), assignments)


def named(name: str | Path, assignments: Sequence[str] = ()) -> Preset | Recipe:
    """The settings that a name stands for: a preset, a recipe, or that of a run."""
    path = trained(name, assignments)
    return planned(name, assignments) if path is None else described(path)[0]


def _note(message: str) -> None:
    warnings.warn(message, stacklevel=5)
