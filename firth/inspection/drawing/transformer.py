"""Whole Transformers: a decoder, an encoder, or both, with N × block and the places where positions act."""

from __future__ import annotations

from dataclasses import dataclass

from firth.figures.diagram import Box, Formula, Point, Words, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.block import SIDE, Layers, block_column, framed, norm_lines
from firth.inspection.drawing.parts import Ends, arrow, box, circle, gap, headed, line, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import decimal, number, of, say, title_of, translated
from firth.layers.position import SCHEMES
from firth.models.config import TransformerSettings

_TOKEN = 38.0  # height of the line of tokens


@dataclass(frozen=True)
class Tower:
    """Embedding, blocks and final norm above each other."""

    shapes: list[Shapes]
    end: Point
    cross: Box | None


def tower(x: float, layers: Layers, reads: str, embedding: list[Words], side: int = -1) -> Tower:
    """From tokens to the vectors above the last block, growing upwards from y = 0."""
    config = layers.config
    table = box(x, -_TOKEN, embedding, "sky", 150)
    shapes: list[Shapes] = [note(x, -8, reads, size=13), arrow(Point(x, -16), table.below()), table]
    at = _positions(shapes, table.above(), layers, side)
    for lines in _after_positions(config):
        one = box(x, at.y - gap() + 4, lines, "orange" if len(lines) == 1 else "sky", 120)
        shapes += [arrow(at, one.below()), one]
        at = one.above()
    column = block_column(x, at.y - 26, layers, side)
    inside, frame = framed(column, f"{layers.depth} ×")
    shapes += [*inside, line(at, column.start)]
    at = frame.above(x)
    if config.norm.placement != "post":
        norm = box(x, frame.top - gap() + 4, norm_lines(config), "orange", 120)
        shapes += [arrow(at, norm.below()), norm]
        at = norm.above()
    return Tower(shapes, at, column.cross)


def _positions(shapes: list[Shapes], at: Point, layers: Layers, side: int) -> Point:
    """The sum of embedded tokens and positions, for schemes that act there."""
    scheme = SCHEMES[layers.config.position.kind]
    if not (scheme.acts_on_embedding() and layers.placed):
        return at
    plus = circle(at.x, at.y - 28, "+")
    lines: list[Words] = [say("{scheme} positions", scheme=title_of(scheme)), *([Formula(scheme.latex)] if scheme.latex else [])]
    label = box(0, 0, lines, "orange")
    place = at.x + side * (SIDE + 34 + label.width / 2)
    label = label.moved(place - label.x, plus.y - label.y)
    edges = (label.behind(), plus.before()) if side < 0 else (label.before(), plus.behind())
    shapes += [arrow(at, plus.below()), plus, label, arrow(*edges)]
    return plus.above()


def _after_positions(config: TransformerSettings) -> list[list[Words]]:
    inputs = config.embedding_width
    lines = [norm_lines(config)] if config.embedding.norm else []
    return lines + ([[say("linear"), f"{number(inputs)} → {number(config.width)}"]] if inputs != config.width else [])


def embedding_lines(config: TransformerSettings, name: str) -> list[Words]:
    scheme = SCHEMES[config.position.kind]
    scaled = scheme.scales_embedding if config.embedding.scale is None else config.embedding.scale
    lines: list[Words] = [
        name,
        of(config.embedding_width, "number") + (say(", times √{n}", n=number(config.embedding_width)) if scaled else ""),
    ]
    if segments := getattr(config, "segments", 0):
        lines.append(f"+ {of(segments, 'segment embedding')}")
    if (spelling := getattr(config, "spelling", None)) is not None and spelling.width:
        lines.append(say("and the word's spelling ({n})", n=number(spelling.width)))
    return lines


def _top(x: float, at: Point, lines: list[Words], predicts: str) -> list[Shapes]:
    """The output layer above a tower, and what it predicts."""
    last = box(x, at.y - gap(), lines, "pink", 150)
    return [
        arrow(at, last.below()),
        last,
        arrow(last.above(), Point(x, last.top - 20)),
        note(x, last.top - 32, predicts, size=13),
    ]


def output_lines(config: TransformerSettings) -> list[Words]:
    lines: list[Words] = [
        say("output layer and softmax"),
        say("the embedding's weights (tied)") if config.tied else say("weights of its own"),
    ]
    if getattr(config, "output_scale", False):
        lines.append(say("input divided by √{n}", n=number(config.width)))
    if (cap := getattr(config, "logit_cap", None)) is not None:
        lines.append(say("logits bounded by {n}", n=decimal(cap)))
    return lines


def one_tower(layers: Layers, title: str, ends: Ends) -> Sheet:
    """A decoder or an encoder by itself, with its output layer or the readout of its task."""
    reads = say("source and target") if layers.prefix else translated(f"{ends.token}s")
    own = tower(0, layers, reads, embedding_lines(layers.config, translated(ends.embedding)))
    lines: list[Words] = output_lines(layers.config) if ends.token == "token" else [say("output layer")]
    top = (
        _top(0, own.end, [say("readout"), say("of {task}", task=translated(ends.readout))], say("prediction"))
        if ends.readout
        else _top(0, own.end, lines, translated(ends.predicts))
    )
    return headed(own.shapes + top, title, summary(layers))


def pair_drawing(encoder: Layers, decoder: Layers, source: list[Shapes] | None, title: str, ends: Ends, shared: bool) -> Sheet:
    """An encoder and a decoder side by side. `source`: what stands in place of the encoder's tokens, for images."""
    name = say("embedding, shared") if shared else say("embedding")
    left = (
        _cells(source, encoder)
        if source is not None
        else tower(0, encoder, say("source tokens"), embedding_lines(encoder.config, name))
    )
    right = tower(0, decoder, say("target tokens so far"), embedding_lines(decoder.config, name), side=1)
    right_shapes = right.shapes + _top(0, right.end, output_lines(decoder.config), translated(ends.predicts))
    apart = extent(left.shapes).right - extent(right_shapes).left + 46
    moved = [shape.moved(apart, 0) for shape in right_shapes]
    assert right.cross is not None
    cross = right.cross.moved(apart, 0)
    between = extent(moved).left - 20
    above = left.end.y - 22
    memory = arrow(left.end, Point(left.end.x, above), Point(between, above), Point(between, cross.y), cross.before())
    words = note(left.end.x + 10, above - 12, say("keys and values"), "start")
    lines: list[Words] = [
        say(
            "encoder: {layers}; decoder: {others}; width {n}",
            layers=of(encoder.depth, "layer"),
            others=of(decoder.depth, "layer"),
            n=number(decoder.config.width),
        )
    ]
    return headed([*left.shapes, *moved, memory, words], title, lines)


def _cells(source: list[Shapes], encoder: Layers) -> Tower:
    """Layers over the cells of an image, if there are any."""
    top = extent(source).top
    if not encoder.depth:
        return Tower(source, Point(0, top), None)
    column = block_column(0, top - 26, encoder)
    inside, frame = framed(column, f"{encoder.depth} ×")
    shapes = [*source, line(Point(0, top), column.start), *inside]
    if encoder.config.norm.placement == "post":
        return Tower(shapes, frame.above(0), None)
    norm = box(0, frame.top - gap() + 4, norm_lines(encoder.config), "orange", 120)
    return Tower([*shapes, arrow(frame.above(0), norm.below()), norm], norm.above(), None)


def summary(layers: Layers) -> list[Words]:
    config = layers.config
    context = "" if config.context is None else say(", context of {n} tokens", n=number(config.context))
    lines: list[Words] = [of(layers.depth, "layer") + say(", width {n}", n=number(config.width)) + context]
    if layers.groups is not None and layers.groups < layers.depth:
        lines.append(say("the layers share {sets} of weights", sets=of(layers.groups, "set")))
    return lines if SCHEMES[config.position.kind].acts() else [*lines, say("no positions")]
