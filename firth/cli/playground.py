"""firth playground"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.inspection.playground import ExampleName, MaskName, Played, Settings
    from firth.layers.attention.score import ScoreKind
    from firth.layers.position import PositionKind


@verb()
def playground(
    sentence: Annotated[str | None, typer.Argument(help="Words that look at each other; without one, an example.")] = None,
    example: Annotated[
        str | None, typer.Option(help="scores (112 and 96 over √64), or roles (a name looks up its role). [default: scores]")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help='A file of keys and values, a row a line: "Mina → director", or numbers on both sides.')
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="What is looked up in the table: a word, or numbers as its keys have.")
    ] = None,
    score: Annotated[str, typer.Option(help="scaled_dot, dot, gaussian, bilinear or additive.")] = "scaled_dot",
    mask: Annotated[
        str,
        typer.Option(help="full, causal, strictly_causal, all_but_self, window, prefix, lengths or documents."),
    ] = "full",
    limit: Annotated[int, typer.Option(help="Keys of a window, of a prefix, before the padding, or of each document.")] = 2,
    position: Annotated[str, typer.Option(help="none, learned, sinusoidal, rotary, shaw, t5 or alibi.")] = "none",
    scale: Annotated[
        float | None, typer.Option(help="Instead of the score's own: 0 averages all keys, a large one picks the best.")
    ] = None,
    heads: Annotated[int, typer.Option(help="Into how many the vectors are cut.")] = 1,
    width: Annotated[int, typer.Option(help="Numbers of a word's vector, where no file is given.")] = 8,
    vectors: Annotated[Path | None, typer.Option(help="A file of word vectors, for the words.")] = None,
    seed: Annotated[int, typer.Option(help="Of the words' vectors, and of what a score or a position is drawn with.")] = 0,
    save: Annotated[Path | None, typer.Option(help="An HTML page to write; it opens without a network.")] = None,
    as_json: Json = False,
) -> None:
    """Attention step by step, with all its numbers: scores, scaled, masked, softmax, weighted sum."""
    import shutil

    from firth.inspection.playground import Settings

    settings = Settings(
        score=cast("ScoreKind", score),
        mask=cast("MaskName", mask),
        limit=limit,
        position=cast("PositionKind", position),
        scale=scale,
        heads=heads,
        width=width,
        seed=seed,
    )
    found = _play(sentence, example, table, query, vectors, settings)
    if save is not None:
        _save(save, found)
    if as_json:
        print_json(found.facts())
        return
    print(found.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"\n{save}: {len(found.steps)} steps")


def _play(
    sentence: str | None, name: str | None, table: Path | None, query: str | None, file: Path | None, settings: Settings
) -> Played:
    from firth.errors import ConfigError
    from firth.inspection.playground import example, of_sentence, of_table, read_table
    from firth.text.data.running_text import read_text
    from firth.vectors import load

    given = [what for what, value in (("a sentence", sentence), ("--example", name), ("--table", table)) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are given; the playground looks at one thing at a time, so give one of them")
    if (table is None) != (query is None):
        raise ConfigError("--table and --query belong together: a table is looked into with a query; give both")
    if file is not None and sentence is None and table is None:
        raise ConfigError("--vectors is given, but an example has its own; give a sentence, or --table and --query")
    vectors = None if file is None else load(file)
    if sentence is not None:
        return of_sentence(sentence, settings, vectors)
    if table is not None and query is not None:
        return of_table(read_table(read_text(str(table))), query, settings, vectors)
    return example(cast("ExampleName", name or "scores"), settings)


def _save(path: Path, found: Played) -> None:
    from firth.figures.figure import Table
    from firth.figures.page import Section, page
    from firth.files import write_text

    lead = f"{' '.join(found.queries)} looks at {' '.join(found.keys)}: scores, softmax, weighted sum."
    heads = range(found.settings.heads)
    sections = [
        Section(f"Head {head}" if len(heads) > 1 else "Attention", lead, Table((), []), [found.figure(head)]) for head in heads
    ]
    write_text(path, page("Attention step by step", sections, "Made by firth playground."))
