"""The tokenizers of a run."""

from __future__ import annotations

from pathlib import Path

from firth.api.recipe import Recipe, read_run_recipe
from firth.errors import RunError
from firth.tasks.task import Tokenizers
from firth.text import Tokenizer
from firth.training.folder import RunFolder


def tokenizers_of(path: Path) -> Tokenizers:
    """The tokenizers of a run folder, without its weights."""
    folder = RunFolder.open(path)
    return read_tokenizers(folder, read_run_recipe(folder.recipe))


def read_tokenizers(folder: RunFolder, recipe: Recipe) -> Tokenizers:
    """Those of source and target; twice the same one, unless the sides of sentence pairs have one each."""
    tokenizer = Tokenizer.from_json(folder.tokenizer.read_text(encoding="utf-8"))
    if not recipe.task.two_sides or recipe.tokenizer.joint:
        return tokenizer, tokenizer
    path = folder.source_tokenizer
    if not path.is_file():
        raise RunError(f"{folder.path} is incomplete: {path.name} is missing. Restore that file, or train again.")
    return Tokenizer.from_json(path.read_text(encoding="utf-8")), tokenizer
