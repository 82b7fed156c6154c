"""The group of verbs, and what they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import app

if TYPE_CHECKING:
    from firth.vectors.wordvectors import Method, Neighbors, WordVectors

group = typer.Typer(rich_markup_mode=None, help="Word vectors: train, search, evaluate, draw and convert them.")
app.add_typer(group, name="vectors")

File = Annotated[Path, typer.Argument(help="Word vectors: .firth, word2vec text or binary, GloVe or fastText .vec.")]
Top = Annotated[int, typer.Option(help="How many words to show.", min=1)]
Restrict = Annotated[int | None, typer.Option(help="Look among the first so many words only.", min=1, show_default=False)]
MethodName = Annotated[str, typer.Option(help="add (3CosAdd) or mul (3CosMul).")]


def opened(file: Path) -> WordVectors:
    """The vectors of a file, with progress where it has to be read through."""
    from firth.cli.progress import Display
    from firth.vectors import load

    with Display() as display:
        return load(file, progress=display.work)


def as_rows(neighbors: Neighbors, measure: str = "cosine") -> list[dict[str, Any]]:
    return [{"word": word, measure: value} for word, value in neighbors]


def print_neighbors(neighbors: Neighbors, indent: str = "") -> None:
    for word, value in neighbors:
        print(f"{indent}{value:7.4f}  {word}")


def method_named(name: str) -> Method:
    from firth.errors import ConfigError

    match name:
        case "add" | "mul":
            return name
    raise ConfigError(f'there is no method "{name}"; expected add or mul')
