"""Attention: the attention weights of every layer and head, for any run that has attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from firth.errors import DataError
from firth.inspection.attention import MOST_TOKENS, Attention
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, choices
from firth.serving.lab.starters import GPT
from firth.serving.lab.token_count import count_source_tokens, count_tokens
from firth.serving.lab.unknown_text import read, read_target
from firth.tasks.ability import ATTENTION, STATES

if TYPE_CHECKING:
    from firth.figures.figure import Figure
    from firth.serving.lab.library import LoadedRun

MOST_LINES = 128  # tokens; with more, the picture of lines would be metres long
MEAN = "mean"  # of all heads, in the place of a head's number
_PARTS = {
    "self": "self-attention",
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "cross-attention",
}
_NOTICE = "Look for heads with a pattern of their own"
_NOTICES = {
    "self": f"{_NOTICE}: the previous token, the first one, or the start of the word.",
    "encoder": f"{_NOTICE}: the token before, the one after, or the end of the sentence.",
    "decoder": f"{_NOTICE}: the previous token of the translation, or the first one.",
    "cross": "Each row is a token that the model writes, each column a token that it reads. Look for heads that find the part of "
    "the text from which the token comes.",
}
_HEADINGS = {
    "overview": "Every layer and head",
    "map": "One head in full",
    "lines": "The same weights as lines between tokens",
    "entropy": "How widely each head spreads its attention (entropy)",
    "rollout": "Attention through all layers (rollout)",
}


class _AttentionInputs(NamedTuple):
    """The arguments of a run's `attention`."""

    text: str
    target: str | None
    context: str | None


# The latest attention of each loaded run, so that another layer, head or part needs no second forward pass.
_LATEST: WeakKeyDictionary[LoadedRun, tuple[_AttentionInputs, Attention]] = WeakKeyDictionary()


class _FigureCall(NamedTuple):
    """A method of Attention that returns a figure, called here and written as Python code."""

    method: str
    arguments: tuple[int, ...] = ()

    def figure(self, seen: Attention) -> Figure:
        figure: Figure = getattr(seen, self.method)(*self.arguments)
        return figure

    def python(self) -> str:
        return f"seen.{self.method}({', '.join(map(str, self.arguments))})"


def overview(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Every layer and head as a thumbnail, and the parts, layers and heads to choose from."""
    result = _result(request, library, progress, {"overview": _FigureCall("overview")})
    cells = np.shape(result.figures["overview"].plot.data[0].z)  # from these the page computes which thumbnail was clicked
    return replace(result, facts={**result.facts, "cells": list(cells)})


def head(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """One head in full, or the mean of a layer's heads: as a heat map, and as lines if there are few tokens."""
    layer = request.number("layer", int, 0, least=0)
    mean = request.text("head", MEAN, most=20) == MEAN
    which = (layer,) if mean else (layer, request.number("head", int, least=0))
    with library.using(request.text("run"), progress) as run:
        seen = _attention(request, run, progress)
    few = max(len(seen.queries), len(seen.keys)) <= MOST_LINES
    lines = {"lines": _FigureCall("lines", which)} if few else {}
    result = _result(request, library, progress, {"map": _FigureCall("figure", which)} | lines)
    hint = f"Lines are drawn between at most {MOST_LINES} tokens. Merge subwords into words, or shorten the text."
    return replace(result, facts={**result.facts, "no_lines": None if few else hint})


def layers(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Entropy by layer and head, and for self-attention the rollout through all layers."""
    with library.using(request.text("run"), progress) as run:
        seen = _attention(request, run, progress)
    own = {} if seen.part == "cross" or seen.queries != seen.keys else {"rollout": _FigureCall("rollout_figure")}
    return _result(request, library, progress, {"entropy": _FigureCall("entropy_figure")} | own)


def _result(request: ViewRequest, library: RunLibrary, progress: Progress, calls: Mapping[str, _FigureCall]) -> ViewResult:
    name = request.text("run")
    figures: dict[str, Figure] = {}
    with library.using(name, progress) as run:
        inputs = _inputs(request, run)
        seen = _attention(request, run, progress)
        for n, (figure, call) in enumerate(calls.items()):
            progress(f"drawing {figure}", n, len(calls))
            figures[figure] = call.figure(seen)
    given = [repr(inputs.text)]
    given += [f"{key}={value!r}" for key, value in (("target", inputs.target), ("context", inputs.context)) if value is not None]
    given += [f"part={seen.part!r}"] if len(seen.parts) > 1 else []
    lines = [f'    "{figure}": {call.python()},' for figure, call in calls.items()]
    attention = f"seen = model.attention({', '.join(given)}){'.merged()' if seen.words else ''}"
    python = library.program(name, attention, "figures = {", *lines, "}")
    return ViewResult(figures, python, _facts(seen), headings=_HEADINGS)


def _attention(request: ViewRequest, run: LoadedRun, progress: Progress) -> Attention:
    inputs = _inputs(request, run)
    latest = _LATEST.get(run)
    if latest is None or latest[0] != inputs:
        tokens = count_source_tokens(run, inputs.text) + count_tokens(run, inputs.context or "")
        if tokens > MOST_TOKENS:
            raise DataError(f"the text has {tokens:,} tokens; this room shows at most {MOST_TOKENS:,}. Shorten the text.")
        progress("computing attention", 0, 1)
        latest = inputs, run.attention(inputs.text, target=inputs.target, context=inputs.context)
        _LATEST[run] = latest
    seen, part = latest[1], request.text("part", "", most=20)
    seen = seen.of(part) if part else seen
    return seen.merged() if request.flag("words") else seen


def _inputs(request: ViewRequest, run: LoadedRun) -> _AttentionInputs:
    target, context = (read_target(request, name, run) or None for name in ("target", "context"))
    return _AttentionInputs(read(request, "text", run, ""), target, context)


def _facts(seen: Attention) -> dict[str, object]:
    heads = (*_counted(range(seen.heads)), Choice(MEAN, "mean of all heads"))
    offered = {"part": choices(seen.parts, _PARTS), "layer": _counted(seen.layers), "head": heads}
    return {
        "choices": {name: [one.json() for one in some] for name, some in offered.items()},
        "part": seen.part,
        "notice": _NOTICES.get(seen.part, ROOM.notice),
        "layers": list(seen.layers),
        "heads": seen.heads,
        "queries": len(seen.queries),
        "keys": len(seen.keys),
        "pieces": seen.pieces,
    }


def _counted(numbers: Iterable[int]) -> tuple[Choice, ...]:
    """Layers or heads, whose labels count from 1."""
    return tuple(Choice(str(n), str(n + 1)) for n in numbers)


ROOM = Room(
    "attention",
    "Attention",
    "Which tokens each token attends to, in every head.",
    {"overview": overview, "head": head, "layers": layers},
    ability=ATTENTION,
    first=lambda facts: facts.family != "seq2seq" and not facts.can(STATES),
    if_none="There is no run with attention. Train a small Transformer on the documentation on your disk:",
    starter=GPT,
    notice=f"{_NOTICE}.",
    examples=(
        Example("The mean of all heads", {"head": MEAN}),
        Example("Words instead of subwords", {"words": "true"}),
        Example("One head", {"head": "0", "words": "false"}),
    ),
)
