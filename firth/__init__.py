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
    from firth.ideas import use as use
    from firth.tasks.run import Run as Model
    from firth.tasks.run import Run as Run

__all__ = [
    "FirthError",
    "Model",
    "Recipe",
    "Run",
    "__version__",
    "export_model",
    "import_model",
    "load",
    "search",
    "train",
    "train_recipe",
    "use",
    "vectors",
]


def __getattr__(name: str) -> Any:
    if name in ("search", "vectors"):
        return importlib.import_module(f"firth.{name}")
    if name in ("Model", "Run"):  # `Model` is the former name of a run
        return importlib.import_module("firth.tasks.run").Run
    if name == "use":
        return importlib.import_module("firth.ideas").use
    if name in __all__:
        from firth import api

        return getattr(api, name)
    raise AttributeError(f"module 'firth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
