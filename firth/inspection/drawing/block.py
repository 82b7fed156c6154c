"""The Transformer block: its layers, its norms and the residual stream around them, in the order of firth/layers/block.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from firth.figures.diagram import Box, Formula, Frame, Label, Point, Tone, Words, box_width, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.masks import mask_words, span_of
from firth.inspection.drawing.parts import arrow, box, circle, folded, gap, headed, line, listed, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import decimal, number, of, on_slide, say, title_of
from firth.layers.activation import ACTIVATIONS
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.score import SCORES
from firth.layers.block import Block
from firth.layers.norm import NORMS
from firth.layers.position import SCHEMES, PositionScheme
from firth.layers.self_attention import SelfAttention, WindowAttention
from firth.layers.token_mixer import MIXERS
from firth.models.config import TransformerSettings
from firth.models.uninitialised import Uninitialised

SOFTMAX = (SelfAttention, WindowAttention)  # the mixers that weigh tokens with a softmax of scores
SIDE = 26.0  # between a column and the residual stream beside it

_EQUATIONS = {
    "pre": (r"x \leftarrow x + A(N(x))", r"x \leftarrow x + F(N(x))"),
    "post": (r"x \leftarrow N(x + A(x))", r"x \leftarrow N(x + F(x))"),
    "sandwich": (r"x \leftarrow x + N'(A(N(x)))", r"x \leftarrow x + N'(F(N(x)))"),
    "after": (r"x \leftarrow x + N'(A(x))", r"x \leftarrow x + N'(F(x))"),
}
_CROSS = {
    "pre": r"x \leftarrow x + C(N(x), m)",
    "post": r"x \leftarrow N(x + C(x, m))",
    "sandwich": r"x \leftarrow x + N'(C(N(x), m))",
    "after": r"x \leftarrow x + N'(C(x, m))",
}


@dataclass(frozen=True)
class Layers:
    """Consecutive layers of one model, all alike but for what mixes their tokens."""

    config: TransformerSettings
    depth: int
    bidirectional: bool = False
    cross: bool = False
    prefix: bool = False
    groups: int | None = None  # of layers that share their weights
    placed: bool = True  # whether positions act in it

    def mixers(self) -> dict[str, list[int]]:
        """The layers of each kind of mixer."""
        found: dict[str, list[int]] = {}
        for layer in range(self.depth):
            found.setdefault(self.config.attention.in_layer(layer), []).append(layer)
        return found

    def linear(self) -> list[str]:
        """The mixers that keep a state of one size."""
        return [kind for kind in self.mixers() if MIXERS[kind] not in SOFTMAX and self.block(kind).attention.state_numbers()]

    def block(self, mixer: str) -> Block:
        """A block with this mixer, of which only the shapes are there."""
        with torch.device("meta"), Uninitialised():
            own = self.config.block(bidirectional=self.bidirectional, cross=self.cross, mixer=mixer)
            return Block(own)


@dataclass(frozen=True)
class BlockColumn:
    """Shapes above each other, and the points where the stream enters and leaves."""

    shapes: list[Shapes]
    start: Point
    end: Point
    cross: Box | None = None  # attention to a source, for its arrow


def attention_lines(layers: Layers) -> list[Words]:
    """The box of a block's self-attention: what mixes the tokens, its heads, mask and positions."""
    config, mixers = layers.config, layers.mixers()
    if len(mixers) > 1:
        lines: list[Words] = [say("attention, of two kinds") if len(mixers) == 2 else say("attention, of several kinds")]
        for kind, numbers in mixers.items():
            lines.append(f"{title_of(MIXERS[kind])}{span_words(config.attention, kind)}: {listed(numbers)}")
    else:
        (kind,) = mixers
        lines = [f"{title_of(MIXERS[kind])}{span_words(config.attention, kind)}"]
    lines.append(heads_words(config.attention, config.width, mixers))
    known = [MIXERS[kind] for kind in mixers if MIXERS[kind] in SOFTMAX]
    if known:
        lines += score_words(config.attention)
        lines.append(mask_words(layers.config, layers.bidirectional, layers.prefix))
    for kind in mixers:
        if MIXERS[kind] not in SOFTMAX and MIXERS[kind].latex:
            lines.append(Formula(MIXERS[kind].latex))
    return folded(lines + (position_words(config, list(mixers)) if layers.placed else []))


def heads_words(attention: AttentionConfig, width: int, mixers: Sequence[str] | dict[str, list[int]] = ("softmax",)) -> str:
    """Heads, their width where all mixers have the same, and the key/value heads."""
    if not all(MIXERS[kind] in SOFTMAX for kind in mixers):
        return of(attention.heads, "head")
    words = say("{heads} of width {n}", heads=of(attention.heads, "head"), n=number(attention.per_head(width)))
    return words if attention.groups == attention.heads else f"{words}, {of(attention.groups, 'key/value head')}"


def span_words(attention: AttentionConfig, kind: str) -> str:
    return f" ({number(span_of(attention))})" if MIXERS[kind].local else ""


def score_words(attention: AttentionConfig) -> list[Words]:
    """The score, unless it is the usual one, and what is done to q and k before."""
    lines: list[Words] = []
    if attention.score != AttentionConfig.score:
        lines.append(say("score: {score}", score=title_of(SCORES[attention.score])))
    if attention.qk_norm:
        lines.append(say("q and k normalised"))
    if attention.cap is not None:
        lines.append(say("scores bounded by {n}", n=decimal(attention.cap)))
    return lines


def position_words(config: TransformerSettings, mixers: Sequence[str]) -> list[Words]:
    """Where the positions act inside attention, and in which mixers, if not in all."""
    scheme = SCHEMES[config.position.kind]
    acting = [kind for kind in mixers if acts_in(scheme, kind)]
    if not (scheme.turns or scheme.acts_on_scores) or not acting:
        return []
    name = title_of(scheme)
    match scheme.turns, scheme.acts_on_scores:
        case True, True:
            where = say("positions: {scheme}, on q, k and scores", scheme=name)
        case True, False:
            where = say("positions: {scheme}, on q and k", scheme=name)
        case _:
            where = say("positions: {scheme}, on scores", scheme=name)
    return [where if len(acting) == len(mixers) else f"{where} ({', '.join(title_of(MIXERS[kind]) for kind in acting)})"]


def acts_in(scheme: type[PositionScheme], mixer: str) -> bool:
    """True if positions of this scheme act inside the mixer."""
    return (scheme.turns and MIXERS[mixer].takes_turn) or (scheme.acts_on_scores and MIXERS[mixer].takes_bias)


def feedforward_lines(config: TransformerSettings) -> list[Words]:
    wide = f"{number(config.width)} → {number(config.inner)} → {number(config.width)}"
    return folded([say("feed-forward network"), wide, title_of(ACTIVATIONS[config.feedforward.activation])])


def cross_lines(config: TransformerSettings) -> list[Words]:
    lines: list[Words] = [say("attention to the source"), heads_words(config.attention, config.width)]
    return folded([*lines, say("mask: the source's tokens")])


def norm_lines(config: TransformerSettings) -> list[Words]:
    return [title_of(NORMS[config.norm.kind])]


def widest(layers: Layers) -> float:
    lines = [attention_lines(layers), feedforward_lines(layers.config)]
    return max(box_width(one) for one in (*lines, *([cross_lines(layers.config)] if layers.cross else [])))


def block_column(x: float, bottom: float, layers: Layers, side: int = -1) -> BlockColumn:
    """A block that grows upwards from `bottom`; the residual stream is on the left (`side` −1) or on the right."""
    if layers.config.feedforward.parallel:
        return _parallel(x, bottom, layers, side)
    attention, feedforward = attention_lines(layers), feedforward_lines(layers.config)
    sublayers: list[tuple[Tone, list[Words]]] = [("blue", attention), ("green", feedforward)]
    sublayers[1:1] = [("blue", cross_lines(layers.config))] if layers.cross else []
    shapes: list[Shapes] = []
    wide, y, boxes = widest(layers), bottom, []
    for tone, lines in sublayers:
        drawn, own, y = _sublayer(x, y, box(0, 0, lines, tone, wide), layers.config, side)
        shapes += drawn
        boxes.append(own)
    return BlockColumn(shapes, Point(x, bottom), Point(x, y), boxes[1] if layers.cross else None)


def _sublayer(x: float, bottom: float, layer: Box, config: TransformerSettings, side: int) -> tuple[list[Shapes], Box, float]:
    """A layer with its norms, and the sum with its input; the point where the next one begins."""
    placement, at = config.norm.placement, Point(x, bottom)
    shapes: list[Shapes] = []
    fork = bottom - (7 if on_slide() else 12)
    y = bottom - gap() - 6
    for lines in [norm_lines(config)] if placement in ("pre", "sandwich") else []:
        at, y = _stacked(shapes, at, box(x, y, lines, "orange", layer.width * 0.62))
    own = layer.moved(x - layer.x, y - layer.bottom)
    at, y = _stacked(shapes, at, own)
    for lines in [norm_lines(config)] if placement in ("sandwich", "after") else []:
        at, y = _stacked(shapes, at, box(x, y, lines, "orange", layer.width * 0.62))
    plus = circle(x, y + gap() - 8 - 18, "+")
    beside = x + side * (layer.width / 2 + SIDE)
    edge = plus.before() if side < 0 else plus.behind()
    shapes += [
        arrow(at, plus.below()),
        plus,
        arrow(Point(x, fork), Point(beside, fork), Point(beside, plus.y), edge),
    ]
    at, y = plus.above(), plus.top - gap() + 4
    if placement == "post":
        at, y = _stacked(shapes, at, box(x, y, norm_lines(config), "orange", layer.width * 0.62))
    return shapes, own, at.y


def _stacked(shapes: list[Shapes], at: Point, one: Box) -> tuple[Point, float]:
    """Add a box and the arrow to it; the point where it is left, and the bottom of the next."""
    shapes += [arrow(at, one.below()), one]
    return one.above(), one.top - gap()


def _parallel(x: float, bottom: float, layers: Layers, side: int) -> BlockColumn:
    """Attention and feed-forward network side by side, after one norm, or each after its own."""
    config = layers.config
    shapes: list[Shapes] = []
    two = config.feedforward.parallel == "two_norms"
    attention, feedforward = box(0, 0, attention_lines(layers), "blue"), box(0, 0, feedforward_lines(config), "green")
    apart = (attention.width + feedforward.width) / 2 + 24
    x_a = x - apart * attention.width / (attention.width + feedforward.width) - 6
    x_f = x_a + apart
    fork, y = bottom - 12, bottom - gap() - 20
    shapes.append(line(Point(x, bottom), Point(x, fork - 8)))
    split = fork - 8
    if not two:
        shared = box(x, y + 14, norm_lines(config), "orange", 130)
        shapes[-1:] = [arrow(Point(x, bottom), shared.below()), shared, line(shared.above(), Point(x, shared.top - 10))]
        split, y = shared.top - 10, shared.top - gap() - 12
    high = max(attention.height, feedforward.height)
    tops = []
    for own, place in ((attention, x_a), (feedforward, x_f)):
        start, under = Point(place, split), y
        shapes.append(line(Point(x, split), start))
        if two:
            norm = box(place, under, norm_lines(config), "orange", 110)
            start, under = _stacked(shapes, start, norm)
        placed = own.moved(place - own.x, under - high / 2 - own.y)
        shapes += [arrow(start, placed.below()), placed]
        tops.append(placed)
    top = min(placed.top for placed in tops)
    plus = circle(x, top - gap() - 8, "+")
    for placed, edge in zip(tops, (plus.before(), plus.behind()), strict=True):
        shapes.append(arrow(placed.above(), Point(placed.x, plus.y), edge))
    outer = (tops[0].left if side < 0 else tops[1].right) + side * SIDE
    joined = plus.top - 12
    shapes += [plus, line(plus.above(), Point(x, joined))]
    second = circle(x, joined - 11, "+")
    edge = second.before() if side < 0 else second.behind()
    shapes += [second, arrow(Point(x, fork + 4), Point(outer, fork + 4), Point(outer, second.y), edge)]
    return BlockColumn(shapes, Point(x, bottom), second.above())


def framed(column: BlockColumn, label: str) -> tuple[list[Shapes], Frame]:
    """A column in a frame that says how often it is repeated."""
    around = extent(column.shapes)
    frame = Frame(around.left - 14, column.end.y - 24, around.width + 28, column.start.y - column.end.y + 28)
    out = line(column.end, frame.above(column.end.x))
    return [frame, *column.shapes, out, Label(frame.left + 10, frame.top + 14, label, 13, "start", bold=True)], frame


def block_drawing(layers: Layers, title: str) -> Sheet:
    """The block by itself, the inside of its feed-forward network beside it, and its equations."""
    column = block_column(0, 0, layers)
    shapes: list[Shapes] = [*column.shapes, line(Point(0, 26), column.start), note(0, 36, Formula("x"), size=13)]
    shapes += [arrow(column.end, Point(0, column.end.y - 26)), note(0, column.end.y - 36, Formula("x"), size=13)]
    around = extent(shapes)
    inside = _network(layers.config)
    own = extent(inside)
    middle = (around.top + around.bottom) / 2 - (own.top + own.bottom) / 2
    shapes += [shape.moved(around.right + 46 - own.left, middle) for shape in inside]
    placement = layers.config.norm.placement
    lines: list[Words] = [say("norm placement: {placement}", placement=placement)]
    if layers.config.feedforward.parallel:
        lines.append(say("attention and feed-forward network in parallel"))
    if layers.config.embedding.norm == "replaces_first":
        lines.append(say("the first layer has no norm before its attention: the embedding has one"))
    return headed(shapes, title, lines, _equations(layers))


def _equations(layers: Layers) -> list[Words]:
    config, placement = layers.config, layers.config.norm.placement
    norm = NORMS[config.norm.kind]
    if config.feedforward.parallel:
        second = "N'" if config.feedforward.parallel == "two_norms" else "N"
        equations = [rf"x \leftarrow x + A(N(x)) + F({second}(x))"]
    else:
        equations = list(_EQUATIONS[placement])
        equations[1:1] = [_CROSS[placement]] if layers.cross else []
    lines: list[Words] = [*map(Formula, equations)] if on_slide() else [Formula(r", \quad ".join(equations))]
    return lines + ([Formula(rf"N(x) = {norm.latex}")] if norm.latex else [f"N: {title_of(norm)}"])


def _network(config: TransformerSettings) -> list[Shapes]:
    """The inside of the feed-forward network, plain or gated."""
    kind = ACTIVATIONS[config.feedforward.activation]
    inner, wide = number(config.inner), number(config.width)
    shapes: list[Shapes] = [note(0, 12, Formula("x"), size=13)]
    down: list[Words] = [Formula("W_2"), f"{inner} → {wide}"]
    if not kind.gated:
        up = box(0, -gap(), [Formula("W_1"), f"{wide} → {inner}"], "green")
        phi = box(0, up.top - gap(), [title_of(kind), *_latex(kind.latex)], "sky")
        shapes += [arrow(Point(0, 2), up.below()), up, arrow(up.above(), phi.below())]
        out = phi
    else:
        gate, value = (
            box(place, -gap() - 14, [Formula(name), f"{wide} → {inner}"], "green") for place, name in ((-66, "W_g"), (66, "W_1"))
        )
        out = box(0, gate.top - gap() - 8, [title_of(kind), *_latex(kind.latex)], "sky", 220)
        shapes += [line(Point(0, 2), Point(0, -12)), gate, value]
        for own in (gate, value):
            shapes += [arrow(Point(0, -12), Point(own.x, -12), own.below()), arrow(own.above(), Point(own.x, out.bottom))]
    last = box(0, out.top - gap(), down, "green")
    shapes += [out, arrow(out.above(), last.below()), last, arrow(last.above(), Point(0, last.top - 24))]
    around = extent(shapes)
    shapes.append(Label(0, around.top - 16, say("inside the feed-forward network"), 12, bold=True))
    return shapes


def _latex(latex: str) -> list[Words]:
    return [Formula(latex)] if latex else []
