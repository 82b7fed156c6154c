"""The public face in Python: Recipe, train() and load()."""

from firth.api.loading import load
from firth.api.recipe import Expected, Recipe, compose, find_recipe, read_recipe
from firth.api.training import Watcher, train, train_recipe

__all__ = ["Expected", "Recipe", "Watcher", "compose", "find_recipe", "load", "read_recipe", "train", "train_recipe"]
