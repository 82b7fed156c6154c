"""firth vectors contexts"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import group

if TYPE_CHECKING:
    from firth.vectors.contexts import Company


@verb(within=group)
def contexts(
    corpus: Annotated[str, typer.Argument(help="A file, folder, glob, named data set such as wiki8, or '-' for standard input.")],
    words: Annotated[list[str], typer.Argument(metavar="WORD…", help="The words to look at, side by side.", show_default=False)],
    neighbors: Annotated[
        Path | None, typer.Option(help="A file of vectors: look at the nearest neighbours of the first word, too.")
    ] = None,
    nearest: Annotated[int, typer.Option(help="How many of those neighbours.")] = 2,
    window: Annotated[int, typer.Option(help="Words on each side that count as near.")] = 5,
    lines: Annotated[int, typer.Option(help="Places to show for each word.")] = 5,
    top: Annotated[int, typer.Option(help="Telling words to show for each word.")] = 12,
    lower: Annotated[bool, typer.Option("--lower", help="Read the text in lower case.")] = False,
    format: Annotated[str, typer.Option(help="txt, jsonl, csv, tsv or parquet; by the name of each file.")] = "auto",
    field: Annotated[str, typer.Option(help="The key or column that holds the text, where files have several.")] = "text",
    as_json: Json = False,
) -> None:
    """The company a word keeps: places where it stands, and the words near it that tell most (log-likelihood ratio)."""
    from firth.cli.progress import Display
    from firth.vectors.contexts import company, shared
    from firth.vectors.encoding import encoded

    asked = list(dict.fromkeys((*words, *_nearest(neighbors, words[0], nearest))))
    with Display() as display:
        text = encoded(corpus, lower=lower, format=format, field=field, progress=display.work)  # type: ignore[arg-type]
    companies = [company(text, word, window=window, lines=lines, topn=top) for word in asked]
    if as_json:
        print_json([dataclasses.asdict(one) for one in companies])
        return
    width = max(60, min(160, shutil.get_terminal_size((100, 24)).columns))
    for one in companies:
        print(f"{one.word}: {one.count:,} times")
        for line in concordance(one, width):
            print(line)
        print()
    for line in table(companies, shared(companies)):
        print(line)


def _nearest(file: Path | None, word: str, topn: int) -> list[str]:
    if file is None:
        return []
    from firth.vectors import load

    return [neighbor for neighbor, _ in load(file).most_similar(word, topn=topn)]


def concordance(company: Company, width: int) -> list[str]:
    """Keyword in context: every line has the word in the same column."""
    side = (width - len(company.word) - 2) // 2
    return [
        f"{_last(' '.join(line.left), side):>{side}} {company.word} {' '.join(line.right)[:side]}".rstrip()
        for line in company.lines
    ]


def _last(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def table(companies: Sequence[Company], shared: set[str]) -> list[str]:
    """The telling words side by side with G² and, marked with *, those that several of the words have."""
    columns = []
    for company in companies:
        cells = [f"{one.score:>9,.1f} {'*' if one.word in shared else ' '} {one.word}" for one in company.telling]
        columns.append([f"{'G²':>9}   near {company.word}", *cells])
    height, widths = max(map(len, columns)), [max(map(len, column)) for column in columns]
    padded = [column + [""] * (height - len(column)) for column in columns]
    rows = zip(*padded, strict=True)
    note = ["* near more than one of them"] if shared else []
    return ["   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows] + note
