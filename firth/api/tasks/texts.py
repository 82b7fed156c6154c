"""The running text that `evaluate` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firth.api.tasks.splits import Asked, chosen
from firth.text import Progress, TokenFile, encode_file, prepare

if TYPE_CHECKING:
    from firth.api.model import Model


def text_of(model: Model, asked: Asked, progress: Progress) -> tuple[str, TokenFile]:
    """Its name and itself: the file that was given, or a part of the run's own."""
    if asked.path is not None:
        return str(asked.path), encode_file(asked.path, model.tokenizer, model.recipe.data, progress)
    return chosen(prepare(model.recipe.data, model.tokenizer, progress), asked.split)
