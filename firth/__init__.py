"""firth: word vectors, recurrent language models, attention and Transformers, in one toolkit.

Names are fetched when first used, so that `import firth` does not wait for torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from firth.errors import FirthError
from firth.version import __version__

if TYPE_CHECKING:
    from firth import search as search
    from firth import vectors as vectors
    from firth.api import Recipe as Recipe
    from firth.api import export_model as export_model
    from firth.api import import_model as import_model
    from firth.api import load as load
    from firth.api import train as train
    from firth.api import train_recipe as train_recipe
    from firth.api import walk as walk
    from firth.experiments.compare import compare as compare
    from firth.experiments.describe import describe as describe
    from firth.experiments.draw import draw as draw
    from firth.experiments.exercises.check import check as check
    from firth.experiments.playground import playground as playground
    from firth.experiments.records.listing import runs as runs
    from firth.experiments.studies.reproduce import reproduce as reproduce
    from firth.experiments.sweeps.sweep import sweep as sweep
    from firth.experiments.verify import verify as verify
    from firth.ideas import use as use
    from firth.tasks.run import Run as Run

_HOMES = {
    **dict.fromkeys(("Recipe", "export_model", "import_model", "load", "train", "train_recipe", "walk"), "api"),
    **{name: f"experiments.{name}" for name in ("compare", "describe", "draw", "playground", "verify")},
    "check": "experiments.exercises.check",
    "reproduce": "experiments.studies.reproduce",
    "runs": "experiments.records.listing",
    "sweep": "experiments.sweeps.sweep",
    "Model": "tasks.run",  # the former name of Run
    "Run": "tasks.run",
    "use": "ideas",
}
_ROOMS = ("search", "vectors")

__all__ = [
    "FirthError", "Recipe", "Run", "__version__", "check", "compare", "describe", "draw", "export_model", "import_model", "load",
    "playground", "reproduce", "runs", "search", "sweep", "train", "train_recipe", "use", "vectors", "verify", "walk",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"firth.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"firth.{_HOMES[name]}"), "Run" if name == "Model" else name)
    raise AttributeError(f"module 'firth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
