"""firth vectors cooccur: word vectors by counting, without training."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, takes_options, verb
from firth.cli.vectors.group import Reading, TextArgument, group, reads_text, sentence_or_source
from firth.errors import RunError
from firth.files import exists
from firth.vectors.config import CooccurrenceConfig

if TYPE_CHECKING:
    from firth.vectors.wordvectors import WordVectors

_SHOWN = 12  # words of the matrix that is printed


def _options() -> dict[str, tuple[Any, Any]]:
    """One for each setting of CooccurrenceConfig."""
    options: dict[str, tuple[Any, Any]] = {}
    for one in dataclasses.fields(CooccurrenceConfig):
        meaning = one.metadata["meaning"]
        kind = int | None if one.default is None else type(one.default)
        flag = [f"--{one.name.replace('_', '-')}"] if one.default is False else []  # without --no-…
        options[one.name] = Annotated[kind, typer.Option(*flag, help=f"{meaning[0].upper()}{meaning[1:]}.")], one.default
    return options


@verb(within=group)
@reads_text
@takes_options("settings", _options())
def cooccur(
    text: TextArgument,
    settings: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="The .firth file to write; without it, the matrix is printed.")] = None,
    *,
    reading: Reading,
    as_json: Json = False,
) -> None:
    """Make word vectors by counting which words occur together.

    The vector of a word is its row of the matrix of co-occurrences: raw counts, or positive pointwise mutual information (PPMI).
    All other verbs of this group read the file."""
    from firth.progress.display import Display
    from firth.vectors.cooccurrence import cooccur as count

    if out is not None and exists(out):
        raise RunError(f"{out} already exists. Choose another --out")
    with Display() as display:
        vectors = count(sentence_or_source(text), **settings, **reading, progress=display.work)
    if out is not None:
        vectors.save(out)
    if as_json:
        shown = {} if out is not None else {"matrix": vectors.vectors.tolist()}
        print_json(
            {"words": list(vectors.words), "dim": vectors.dim, "weight": settings["weight"], "window": settings["window"]} | shown
        )
    elif out is not None:
        print(f"{out}: {len(vectors):,} words, dimension {vectors.dim:,}. Next: firth vectors neighbors {out} WORD")
    else:
        _print_matrix(vectors, square=settings["svd"] is None)


def _print_matrix(vectors: WordVectors, square: bool) -> None:
    """The rows and columns of the most frequent words; with an SVD, the columns are numbered."""
    rows = list(vectors.words)[:_SHOWN]
    columns = rows if square else [str(n + 1) for n in range(min(_SHOWN, vectors.dim))]
    whole = all(float(x).is_integer() for x in vectors.vectors[: len(rows), : len(columns)].flat)
    wide, first = [max(3 if whole else 5, len(column)) for column in columns], max(map(len, rows))
    print(" " * first + "".join(f"  {column:>{width}}" for column, width in zip(columns, wide, strict=True)))
    for word, row in zip(rows, vectors.vectors, strict=False):
        cells = (f"  {x:>{width}.{0 if whole else 2}f}" for x, width in zip(row, wide, strict=False))
        print(f"{word:<{first}}{''.join(cells)}")
    if len(vectors) > _SHOWN:
        print(f"… the {_SHOWN} most frequent of {len(vectors):,} words; --out keeps all")
