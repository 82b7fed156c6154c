"""firth vectors neighbors: nearest neighbours by cosine similarity."""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import File, Restrict, Top, as_rows, group, opened, print_neighbors


@verb(within=group)
def neighbors(
    file: File,
    words: Annotated[list[str], typer.Argument(help="One or more words.", show_default=False)],
    top: Top = 10,
    restrict_vocab: Restrict = None,
    as_json: Json = False,
) -> None:
    """List the nearest neighbours of a word by cosine similarity."""
    vectors = opened(file)
    neighbors_of = dict(zip(words, vectors.most_similar_batch(words, top, restrict_vocab), strict=True))
    if as_json:
        print_json({word: as_rows(near) for word, near in neighbors_of.items()})
        return
    for word, near in neighbors_of.items():
        print(word)
        print_neighbors(near, "  ")
