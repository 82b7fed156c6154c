"""firth playground: compute attention step by step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firth import ideas
from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.inspection.playground import ExampleName, MaskName, PlaygroundResult

_SCORES = ("scaled_dot", "dot", "gaussian", "bilinear", "additive", "cosine")  # without importing torch
_SCHEMES = ("none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi", "disentangled", "learned_t5")


def _kinds(what: str, shipped: tuple[str, ...], sort: str) -> str:
    *most, last = (*shipped, *ideas.own_kinds(sort))
    return f"{what}: {', '.join(most)} or {last}."


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
        str | None, typer.Option(help="Query for --table or --example roles: a word, or as many numbers as the keys have.")
    ] = None,
    score: Annotated[str, typer.Option(help=_kinds("Score", _SCORES, "attention score"))] = "scaled_dot",
    mask: Annotated[
        str, typer.Option(help="Mask: full, causal, strictly_causal, all_but_self, window, prefix, lengths or documents.")
    ] = "full",
    limit: Annotated[
        int | None,
        typer.Option(help="Size for the mask: window, prefix or document length, or keys before the padding.  [default: 2]"),
    ] = None,
    position: Annotated[str, typer.Option(help=_kinds("Position scheme", _SCHEMES, "position scheme"))] = "none",
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
    matrix: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own matrix for a sentence: X, W_q, W_k, W_v, W_o, Q or P, as 'W_q=1 0; 0 1' or W_q=FILE.csv. "
            "May be repeated."
        ),
    ] = None,
    matrices: Annotated[
        Path | None, typer.Option(help='File of several: JSON, {"W_q": [[1, 0], [0, 1]]}, or lines such as W_q = 1 0; 0 1.')
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Print q, k and v, too. [default: only with --projected or matrices]")
    ] = False,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Compute attention step by step and print every number.

    The steps are scores, scaling, masking, softmax and the weighted sum."""
    import shutil

    from firth.experiments.playground import playground as played

    given = {"limit": limit, "width": width, "seed": seed, "scale": scale}
    settings: Any = {name: value for name, value in given.items() if value is not None}
    result = played(
        sentence,
        example=cast("ExampleName | None", example),
        table=table,
        query=query,
        vectors=vectors,
        matrices=_matrices(matrix or (), matrices),
        score=score,
        mask=cast("MaskName", mask),
        position=position,
        heads=heads,
        projected=projected,
        **settings,
    )
    if save is not None:
        saved = _save(save, result)
    if as_json:
        print_json(result.facts())
        return
    print(result.text(shutil.get_terminal_size().columns, inputs or None))
    if save is not None:
        print(f"\n{saved}: {len(result.steps)} steps")


def _matrices(given: Sequence[str], file: Path | None) -> dict[str, Any]:
    """The matrices of --matrix and --matrices by name; no name may occur twice."""
    from firth.inspection.own_matrices import read_matrices

    matrices: dict[str, Any] = dict(read_matrices(_read(file))) if file is not None else {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f'--matrix is "{one[:40]}"; expected a name and numbers or a file, such as "W_q=1 0; 0 1"')
        if name.strip() in matrices:
            raise ConfigError(f"matrix {name.strip()} is defined twice. Remove one of them.")
        is_file = Path(value.strip()).suffix.lower() in (".csv", ".tsv", ".txt", ".json")
        matrices[name.strip()] = _read(Path(value.strip())) if is_file else value
    return matrices


def _read(path: Path) -> str:
    """A small text file; a large one is refused before it is read."""
    from firth.inspection.own_matrices import LONGEST

    try:
        if not path.is_file():
            raise ConfigError(f"{path} is not a file; expected a file of matrices")
        if path.stat().st_size > LONGEST:
            raise ConfigError(f"{path} has {path.stat().st_size:,} bytes; a file of matrices has at most {LONGEST:,}")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as text: {getattr(error, 'strerror', None) or error}") from None


def _save(path: Path, result: PlaygroundResult) -> str:
    lead = f"Queries: {' '.join(result.queries)}. Keys: {' '.join(result.keys)}. Steps: scores, softmax, weighted sum."
    heads = range(result.settings.heads)
    sections = [section(f"Head {head + 1}" if len(heads) > 1 else "Attention", lead, [result.figure(head)]) for head in heads]
    return save_figures(path, "Attention step by step", sections, "firth playground")
