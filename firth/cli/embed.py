"""firth embed"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.lines import check_given, given
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.tasks.abilities.contextual_vectors import Array


@verb()
def embed(
    run: Annotated[Path, typer.Argument(help="Run folder, or folder of a public model such as a sentence encoder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to embed. [default: the lines of standard input]")] = None,
    file: Annotated[Path | None, typer.Option(help="Text file with one text per line.")] = None,
    out: Annotated[Path | None, typer.Option(help="NumPy file (.npy) to write, with a row per text.")] = None,
    layer: Annotated[int, typer.Option(help="Layer: 0 is the embedding, 1 the first layer, -1 the last.")] = -1,
    pool: Annotated[
        str | None,
        typer.Option(help="first, last, mean or max over the tokens. [default: the model's own, or mean]", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn texts into vectors. Prints their cosines, or writes the vectors to --out."""
    from firth.api import load
    from firth.progress.display import Display
    from firth.tasks.ability import EMBED

    check_given(texts, file)
    lines = [line for line in given(texts, file) if line.strip()]
    if not lines:
        raise ConfigError("there are no texts to embed. Give some, or --file.")
    if out is not None and out.suffix.lower() != ".npy":
        raise ConfigError(f"--out writes a NumPy file, but {out.name} does not end in .npy. Rename it.")
    if pool in ("words", "sentence"):
        raise ConfigError(f"--pool {pool} is not possible here. Choose first, last, mean or max, or leave it out.")
    options: dict[str, Any] = {} if pool is None else {"pool": pool}
    with Display() as display:
        vectors: Array = load(run, kind=EMBED).embed(lines, layer=layer, progress=display.work, **options)
    if out is not None:
        _save(vectors, out)
    if as_json:
        print_json([{"text": text, "vector": vector.tolist()} for text, vector in zip(lines, vectors, strict=True)])
    elif out is not None:
        print(f"{vectors.shape[0]:,} vectors of dimension {vectors.shape[1]:,} written to {out}")
    else:
        _print_cosines(lines, vectors)


def _save(vectors: Array, out: Path) -> None:
    import numpy as np

    from firth import files

    with files.writing(out), files.replacing(out) as temporary, temporary.open("wb") as file:
        np.save(file, vectors)


def _print_cosines(lines: list[str], vectors: Array) -> None:
    """The cosine of each text with each other."""
    import numpy as np

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    print(" " * 3 + "".join(f"{n:>7}" for n in range(1, len(lines) + 1)))
    for n, (row, text) in enumerate(zip(unit @ unit.T, lines, strict=True), start=1):
        print(f"{n:>3}" + "".join(f"{cosine:7.2f}" for cosine in row) + f"  {text}")
