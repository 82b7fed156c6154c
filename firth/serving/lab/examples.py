"""A text that suits a run, for a room to open with."""

from __future__ import annotations

from firth.api import Recipe
from firth.text.config import PairsConfig

USUAL = "the list is empty"
_OF_PAIRS = {
    "dates": "samedi 14 novembre 2026",
    "scan": "jump twice and walk left",
    "prompts": "dutch: this is a book",
    "tatoeba-en-nl": "This is a book.",
}
_OF_SIDE = {"en": "A man is standing on a ladder.", "de": "Ein Mann steht auf einer Leiter.", "nl": "Dit is een boek."}


def example(recipe: Recipe) -> str:
    """Of the kind that the run was trained on; "" where pairs could be of any kind."""
    data = recipe.data
    if not isinstance(data, PairsConfig):
        return USUAL
    if data.source is not None or data.name == "multi30k":
        return _OF_SIDE.get(data.source or "en", "")
    return _OF_PAIRS.get(data.name or "", "")
