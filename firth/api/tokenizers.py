"""The tokenizers of a run."""

from __future__ import annotations

from pathlib import Path

from firth.api.recipe import Recipe
from firth.errors import RunError
from firth.interop.files.foreign_json import read_json
from firth.tasks.task import Tokenizers
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.tokenizer_json import read_utf8
from firth.training.folder import RunFolder


def read_tokenizers(folder: RunFolder, recipe: Recipe) -> Tokenizers:
    """The tokenizers of source and target; the same one twice, unless each side of the sentence pairs has its own."""
    if recipe.tokenizer.kind == "imported":
        tokenizer = _imported(folder, folder.tokenizer, recipe)
        other = recipe.task.two_sides and folder.source_tokenizer.is_file()
        return _imported(folder, folder.source_tokenizer, recipe) if other else tokenizer, tokenizer
    tokenizer = Tokenizer.from_json(read_utf8(folder.tokenizer))
    if not recipe.task.two_sides or recipe.tokenizer.joint:
        return tokenizer, tokenizer
    path = folder.source_tokenizer
    if not path.is_file():
        raise RunError(f"{folder.path} is incomplete: {path.name} is missing. Restore that file, or train again.")
    return Tokenizer.from_json(read_utf8(path)), tokenizer


def _imported(folder: RunFolder, file: Path, recipe: Recipe) -> Tokenizer:
    path, vocab = folder.tokenizer_config, recipe.tokenizer.vocab
    if not path.is_file() or vocab is None:
        raise RunError(f"{folder.path} is incomplete: {path.name} or tokenizer.vocab is missing. Import the model again.")
    return Tokenizer.imported(read_utf8(file), read_json(path), vocab)
