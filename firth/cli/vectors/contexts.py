"""firth vectors contexts: concordance and collocates of words."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.vectors.group import CorpusArgument, Reading, group, reads_text

if TYPE_CHECKING:
    from firth.vectors.contexts import WordContexts

_NEAREST = 2


@verb(within=group)
@reads_text
def contexts(
    corpus: CorpusArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORD…", help="Words to compare side by side.", show_default=False)],
    neighbors: Annotated[
        Path | None, typer.Option(help="Vectors file; also show the nearest neighbours of the first word.")
    ] = None,
    nearest: Annotated[
        int | None, typer.Option(help="Number of nearest neighbours (with --neighbors).  [default: 2]", min=1)
    ] = None,
    window: Annotated[int, typer.Option(help="Words on each side that count as context.")] = 5,
    lines: Annotated[int, typer.Option(help="Concordance lines for each word.")] = 5,
    top: Annotated[int, typer.Option(help="Collocates to show for each word.")] = 12,
    *,
    reading: Reading,
    as_json: Json = False,
) -> None:
    """Show the contexts of words: a concordance and collocates.

    Collocates are the words that occur near a word more often than chance, ranked by Dunning's log-likelihood ratio G²."""
    from firth.progress.display import Display
    from firth.vectors.contexts import shared_collocates, word_contexts
    from firth.vectors.encoding import encoded

    if neighbors is None:
        refuse_given({"nearest": nearest}, "only applies to --neighbors. Add that option, or remove it.")
    chosen = list(dict.fromkeys((*words, *_nearest(neighbors, words[0], nearest or _NEAREST))))
    with Display() as display:
        text = encoded(corpus, **reading, progress=display.work)
    by_word = [word_contexts(text, word, window=window, lines=lines, topn=top) for word in chosen]
    if as_json:
        print_json([_facts(one) for one in by_word])
        return
    width = max(60, min(160, shutil.get_terminal_size((100, 24)).columns))
    for one in by_word:
        print(f"{one.word}: {one.count:,} {'time' if one.count == 1 else 'times'}")
        for line in concordance(one, width):
            print(line)
        print()
    for line in table(by_word, shared_collocates(by_word)):
        print(line)


def _facts(contexts: WordContexts) -> dict[str, Any]:
    facts = dataclasses.asdict(contexts)
    return facts | {"telling": facts.pop("collocates")}  # the key that scripts read


def _nearest(file: Path | None, word: str, topn: int) -> list[str]:
    if file is None:
        return []
    from firth.vectors import load

    return [neighbor for neighbor, _ in load(file).most_similar(word, topn=topn)]


def concordance(contexts: WordContexts, width: int) -> list[str]:
    """Keyword in context: the word is in the same column of every line."""
    side = (width - len(contexts.word) - 2) // 2
    return [
        f"{_last(' '.join(line.left), side):>{side}} {contexts.word} {' '.join(line.right)[:side]}".rstrip()
        for line in contexts.lines
    ]


def _last(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def table(contexts: Sequence[WordContexts], shared: set[str]) -> list[str]:
    """The collocates of each word side by side, with G²; those that several words share are marked with *."""
    columns = []
    for one in contexts:
        cells = [f"{near.score:>9,.1f} {'*' if near.word in shared else ' '} {near.word}" for near in one.collocates]
        columns.append([f"{'G²':>9}   near {one.word}", *cells])
    height, widths = max(map(len, columns)), [max(map(len, column)) for column in columns]
    padded = [column + [""] * (height - len(column)) for column in columns]
    rows = zip(*padded, strict=True)
    note = ["* near more than one of these words"] if shared else []
    return ["   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows] + note
