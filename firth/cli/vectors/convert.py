"""firth vectors convert"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.vectors.group import File, group

FormatName = Annotated[str | None, typer.Option(help="firth, word2vec, word2vec-binary, glove or fasttext.", show_default=False)]


@verb(within=group)
def convert(
    file: File,
    out: Annotated[Path, typer.Argument(help="Its name tells the format: .firth, .bin, .vec, or .txt for word2vec text.")],
    to: FormatName = None,
    from_: Annotated[str | None, typer.Option("--from", help="The format of FILE, if its first bytes mislead.")] = None,
    as_json: Json = False,
) -> None:
    """Write word vectors in another format, to the same bits. Counts and training state are kept in .firth only."""
    from firth.cli.progress import Display
    from firth.vectors import formats

    chosen = formats.checked_format(to) if to is not None else formats.format_for(out)
    given = formats.checked_format(from_) if from_ is not None else None
    with Display() as display:
        vectors = formats.load(file, given, verify=True, progress=display.work)
        formats.save(vectors, out, chosen, progress=display.work)
    if as_json:
        print_json({"out": str(out), "format": chosen, "words": len(vectors), "width": vectors.width})
    else:
        print(f"{out}: {len(vectors):,} words of {vectors.width} numbers, {chosen}")
