"""Recipes, training and loading in Python."""

from firth.api.importing import import_model
from firth.api.loading import export_model, load, walk
from firth.api.recipe import Recipe, compose, find_recipe
from firth.api.training import Watcher, encode_recipe, train, train_recipe

__all__ = [
    "Recipe", "Watcher", "compose", "encode_recipe", "export_model", "find_recipe", "import_model", "load", "train",
    "train_recipe", "walk",
]  # fmt: skip
