"""Which positions each position may attend to, from the masks that the models themselves use."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from firth.figures.diagram import Box, Label, Words
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.parts import headed, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import number, say
from firth.layers.attention import mask
from firth.layers.attention.config import BASED_SPAN, AttentionConfig
from firth.models.config import TransformerSettings

POSITIONS = 8
_CELL = 24.0
_SHORT = 3  # a window that can be seen among 8 positions
_PREFIX = 4


@dataclass(frozen=True)
class MaskDrawing:
    """A mask, and what is said of it."""

    title: str
    rule: str
    mask: mask.Mask
    about: str = ""


def mask_words(config: TransformerSettings, bidirectional: bool, prefix: bool = False) -> str:
    """The mask of layers that see a whole text, in a few words."""
    kind = getattr(config.attention, "mask", None)
    if prefix:
        return say("prefix mask: source both ways, then causal")
    if bidirectional:
        return say("no mask: looks in both directions")
    return say("strictly causal mask") if kind == "strictly_causal" else say("causal mask")


def whole_mask(config: TransformerSettings, bidirectional: bool, prefix: bool) -> MaskDrawing:
    """The mask of a layer without a window."""
    if prefix:
        about = say("a source of {n} tokens, and its target", n=_PREFIX)
        return MaskDrawing(say("prefix"), say("k ≤ q, or k in the source"), mask.prefix([_PREFIX]), about)
    if bidirectional:
        return MaskDrawing(say("bidirectional"), say("every token sees every token"), mask.FULL)
    if getattr(config.attention, "mask", None) == "strictly_causal":
        return MaskDrawing(say("strictly causal"), "k < q", mask.STRICTLY_CAUSAL)
    return MaskDrawing(say("causal"), "k ≤ q", mask.CAUSAL)


def span_of(attention: AttentionConfig) -> int:
    """The tokens in the window of a layer that has one."""
    return getattr(attention, "span", None) or BASED_SPAN


def window_mask(attention: AttentionConfig, bidirectional: bool) -> MaskDrawing:
    """That of a layer with a window, which is drawn shorter where it would not fit."""
    span = span_of(attention)
    shown = span if span < POSITIONS else _SHORT
    about = "" if shown == span else say("drawn with a window of {shown} instead of {n}", shown=shown, n=number(span))
    title = say("window of {n}", n=number(span))
    if bidirectional:
        return MaskDrawing(title, "|q − k| ≤ (span − 1)/2", mask.around(shown), about)
    return MaskDrawing(title, "q − span < k ≤ q", mask.window(shown), about)


def mask_drawing(masks: list[tuple[str, MaskDrawing]], title: str) -> Sheet:
    """Grids side by side, each under the name of the layers that have it."""
    shapes: list[Shapes] = []
    for n, (where, one) in enumerate(masks):
        shapes += [shape.moved(n * (POSITIONS * _CELL + 90), 0) for shape in _grid(where, one)]
    legend: list[Words] = [say("rows: queries q; columns: keys k; filled: the query may attend to the key")]
    return headed(shapes, title, legend)


def allowed(of: mask.Mask) -> list[list[bool]]:
    """allowed[q][k] for the first positions."""
    q_QK, k_QK = torch.meshgrid(torch.arange(POSITIONS), torch.arange(POSITIONS), indexing="ij")
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    found: list[list[bool]] = (
        of.allowed(zero, zero, q_QK[None, None], k_QK[None, None]).expand(1, 1, POSITIONS, POSITIONS)[0, 0].tolist()
    )
    return found


def _grid(where: str, one: MaskDrawing) -> list[Shapes]:
    shapes: list[Shapes] = [Label(0, -64, where, 12.5, "start", bold=True), note(0, -46, f"{one.title}: {one.rule}", "start")]
    for q, row in enumerate(allowed(one.mask)):
        shapes.append(note(-14, (q + 0.5) * _CELL, str(q + 1)))
        shapes.append(note((q + 0.5) * _CELL, -14, str(q + 1)))
        for k, yes in enumerate(row):
            shapes.append(Box(k * _CELL + 1, q * _CELL + 1, _CELL - 2, _CELL - 2, tone="solid" if yes else "plain"))
    if one.about:
        shapes.append(note(0, POSITIONS * _CELL + 16, one.about, "start"))
    return shapes
