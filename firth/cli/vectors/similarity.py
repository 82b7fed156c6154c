"""firth vectors similarity"""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import File, group, opened

Word = Annotated[str, typer.Argument(show_default=False)]


@verb(within=group)
def similarity(file: File, a: Word, b: Word, as_json: Json = False) -> None:
    """The cosine of two words."""
    cosine = opened(file).similarity(a, b)
    if as_json:
        print_json({"a": a, "b": b, "cosine": cosine})
    else:
        print(f"{cosine:.4f}")
