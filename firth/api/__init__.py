"""The public face in Python: Recipe, train() and load()."""

from firth.api.importing import import_model
from firth.api.loading import export_model, load, walk
from firth.api.recipe import Expected, Recipe, compose, find_recipe, read_recipe
from firth.api.training import Watcher, encode_recipe, train, train_recipe

__all__ = [
    "Expected",
    "Recipe",
    "Watcher",
    "compose",
    "encode_recipe",
    "export_model",
    "find_recipe",
    "import_model",
    "load",
    "read_recipe",
    "train",
    "train_recipe",
    "walk",
]
