"""firth draw"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import verb
from firth.cli.settings import settings

if TYPE_CHECKING:
    from firth.figures.diagram import Theme


def _checked(path: Path | None) -> Path | None:
    """Refuse a suffix before anything is read."""
    from firth.figures.diagram.diagram import expected_svg

    return None if path is None else expected_svg(path)


@verb(takes_settings=True)
def draw(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A preset such as gpt2, a recipe (name or file), or a run folder.")],
    kind: Annotated[str, typer.Option(help="What to draw: model, cell, block, attention or mask.")] = "model",
    theme: Annotated[str, typer.Option(help="Colours: light, dark, or auto, which follows the reader's screen.")] = "auto",
    save: Annotated[
        Path | None, typer.Option(help="SVG file to save the drawing to.  [default: standard output]", callback=_checked)
    ] = None,
) -> None:
    """Draw a model as SVG: its layers, cell, block or masks.

    The drawing follows from the settings; no data and no weights are read. Any setting of a recipe, or of a preset's model, can
    be overridden: --model.depth=6"""
    from firth.experiments.draw import draw as drawn

    drawing = drawn(name, kind, settings(context.args), theme=cast("Theme", theme))
    if save is None:
        print(drawing.svg(), end="")
        return
    drawing.save(save)
    print(f"{save}: {drawing.title}")
