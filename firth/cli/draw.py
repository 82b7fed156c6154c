"""firth draw"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import verb
from firth.cli.settings import settings
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.figures.diagram import Diagram


def _checked(context: typer.Context, path: Path | None) -> Path | None:
    """Refuse a suffix before anything is read; a folder, for --all, may have any."""
    from firth.figures.diagram.diagram import expected_svg

    return path if path is None or context.params.get("every") else expected_svg(path)


@verb(takes_settings=True)
def draw(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A preset such as gpt2, a recipe (name or file), or a run folder.")],
    kind: Annotated[
        str,
        typer.Option(help="model, cell, block, attention, mask, families, cache, state, lora, beam or merges."),
    ] = "model",
    every: Annotated[
        bool, typer.Option("--all", is_eager=True, help="Draw every kind that the model has, into the folder --save.")
    ] = False,
    theme: Annotated[str, typer.Option(help="Colours: light, dark, or auto, which follows the reader's screen.")] = "auto",
    size: Annotated[str, typer.Option(help="page, or slide: 16:9, with larger letters.")] = "page",
    language: Annotated[str, typer.Option(help="Language of the labels: en, fr, de, es or zh.")] = "en",
    text: Annotated[
        str | None, typer.Option(help="For beam, what a run translates; for merges, the words that are merged.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="For merges of a recipe: a text file to learn them from, or - for standard input.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="SVG file to save the drawing to; with --all, a folder.  [default: standard output]", callback=_checked
        ),
    ] = None,
) -> None:
    """Draw a model as SVG: its layers, cell, masks or cache.

    The drawing follows from the settings; data and weights are only read if --text needs them. Any setting of a recipe, or of a
    preset's model, can be overridden: --model.depth=6"""
    from firth.experiments.draw import draw as drawn

    how: dict[str, Any] = {"theme": theme, "size": size, "language": language}
    if every:
        if kind != "model" or text is not None or corpus is not None:
            raise ConfigError("--all draws every kind that the settings have. Leave out --kind, --text and --corpus.")
        _save_all(name, settings(context.args), save, how)
        return
    drawing = drawn(name, kind, settings(context.args), text=text, corpus=_read(corpus), **how)
    if save is None:
        print(drawing.svg(), end="")
        return
    _save(drawing, save)


def _save_all(name: str, assignments: list[str], folder: Path | None, how: dict[str, Any]) -> None:
    from firth.experiments.draw import drawings

    if folder is None or folder.is_file():
        raise ConfigError("--all writes several files. Give a folder for them with --save DIR.")
    found = drawings(name, assignments, **how)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, drawing in found.items():
        _save(drawing, folder / f"{Path(name).stem}-{kind}.svg")


def _save(drawing: Diagram, path: Path) -> None:
    drawing.save(path)
    print(f"{path}: {drawing.title}")


def _read(corpus: Path | None) -> str | None:
    """The text of a file, or of standard input."""
    if corpus is None:
        return None
    import sys

    from firth.errors import DataError

    if str(corpus) == "-":
        return sys.stdin.read()
    try:
        return corpus.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {corpus}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}. Give a text file."
        ) from error
