"""Playground: attention step by step, with every number, on a sentence or a small table."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from firth.inspection.playground import (
    EXAMPLES,
    MASKS,
    POSITIONS,
    ROLES,
    SCORES,
    MaskName,
    PlaygroundResult,
    Settings,
    example,
    of_sentence,
    of_table,
    read_table,
)
from firth.serving.lab.room import Asked, Progress, Room, Shown
from firth.serving.lab.shelf import Shelf

if TYPE_CHECKING:
    from firth.layers.attention.score import ScoreKind
    from firth.layers.position import PositionKind

_TABLE = "\n".join(f"{name} → {role}" for name, role in ROLES)


def steps(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Every step of one head, for what `of` names: an example, the sentence in `text`, or `table` and `query`."""
    settings = _settings(asked)
    head = asked.number("head", int, 0, least=0, most=settings.heads - 1)
    progress(0, 1, "computing")
    played, call = _computed(asked, shelf, settings)
    python = (
        f"{'import firth' + chr(10) if 'firth.vectors' in call else ''}"
        "from firth.inspection.playground import Settings, example, of_sentence, of_table\n\n"
        f"played = {call}\n"
        "print(played.text())\n"
        f"figures = played.figures({head})\n"
        f"played.plot({head})\n"
    )
    facts = {
        "steps": [{"name": step.name, "equation": step.equation} for step in played.steps],
        "queries": list(played.queries),
        "keys": list(played.keys),
        "heads": settings.heads,
    }
    return Shown(played.figures(head), python, facts)


def _settings(asked: Asked) -> Settings:
    scale = asked.text("scale", "", most=40).strip()
    return Settings(
        score=cast("ScoreKind", asked.choice("score", SCORES, "scaled_dot")),
        mask=cast(MaskName, asked.choice("mask", MASKS, "full")),
        limit=asked.number("limit", int, 2, least=1),
        position=cast("PositionKind", asked.choice("position", POSITIONS, "none")),
        scale=asked.number("scale", float) if scale else None,
        heads=asked.number("heads", int, 1, least=1),
        width=asked.number("width", int, 8, least=1),
        seed=asked.number("seed", int, 0, least=0),
    )


def _computed(asked: Asked, shelf: Shelf, settings: Settings) -> tuple[PlaygroundResult, str]:
    """The steps, and the call that makes the same."""
    of = asked.choice("of", (*EXAMPLES, "sentence", "table"), "scores")
    if of in EXAMPLES:
        return example(of, settings), f"example({of!r}, {settings!r})"
    name = asked.text("vectors", "")
    vectors = shelf.words(name) if name else None
    loaded = f", firth.vectors.load({str(shelf.vectors[name])!r})" if name else ""
    if of == "sentence":
        text = asked.text("text", "")
        return of_sentence(text, settings, vectors), f"of_sentence({text!r}, {settings!r}{loaded})"
    rows, query = read_table(asked.text("table", _TABLE)), asked.text("query", "")
    return of_table(rows, query, settings, vectors), f"of_table({rows!r}, {query!r}, {settings!r}{loaded})"


ROOM = Room(
    "playground",
    "Playground",
    "Attention step by step, with all its numbers: scores, scaled, masked, softmax, weighted sum.",
    {"steps": steps},
)
