"""The vocabularies of a run."""

from __future__ import annotations

from firth.api.recipe import Recipe
from firth.errors import RunError
from firth.text import Tokenizer
from firth.text.data.parallel import Tokenizers
from firth.training.folder import RunFolder


def read_tokenizers(folder: RunFolder, recipe: Recipe) -> Tokenizers:
    """Of what it reads and of what it writes: the same twice, unless the sides of its sentence pairs have one each."""
    tokenizer = Tokenizer.from_json(folder.tokenizer.read_text(encoding="utf-8"))
    if recipe.objective.kind != "translation" or recipe.tokenizer.joint:
        return tokenizer, tokenizer
    path = folder.source_tokenizer
    if not path.is_file():
        raise RunError(f"{folder.path} is not a whole run: {path.name} is missing; train it again or restore that file")
    return Tokenizer.from_json(path.read_text(encoding="utf-8")), tokenizer
