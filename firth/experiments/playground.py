"""playground(): attention step by step, on a sentence, a table or a built-in example."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from firth.errors import ConfigError, option
from firth.inspection.own_matrices import Given
from firth.inspection.playground import (
    LIMITED,
    ExampleName,
    MaskName,
    PlaygroundResult,
    Settings,
    Vectors,
    example,
    of_sentence,
    of_table,
    read_table,
)
from firth.layers.attention.score import ScoreKind
from firth.layers.position import PositionKind
from firth.text.data.running_text import read_text
from firth.vectors import load

Rows = Sequence[tuple[str, str]]  # keys and values


class SettingsKeywords(TypedDict, total=False):
    """The fields of Settings."""

    score: ScoreKind
    mask: MaskName
    limit: int
    position: PositionKind
    scale: float | None
    heads: int
    width: int
    seed: int
    projected: bool


def playground(
    sentence: str | None = None,
    *,
    example: ExampleName | None = None,
    table: str | Path | Rows | None = None,
    query: str | None = None,
    vectors: Vectors | str | Path | None = None,
    matrices: Given | None = None,
    **settings: Unpack[SettingsKeywords],
) -> PlaygroundResult:
    """Compute attention step by step, with every number: `.text()`, `.figure()`, `.weights`, `.step(name)`.

    The words of `sentence` attend to each other. Or `query` is looked up in `table`, pairs of keys and values or a file of them.
    Or the `example` "scores" or "roles" is computed. `vectors`: WordVectors or a file; by default random vectors. `matrices`:
    your own X, W_q, W_k, W_v, W_o, Q or P by name. The `settings` are `score`, `mask`, `limit` (the size of some
    masks), `position`, `scale`, `heads`, `width` and `seed` of random vectors, and `projected` (random W_q, W_k, W_v and W_o)."""
    _check_input(sentence, example, table, query, vectors)
    if "limit" in settings and settings.get("mask", Settings.mask) not in LIMITED:
        mask = option(f"mask={settings.get('mask', Settings.mask)}")
        raise ConfigError(f"{option('limit')} does not apply to {mask}, only to {', '.join(LIMITED)}. Remove it.")
    drawn = sentence is not None and vectors is None  # the words get random vectors
    if "width" in settings and not drawn:
        raise ConfigError(f"{option('width')} only applies to a sentence without {option('vectors')}. Remove it.")
    if matrices and sentence is None:
        raise ConfigError(f"{option('matrices', '--matrix and --matrices')} need a sentence. Add one, or remove them.")
    result = _computed(sentence, example, table, query, vectors, matrices, Settings(**settings))
    if "seed" in settings and not drawn and not result.parameters:
        raise ConfigError(f"{option('seed')} has no effect, because nothing here is random. Remove it.")
    return result


def _check_input(sentence: object, example: object, table: object, query: object, vectors: object) -> None:
    inputs = (("a sentence", sentence), (option("example"), example), (option("table"), table))
    given = [name for name, value in inputs if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} cannot be combined. Give only one of them")
    roles = option('example="roles"', "--example roles")
    if table is not None and query is None:
        raise ConfigError(f"{option('table')} needs a query to look up. Add {option('query')}")
    if query is not None and table is None and example is None:
        raise ConfigError(f"{option('query')} needs a table to look it up in. Add {option('table')}, or {roles}")
    if vectors is not None and sentence is None and table is None:
        only = f"Give a sentence, or {option('table')}"
        raise ConfigError(f"{option('vectors')} does not apply to an example, which has its own vectors. {only}")


def _computed(
    sentence: str | None,
    name: ExampleName | None,
    table: str | Path | Rows | None,
    query: str | None,
    vectors: Vectors | str | Path | None,
    matrices: Given | None,
    settings: Settings,
) -> PlaygroundResult:
    vectors = load(vectors) if isinstance(vectors, str | Path) else vectors
    if sentence is not None:
        return of_sentence(sentence, settings, vectors, matrices)
    if table is not None and query is not None:
        rows = read_table(read_text(str(table))) if isinstance(table, str | Path) else table
        return of_table(rows, query, settings, vectors)
    return example(name or "scores", settings, query)
