"""firth vectors map: plot words in two or three dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.save_option import FORMATS, checked, save_figures, section
from firth.cli.vectors.group import File, group, opened
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.vectors.map import WordMap


@verb(within=group)
def map_(
    file: File,
    out: Annotated[Path, typer.Option("--out", "--save", help=f"File to save the map to: {FORMATS}.", callback=checked)],
    words: Annotated[
        str | None, typer.Option(help="Words to plot, separated by commas; '-' reads them from standard input.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Plot the first N words of the file.  [default: 500]", min=1)] = None,
    projection: Annotated[str, typer.Option(help="Projection: pca, or tsne (needs scikit-learn).")] = "pca",
    dimensions: Annotated[int, typer.Option(help="Dimensions of the map: 2 or 3.", min=2, max=3)] = 2,
    seed: Annotated[
        int | None, typer.Option(help="Random seed for the starting points of t-SNE.  [default: start from PCA]", min=0)
    ] = None,
    as_json: Json = False,
) -> None:
    """Plot words as points on a searchable map."""
    from firth.figures.word_map import embedding_map
    from firth.vectors.map import Projection, word_map

    if words is not None and top is not None:
        raise ConfigError("--words and --top cannot be combined. Remove one of them")
    chosen: Projection
    match projection:
        case "pca" | "tsne" as chosen:
            pass
        case _:
            raise ConfigError(f'unknown projection "{projection}"; expected pca or tsne')
    if chosen == "pca":
        refuse_given({"seed": seed}, "only applies to t-SNE. Add --projection tsne, or remove it.")
    vectors = opened(file)
    drawn = word_map(vectors, _given(words) if words is not None else list(vectors.words[: top or 500]), chosen, dimensions, seed)
    axes = _axes(drawn)
    figure = embedding_map(drawn.words, drawn.point_Nk.tolist(), axes)
    lead = f"{len(drawn.words):,} of the {len(vectors):,} words of {file.name} (dimension {vectors.dim}). {', '.join(axes)}."
    save_figures(out, f"Map of {file.name}", [section("Words", lead, [figure])], "firth vectors map")
    if as_json:
        points = [{"word": word, "point": point} for word, point in zip(drawn.words, drawn.point_Nk.tolist(), strict=True)]
        print_json({"out": str(out), "projection": chosen, "explained": list(drawn.explained), "points": points})
    else:
        print(f"{out}: {len(drawn.words):,} words, {', '.join(axes)}")


def _given(words: str) -> list[str]:
    import sys

    text = sys.stdin.read() if words == "-" else words
    return [word for word in text.replace(",", " ").split() if word]


def _axes(drawn: WordMap) -> list[str]:
    if drawn.projection == "tsne":
        return [f"t-SNE {n + 1}" for n in range(drawn.point_Nk.shape[1])]
    return [f"PC {n + 1} ({share:.1%} of the variance)" for n, share in enumerate(drawn.explained)]
