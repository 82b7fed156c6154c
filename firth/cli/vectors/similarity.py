"""firth vectors similarity: the cosine similarity of two words."""

from __future__ import annotations

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import File, Word, group, opened


@verb(within=group)
def similarity(file: File, a: Word, b: Word, as_json: Json = False) -> None:
    """Print the cosine similarity of two words."""
    cosine = opened(file).similarity(a, b)
    if as_json:
        print_json({"a": a, "b": b, "cosine": cosine})
    else:
        print(f"{cosine:.4f}")
