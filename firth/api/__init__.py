"""The public face in Python: load(), Model, recipes, train_recipe()."""

from firth.api.completion import Completion
from firth.api.model import Model, Score, load
from firth.api.recipe import Expected, Recipe, compose, read_recipe
from firth.api.tasks.answer import Answer
from firth.api.tasks.classification import Classification
from firth.api.tasks.tagging import Tags
from firth.api.training import Watcher, train_recipe
from firth.api.translator import Translation

__all__ = [
    "Answer",
    "Classification",
    "Completion",
    "Expected",
    "Model",
    "Recipe",
    "Score",
    "Tags",
    "Translation",
    "Watcher",
    "compose",
    "load",
    "read_recipe",
    "train_recipe",
]
