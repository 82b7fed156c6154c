"""Attention: who looks at whom, in any model that has attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from firth.errors import DataError, FirthError
from firth.inspection.attention import MOST_TOKENS, Attention
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.tasks.run import Run
from firth.text import Tokenizer

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.figures.figure import Figure


MOST_LINES = 128  # tokens between which lines are drawn: more is metres of page


class _Look(NamedTuple):
    """What is read: the arguments of Model.attention."""

    text: str
    target: str | None
    context: str | None


# The last reading of each model, so that another layer, head or part needs no second one. A model is used by one at a time.
_READ: WeakKeyDictionary[Run[Any], tuple[_Look, Attention]] = WeakKeyDictionary()


class _Picture(NamedTuple):
    """A figure of an Attention, as it is made here and as Python that makes it."""

    method: str
    numbers: tuple[int, ...] = ()

    def of(self, seen: Attention) -> Figure:
        found: Figure = getattr(seen, self.method)(*self.numbers)
        return found

    def python(self) -> str:
        return f"seen.{self.method}({', '.join(map(str, self.numbers))})"


def overview(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Every layer and head as a thumbnail, and what there is to choose."""
    shown = _shown(asked, shelf, progress, {"overview": _Picture("overview")})
    cells = np.shape(shown.figures["overview"].plot.data[0].z)  # by these a click finds its layer and head
    return replace(shown, facts={**shown.facts, "cells": list(cells)})


def head(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """One head in full, or the mean of a layer's heads: as cells, and as lines between tokens if they are few."""
    layer = asked.number("layer", int, 0, least=0)
    mean = asked.text("head", "mean", most=20) == "mean"
    which = (layer,) if mean else (layer, asked.number("head", int, least=0))
    with shelf.using(asked.text("run"), progress) as model:
        seen = _seen(asked, model, progress)
    few = max(len(seen.queries), len(seen.keys)) <= MOST_LINES
    lines = {"lines": _Picture("lines", which)} if few else {}
    return _shown(asked, shelf, progress, {"map": _Picture("figure", which)} | lines)


def layers(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Entropy by layer and head, and where attention leads through all layers, if it is self-attention."""
    with shelf.using(asked.text("run"), progress) as model:
        seen = _seen(asked, model, progress)
    own = {} if seen.part == "cross" or seen.queries != seen.keys else {"rollout": _Picture("rollout_figure")}
    return _shown(asked, shelf, progress, {"entropy": _Picture("entropy_figure")} | own)


def _shown(asked: Asked, shelf: Shelf, progress: Progress, pictures: Mapping[str, _Picture]) -> Shown:
    run, look = asked.text("run"), _look(asked)
    figures: dict[str, Figure] = {}
    with shelf.using(run, progress) as model:
        seen = _seen(asked, model, progress)
        for n, (name, picture) in enumerate(pictures.items()):
            progress(n, len(pictures), f"drawing {name}")
            figures[name] = picture.of(seen)
    given = [repr(look.text)]
    given += [f"{name}={value!r}" for name, value in (("target", look.target), ("context", look.context)) if value is not None]
    given += [f"part={seen.part!r}"] if len(seen.parts) > 1 else []
    lines = [f'    "{name}": {picture.python()},\n' for name, picture in pictures.items()]
    python = (
        f"import firth\n\nmodel = firth.load({str(shelf.path(run))!r})\n"
        f"seen = model.attention({', '.join(given)}){'.merged()' if seen.words else ''}\n"
        f"figures = {{\n{''.join(lines)}}}\n"
        f'figures["{next(iter(pictures))}"].plot\n'
    )
    return Shown(figures, python, _facts(seen))


def _seen(asked: Asked, model: Run[Any], progress: Progress) -> Attention:
    look = _look(asked)
    kept = _READ.get(model)
    if kept is None or kept[0] != look:
        tokens = _count(model.source_tokenizer, look.text) + _count(model.tokenizer, look.context or "")
        if tokens > MOST_TOKENS:
            raise DataError(f"the text has {tokens:,} tokens; this room shows at most {MOST_TOKENS:,} at a time; shorten it")
        progress(0, 1, "reading")
        kept = look, model.attention(look.text, target=look.target, context=look.context)
        _READ[model] = kept
    seen, part = kept[1], asked.text("part", "", most=20)
    seen = seen.of(part) if part else seen
    return seen.merged() if asked.flag("words") else seen


def _count(tokenizer: Tokenizer, text: str) -> int:
    """Tokens, or 0 where there are none for it: that is told by who reads it."""
    return 0 if tokenizer.unknown is None and tokenizer.unseen(text) else len(tokenizer.encode(text))


def _look(asked: Asked) -> _Look:
    return _Look(asked.text("text", ""), asked.text("target", "") or None, asked.text("context", "") or None)


def _facts(seen: Attention) -> dict[str, object]:
    return {
        "parts": list(seen.parts),
        "part": seen.part,
        "layers": list(seen.layers),
        "heads": seen.heads,
        "queries": len(seen.queries),
        "keys": len(seen.keys),
        "pieces": seen.pieces,
    }


def usable(shelf: Shelf) -> Usable:
    """All runs, those with the most to see first: many heads, one, none. Of the last the room says that they have none."""
    names = sorted(shelf.runs, key=lambda name: _rank(shelf, name))
    return Usable(
        tuple(names),
        "There is no run to look into: train one with attention, as `firth train docs-char-transformer --out runs/gpt`.",
    )


def _rank(shelf: Shelf, name: str) -> int:
    try:
        recipe: Recipe = shelf.recipe(name)
    except FirthError:
        return 2
    model = recipe.model
    if model.kind in ("transformer", "prefix"):
        return 0
    return 1 if isinstance(model, RecurrentSeq2SeqConfig) and model.attention != "none" else 2


ROOM = Room(
    "attention",
    "Attention",
    "Who looks at whom: every layer and head, one of them in full, and what becomes of it through the layers.",
    {"overview": overview, "head": head, "layers": layers},
    usable,
)
