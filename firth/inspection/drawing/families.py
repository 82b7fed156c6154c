"""Encoder, decoder, and encoder–decoder side by side, each with its masks; the family of the model is in colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from firth.figures.diagram import Box, Label, Point, Tone, extent
from firth.figures.diagram.shapes import SMALL, Shapes, text_width
from firth.inspection.drawing.block import SOFTMAX, Layers
from firth.inspection.drawing.masks import POSITIONS, MaskDrawing, allowed, whole_mask, window_mask
from firth.inspection.drawing.parts import arrow, box, headed, note
from firth.inspection.drawing.sheet import Sheet, wrapped
from firth.inspection.drawing.wording import number, of, say, title_of
from firth.layers.attention import mask
from firth.layers.position import SCHEMES
from firth.layers.token_mixer import MIXERS

_CELL = 12.0
_WIDE, _NARROW = 200.0, 124.0  # of the columns of one Transformer, and of two
_PAIR = 152.0  # from an encoder to its decoder


def families_drawing(layers: Layers, encoder: Layers | None, title: str) -> Sheet:
    """`layers` are those of the model, or of its decoder."""
    own = "pair" if layers.cross else "encoder" if layers.bidirectional else "decoder"
    depth = layers.depth
    both = MaskDrawing("", say("bidirectional"), mask.FULL)
    causal = MaskDrawing("", say("causal"), mask.CAUSAL)
    masks = _masks(layers)
    alone = _Column(say("tokens"), depth, masks if own == "encoder" else [both], say("vectors"))
    writing = _Column(say("tokens"), depth, masks if own == "decoder" else [causal], say("next token"))
    families = {"encoder": (say("encoder"), [alone]), "decoder": (say("decoder"), [writing])}
    image = layers.cross and (encoder is None or not encoder.placed)
    source = say("image") if image else say("source tokens")
    over = encoder.depth if encoder is not None else 0 if image else depth
    families["pair"] = (
        say("encoder–decoder"),
        [
            _Column(source, over, _masks(encoder) if encoder is not None else [both], ""),
            _Column(say("target so far"), depth, masks if own == "pair" else [causal], say("next token")),
        ],
    )
    lines = [say("grids: which tokens (columns) each token (rows) may attend to")]
    config = layers.config
    told = [of(depth, "layer"), say("width {n}", n=number(config.width)), of(config.attention.heads, "head")]
    scheme = SCHEMES[config.position.kind]
    if scheme.acts():
        told.append(say("{scheme} positions", scheme=title_of(scheme)))
    panels = [(name, _panel(columns, own == family), own == family) for family, (name, columns) in families.items()]
    return headed(_beside(panels), title, [", ".join(told), *lines])


class _Column(NamedTuple):
    """Layers with what they read and predict."""

    reads: str
    depth: int
    masks: Sequence[MaskDrawing]
    predicts: str


def _masks(layers: Layers) -> list[MaskDrawing]:
    """Those of its mixers that have one."""
    found = []
    for kind in layers.mixers():
        if MIXERS[kind] in SOFTMAX:
            local = MIXERS[kind].local
            one = (
                window_mask(layers.config.attention, layers.bidirectional)
                if local
                else whole_mask(layers.config, layers.bidirectional, layers.prefix)
            )
            found.append(replace(one, rule=one.title))
    return found


def _panel(columns: Sequence[_Column], own: bool) -> list[Shapes]:
    """The Transformers of a family from below, and their masks under them."""
    wide = _WIDE if len(columns) == 1 else _NARROW
    shapes: list[Shapes] = []
    boxes = []
    for n, column in enumerate(columns):
        x = n * _PAIR
        tone: Tone = ("sky" if column.masks[0].mask is mask.FULL else "blue") if own else "plain"
        lines = [of(column.depth, "layer"), *wrapped(column.masks[0].rule, wide - 20, SMALL)]
        one = box(x, -34, lines, tone, wide)
        boxes.append(one)
        shapes += [note(x, -6, column.reads, size=12), arrow(Point(x, -15), one.below()), one]
        shapes += _grids(x, 18, column.masks, own)
    top = min(one.top for one in boxes) - 26
    if len(columns) == 2:
        source, target = boxes
        shapes.append(arrow(source.above(), Point(source.x, top), Point(target.left - 14, top), Point(target.left - 14, target.y),
                            target.before()))  # fmt: skip
        shapes += _cross(_PAIR / 2, shapes)
    last = boxes[-1]
    shapes += [arrow(last.above(), Point(last.x, top - 4)), note(last.x, top - 15, columns[-1].predicts, size=12)]
    return shapes


def _grids(x: float, top: float, masks: Sequence[MaskDrawing], own: bool) -> list[Shapes]:
    """Each mask under the others."""
    shapes: list[Shapes] = []
    for one in masks:
        for n, words in enumerate(wrapped(one.rule, _NARROW, 11)):
            shapes.append(note(x, top + 6 + 15 * n, words, size=11))
        top = extent(shapes).bottom + 6
        left = x - POSITIONS * _CELL / 2
        for q, row in enumerate(allowed(one.mask)):
            for k, yes in enumerate(row):
                tone: Tone = ("solid" if own else "sky") if yes else "plain"
                shapes.append(Box(left + k * _CELL + 1, top + q * _CELL + 1, _CELL - 2, _CELL - 2, tone=tone))
        top += POSITIONS * _CELL + 12
    return shapes


def _cross(x: float, shapes: Sequence[Shapes]) -> list[Shapes]:
    """What the decoder sees of the source."""
    lines = wrapped(say("each token of the target also attends to the whole source"), 2 * _NARROW)
    low = extent(shapes).bottom + 16
    return [note(x, low + 16 * n, words) for n, words in enumerate(lines)]


def _beside(panels: Sequence[tuple[str, list[Shapes], bool]]) -> list[Shapes]:
    """The panels in a row under their names, their tokens on one line."""
    shapes: list[Shapes] = []
    left = 0.0
    top = min(extent(panel).top for _, panel, _ in panels)
    for name, panel, own in panels:
        around = extent(panel)
        shapes += [shape.moved(left - around.left, 0) for shape in panel]
        shapes.append(Label(left, top - 38, name, 13.5, "start", bold=True))
        shapes += [Label(left, top - 20, say("this model"), SMALL, "start")] if own else []
        left += max(around.width, text_width(name, 13.5) * 1.08) + 36
    return shapes
