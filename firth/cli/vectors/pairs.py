"""firth vectors pairs: the skip-gram pairs of a text."""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import Reading, TextArgument, group, reads_text, sentence_or_source
from firth.errors import DataError


@verb(within=group)
@reads_text
def pairs(
    text: TextArgument,
    window: Annotated[int, typer.Option(help="Words on each side that count as context.", min=1)] = 5,
    word: Annotated[str | None, typer.Option(help="Show only the pairs with this centre word.", show_default=False)] = None,
    *,
    reading: Reading,
    as_json: Json = False,
) -> None:
    """List the skip-gram pairs of a sentence or text.

    Shows every pair in the full window. Training draws a smaller window at random for each word, drops some of the frequent
    words, and ignores rare words."""
    from firth.vectors.skipgram_pairs import pairs as skipgram_pairs

    all_pairs = skipgram_pairs(sentence_or_source(text), window=window, **reading)
    chosen = (pair for pair in all_pairs if word is None or pair[0] == word)
    if as_json:
        print_json({"window": window, "pairs": [{"centre": centre, "context": context} for centre, context in chosen]})
        return
    count = 0
    for centre, context in chosen:
        print(f"{centre}\t{context}")
        count += 1
    if not count:
        raise DataError(f'"{word}" has no pairs in this text' if word else "this text has no pairs; expected two words in a line")
