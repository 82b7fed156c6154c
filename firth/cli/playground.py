"""firth playground: compute attention step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.save_option import Save, save_figures, section

if TYPE_CHECKING:
    from firth.inspection.playground import ExampleName, MaskName, PlaygroundResult, Settings
    from firth.layers.attention.score import ScoreKind
    from firth.layers.position import PositionKind


@verb()
def playground(
    sentence: Annotated[
        str | None, typer.Argument(help="Words that attend to each other.  [default: the example given by --example]")
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(help="Built-in example: scores (112 and 96 over √64) or roles (look up a role by name).  [default: scores]"),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help='File of keys and values, one row per line: "Tom → teacher", or numbers on both sides.')
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(help="Query for --table or --example roles: a word, or as many numbers as the keys have."),
    ] = None,
    score: Annotated[str, typer.Option(help="Score: scaled_dot, dot, gaussian, bilinear, additive or cosine.")] = "scaled_dot",
    mask: Annotated[
        str,
        typer.Option(help="Mask: full, causal, strictly_causal, all_but_self, window, prefix, lengths or documents."),
    ] = "full",
    limit: Annotated[
        int | None,
        typer.Option(help="Size for the mask: window, prefix or document length, or keys before the padding.  [default: 2]"),
    ] = None,
    position: Annotated[
        str, typer.Option(help="Position scheme: none, learned, sinusoidal, rotary, shaw, t5, alibi or disentangled.")
    ] = "none",
    scale: Annotated[
        float | None,
        typer.Option(help="Factor for the scores: 0 averages all keys, a large one picks the best.  [default: the score's own]"),
    ] = None,
    heads: Annotated[int, typer.Option(help="Number of heads.")] = 1,
    width: Annotated[int | None, typer.Option(help="Dimension of the random word vectors of a sentence.  [default: 8]")] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Word-vectors file, instead of random vectors (sentence) or spelling (table).")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed for the vectors of a sentence and the score and position parameters.  [default: 0]"),
    ] = None,
    projected: Annotated[
        bool, typer.Option("--projected", help="Project the words of a sentence to q, k and v with random matrices.")
    ] = False,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Compute attention step by step and print every number.

    The steps are scores, scaling, masking, softmax and the weighted sum."""
    import shutil

    from firth.inspection.playground import LIMITED, Settings

    sized = {name: size for name, size in (("limit", limit), ("width", width), ("seed", seed)) if size is not None}
    settings = Settings(
        score=cast("ScoreKind", score),
        mask=cast("MaskName", mask),
        position=cast("PositionKind", position),
        scale=scale,
        heads=heads,
        projected=projected,
        **sized,
    )
    if mask not in LIMITED:
        refuse_given({"limit": limit}, f"does not apply to --mask {mask}, only to {', '.join(LIMITED)}. Remove it.")
    drawn = sentence is not None and vectors is None  # the words get random vectors
    if not drawn:
        refuse_given({"width": width}, "is that of random vectors, which only a sentence without --vectors has. Remove it.")
    found = _play(sentence, example, table, query, vectors, settings)
    if not drawn and not found.parameters:
        refuse_given({"seed": seed}, "draws random numbers, but there are none here. Remove it.")
    if save is not None:
        saved = _save(save, found)
    if as_json:
        print_json(found.facts())
        return
    print(found.text(shutil.get_terminal_size().columns))
    if save is not None:
        print(f"\n{saved}: {len(found.steps)} steps")


def _play(
    sentence: str | None, name: str | None, table: Path | None, query: str | None, file: Path | None, settings: Settings
) -> PlaygroundResult:
    from firth.errors import ConfigError
    from firth.inspection.playground import example, of_sentence, of_table, read_table
    from firth.text.data.running_text import read_text
    from firth.vectors import load

    given = [what for what, value in (("a sentence", sentence), ("--example", name), ("--table", table)) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} cannot be combined. Give only one of them")
    if table is not None and query is None:
        raise ConfigError("--table needs a query to look up. Add --query")
    if query is not None and table is None and name is None:
        raise ConfigError("--query needs a table to look it up in. Add --table, or --example roles")
    if file is not None and sentence is None and table is None:
        raise ConfigError("--vectors does not apply to an example, which has its own vectors. Give a sentence, or --table")
    vectors = None if file is None else load(file)
    if sentence is not None:
        return of_sentence(sentence, settings, vectors)
    if table is not None and query is not None:
        return of_table(read_table(read_text(str(table))), query, settings, vectors)
    return example(cast("ExampleName", name or "scores"), settings, query)


def _save(path: Path, found: PlaygroundResult) -> str:
    lead = f"Queries: {' '.join(found.queries)}. Keys: {' '.join(found.keys)}. Steps: scores, softmax, weighted sum."
    heads = range(found.settings.heads)
    sections = [section(f"Head {head + 1}" if len(heads) > 1 else "Attention", lead, [found.figure(head)]) for head in heads]
    return save_figures(path, "Attention step by step", sections, "firth playground")
