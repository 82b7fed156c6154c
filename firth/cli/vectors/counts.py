"""firth vectors counts: texts as vectors of word counts."""

from __future__ import annotations

from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import group


@verb(within=group)
def counts(
    texts: Annotated[list[str], typer.Argument(help='Texts in quotes: "I feel good" "I feel sad".', show_default=False)],
    as_json: Json = False,
) -> None:
    """Compare short texts by the cosine of their word counts."""
    from firth.vectors.counts import cosine, occurrences, vocabulary_of

    vocabulary = vocabulary_of(texts)
    count = [occurrences(text, vocabulary) for text in texts]
    cosines = [[cosine(x, y) for y in count] for x in count]
    if as_json:
        rows = [[int(n) for n in row] for row in count]
        print_json({"vocabulary": vocabulary, "texts": texts, "counts": rows, "cosines": cosines})
        return
    longest = max(map(len, texts))
    print(f"{'':<{longest}}  {'  '.join(vocabulary)}")
    for text, row in zip(texts, count, strict=True):
        print(f"{text:<{longest}}  {'  '.join(f'{n:{len(word)}.0f}' for n, word in zip(row, vocabulary, strict=True))}")
    for i, text in enumerate(texts):
        for j in range(i + 1, len(texts)):
            print(f"{cosines[i][j]:.4f}  {text} | {texts[j]}")
