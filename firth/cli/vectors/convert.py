"""firth vectors convert: write word vectors in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, destination, print_json, verb
from firth.cli.vectors.group import File, group

ToFormat = Annotated[
    str | None, typer.Option(help="Output format: firth, word2vec, word2vec-binary, glove or fasttext.  [default: by file name]")
]


@verb(within=group)
def convert(
    file: File,
    into: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="The same as --out.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .firth, .bin (word2vec binary), .txt (word2vec text) or .vec.")
    ] = None,
    to: ToFormat = None,
    from_: Annotated[str | None, typer.Option("--from", help="Input format, if it is detected wrongly.")] = None,
    as_json: Json = False,
) -> None:
    """Convert word vectors to another format, without loss.

    Every number keeps its exact value. Only .firth files keep counts and the training state."""
    from firth.progress.display import Display
    from firth.vectors import formats

    out = destination(into, out, "OUT")
    target = formats.checked_format(to) if to is not None else formats.format_for(out)
    source = formats.checked_format(from_) if from_ is not None else None
    with Display() as display:
        vectors = formats.load(file, source, verify=True, progress=display.work)
        formats.save(vectors, out, target, progress=display.work)
    if as_json:
        print_json({"out": str(out), "format": target, "words": len(vectors), "dim": vectors.dim, "width": vectors.dim})
    else:
        print(f"{out}: {len(vectors):,} words, dimension {vectors.dim}, format {target}")
