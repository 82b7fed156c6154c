"""firth vectors counts: texts as vectors of word counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import group

if TYPE_CHECKING:
    from firth.vectors.counts import Vector


@verb(within=group)
def counts(
    texts: Annotated[list[str], typer.Argument(help='Texts in quotes: "I feel good" "I feel sad".', show_default=False)],
    p: Annotated[float | None, typer.Option(help="Also show the distance in this p-norm.", min=1, show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Compare short texts by their word counts.

    A text of a single word is a one-hot vector."""
    from firth.vectors.counts import occurrences, vocabulary_of

    vocabulary = vocabulary_of(texts)
    count = [occurrences(text, vocabulary) for text in texts]
    orders = {"euclidean": 2.0, "manhattan": 1.0, "maximum": math.inf} | ({} if p is None else {f"p={p:g}": p})
    if as_json:
        print_json(_facts(texts, vocabulary, count, orders))
        return
    _print_counts(texts, vocabulary, count)
    _print_pairs(texts, count, orders)


def _facts(texts: Sequence[str], vocabulary: Sequence[str], count: Sequence[Vector], orders: dict[str, float]) -> dict[str, Any]:
    from firth.vectors.counts import cosine, distance, dot, norm

    measures = {name: [[distance(x, y, order) for y in count] for x in count] for name, order in orders.items()}
    return {
        "vocabulary": list(vocabulary),
        "texts": list(texts),
        "counts": [[int(n) for n in row] for row in count],
        "norms": {name: [norm(x, order) for x in count] for name, order in orders.items()},
        "dots": [[dot(x, y) for y in count] for x in count],
        "cosines": [[cosine(x, y) for y in count] for x in count],
        "distances": measures,
    }


def _print_counts(texts: Sequence[str], vocabulary: Sequence[str], count: Sequence[Vector]) -> None:
    from firth.vectors.counts import norm

    longest = max(map(len, texts))
    print(f"{'':<{longest}}  {'  '.join(vocabulary)}     |x|")
    for text, row in zip(texts, count, strict=True):
        cells = "  ".join(f"{n:{len(word)}.0f}" for n, word in zip(row, vocabulary, strict=True))
        print(f"{text:<{longest}}  {cells}  {norm(row):.4f}")


def _print_pairs(texts: Sequence[str], count: Sequence[Vector], orders: dict[str, float]) -> None:
    from firth.vectors.counts import cosine, distance, dot

    if len(texts) < 2:
        return
    print(f"\n{'cosine':>6}  {'dot':>4}{''.join(f'{name:>11}' for name in orders)}")
    for i, (text, x) in enumerate(zip(texts, count, strict=True)):
        for other, y in list(zip(texts, count, strict=True))[i + 1 :]:
            distances = "".join(f"{distance(x, y, order):11.4f}" for order in orders.values())
            print(f"{cosine(x, y):.4f}  {dot(x, y):4.0f}{distances}  {text} | {other}")
