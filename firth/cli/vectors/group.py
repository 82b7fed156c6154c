"""The `firth vectors` group, and the arguments and helpers that its verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import app, takes_options
from firth.cli.suggestions import Verbs
from firth.errors import ConfigError
from firth.files import exists
from firth.text.readers.formats import one_of_documents

if TYPE_CHECKING:
    from firth.vectors.sentences import Source
    from firth.vectors.wordvectors import Method, Neighbors, WordVectors

group = typer.Typer(cls=Verbs, rich_markup_mode=None, help="Train, search, evaluate, plot and convert word vectors.")
app.add_typer(group, name="vectors")

File = Annotated[Path, typer.Argument(help="Word vectors: .firth, word2vec text or binary, GloVe or fastText .vec.")]
Word = Annotated[str, typer.Argument(show_default=False)]
Top = Annotated[int, typer.Option(help="Number of words to show.", min=1)]
Restrict = Annotated[int | None, typer.Option(help="Search only the first N words of the file.", min=1, show_default=False)]
MethodName = Annotated[str, typer.Option(help="Scoring method: add (3CosAdd) or mul (3CosMul).")]

CorpusArgument = Annotated[
    str, typer.Argument(help="File, folder, glob, named data set such as wiki8, or '-' for standard input.")
]
TextArgument = Annotated[
    str, typer.Argument(help="Sentence in quotes, file, folder, named data set, or '-' for stdin.", show_default=False)
]
Lower = Annotated[bool, typer.Option("--lower", help="Convert the text to lower case.")]
StripPunctuation = Annotated[
    bool, typer.Option("--strip-punctuation", help="Remove punctuation and symbols, except inside words (don't, well-known).")
]
FormatName = Annotated[str, typer.Option(help=f"File format: {one_of_documents()}; auto uses the file name.")]
Field = Annotated[str, typer.Option(help="JSON key or column that holds the text.")]
Reading = dict[str, Any]  # how a text is read, as the functions of firth.vectors take it
_READING = {"lower": (Lower, False), "strip_punctuation": (StripPunctuation, False), "format": (FormatName, "auto")}
reads_text = takes_options("reading", {**_READING, "field": (Field, "text")})


def opened(file: Path) -> WordVectors:
    """Load a vectors file, with a progress bar for formats that must be parsed."""
    from firth.progress.display import Display
    from firth.vectors import load

    with Display() as display:
        return load(file, progress=display.work)


def sentence_or_source(text: str) -> Source:
    """A text with white space is a sentence, unless a file has that name. A single word has no pairs, so it names a file."""
    return text.split("\n") if len(text.split()) > 1 and not exists(Path(text).expanduser()) else text


def as_rows(neighbors: Neighbors, measure: str = "cosine") -> list[dict[str, Any]]:
    return [{"word": word, measure: value} for word, value in neighbors]


def print_neighbors(neighbors: Neighbors, indent: str = "") -> None:
    for word, value in neighbors:
        print(f"{indent}{value:7.4f}  {word}")


def method_named(name: str) -> Method:
    match name:
        case "add" | "mul":
            return name
    raise ConfigError(f'unknown method "{name}"; expected add or mul')
