"""Playground: attention step by step, with every number, on a sentence or a small table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import cast

from firth.inspection.own_matrices import read_matrices
from firth.inspection.playground import (
    EXAMPLES,
    MASKS,
    NAME,
    OUTPUT,
    ROLES,
    STEPS,
    MaskName,
    PlaygroundResult,
    Settings,
    example,
    of_sentence,
    of_table,
    read_table,
)
from firth.layers.attention.score import SCORES
from firth.layers.position import SCHEMES
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, choices, ideas, named

TABLE = "\n".join(f"{name} → {role}" for name, role in ROLES)
MATRICES = "X = 1 0; 0 1\nW_q = 2 0; 0 2\nW_k = 0 1; 1 0\nW_v = 1 1; 0 1\nW_o = 1 0; 0 1"
WITH_LIMIT: tuple[MaskName, ...] = ("window", "prefix", "lengths", "documents")  # masks that use Settings.limit
INPUTS = (*EXAMPLES, "sentence", "table")
_INPUT = {
    "scores": Choice("scores", "example: scores of 112 and 96, scaled by 1/√64", {"controls": []}),
    "roles": Choice("roles", "example: look up a name's role", {"controls": ["query"]}),
    "sentence": Choice("sentence", "your own sentence", {"controls": ["text", "width", "vectors", "projected", "matrices"]}),
    "table": Choice("table", "your own table of keys and values", {"controls": ["table", "query", "vectors"]}),
}
USUAL = Settings()
MASK_LABELS = {
    "full": "none: every token attends to every token",
    "causal": "causal",
    "strictly_causal": "strictly causal: without the token itself",
    "all_but_self": "all except the token itself",
    "window": "sliding window",
    "prefix": "prefix",
    "lengths": "padding",
    "documents": "separate documents",
}
_STEPS = {
    "scores": "Scores",
    "scaled": "Scaled scores",
    "masked": "Masked scores",
    "weights": "Softmax",
    "sums": "Weighted sum",
    "output": "Output",
}


def steps(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Every step of one head for an example, for the sentence in `text`, or for `table` and `query`; `of` names which."""
    settings = _settings(request)
    head = request.number("head", int, 1, least=1, most=settings.heads) - 1
    progress("computing", 0, 1)
    played, call = _played(request, library, settings)
    python = (
        f"{'import firth' + chr(10) if 'firth.vectors' in call else ''}"
        f"{'from firth.inspection.own_matrices import read_matrices' + chr(10) if 'read_matrices' in call else ''}"
        "from firth.inspection.playground import Settings, example, of_sentence, of_table\n\n"
        f"played = {call}\n"
        "print(played.text())\n"
        f"figures = {{**played.figures({head}), **played.vector_figures({head})}}\n"
    )
    facts = {
        "steps": [{"name": step.name, "equation": step.equation} for step in played.steps],
        "queries": list(played.queries),
        "keys": list(played.keys),
        "heads": settings.heads,
        "caption": played.caption,
        "vectors": [panel.name for panel in played.vector_panels(head)],
    }
    return ViewResult({**played.figures(head), **played.vector_figures(head)}, python, facts)


def _settings(request: ViewRequest) -> Settings:
    scale = request.text("scale", "", most=40).strip()
    return Settings(
        score=request.choice("score", SCORES.kinds, USUAL.score),
        mask=cast(MaskName, request.choice("mask", MASKS, USUAL.mask)),
        limit=request.number("limit", int, USUAL.limit, least=1),
        position=request.choice("position", SCHEMES.kinds, USUAL.position),
        scale=request.number("scale", float) if scale else None,
        heads=request.number("heads", int, USUAL.heads, least=1),
        width=request.number("width", int, USUAL.width, least=1),
        seed=request.number("seed", int, USUAL.seed, least=0),
        projected=request.flag("projected") and "projected" in _controls(request.choice("of", INPUTS, INPUTS[0])),
    )


def _played(request: ViewRequest, library: RunLibrary, settings: Settings) -> tuple[PlaygroundResult, str]:
    """The steps, and the Python call that computes them."""
    of = request.choice("of", INPUTS, INPUTS[0])
    if of in EXAMPLES:
        query = request.text("query", NAME) if "query" in _controls(of) else None
        asked = "" if query is None else f", {query!r}"
        return example(of, settings, query), f"example({of!r}, {settings!r}{asked})"
    name = request.text("vectors", "")
    vectors = library.word_vectors(name) if name else None
    loaded = f", firth.vectors.load({str(library.vectors[name])!r})" if name else ""
    if of == "sentence":
        text = request.text("text", "")
        own = request.text("matrices", "")
        given = f", matrices=read_matrices({own!r})" if own.strip() else ""
        return of_sentence(text, settings, vectors, read_matrices(own)), f"of_sentence({text!r}, {settings!r}{loaded}{given})"
    rows, query = read_table(request.text("table", TABLE)), request.text("query", "")
    return of_table(rows, query, settings, vectors), f"of_table({rows!r}, {query!r}, {settings!r}{loaded})"


def _controls(of: str) -> Sequence[str]:
    """The controls that an input uses; a new example without an entry has none."""
    return cast("Sequence[str]", _INPUT[of].facts["controls"]) if of in _INPUT else ()


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    masks = (replace(one, facts={"limited": one.value in WITH_LIMIT}) for one in choices(MASKS, MASK_LABELS))
    return {
        "of": tuple(_INPUT.get(name, Choice(name, name, {"controls": []})) for name in INPUTS),
        "score": ideas(SCORES),
        "mask": tuple(masks),
        "position": ideas(SCHEMES),
        "vectors": (Choice("", "none: random vectors for a sentence, spelling for a table"), *named(library.vectors)),
        "steps": choices((*STEPS, OUTPUT), _STEPS),
    }


ROOM = Room(
    "playground",
    "Playground",
    "Attention step by step, with every number.",
    {"steps": steps},
    choices=offered,
    notice="With scores of 112 and 96, the weights are 0.88 and 0.12; without the division by √64, they are almost 1 and 0.",
    examples=(
        Example("Scores of 112 and 96", {"of": "scores", "shown": "5"}),
        Example("Look up a name", {"of": "roles", "query": NAME, "shown": "5"}),
        Example("A sentence with a causal mask", {"of": "sentence", "mask": "causal", "shown": "5"}),
        Example("Projections to q, k and v", {"of": "sentence", "projected": "true", "inputs": "true", "shown": "1"}),
        Example("Your own matrices", {"of": "sentence", "text": "a b", "matrices": MATRICES, "inputs": "true", "shown": "6"}),
    ),
    facts={"usual": asdict(USUAL), "text": "the FBI is chasing a criminal", "table": TABLE, "query": NAME},
)
