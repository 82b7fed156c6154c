"""Recurrent encoders and decoders: without attention (RNNenc), attending before each step (RNNsearch), or after it (Luong)."""

from __future__ import annotations

import itertools

from firth.figures.diagram import Box, Formula, Label, Point, Words, box_width, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.parts import Ends, arrow, box, headed, line, note
from firth.inspection.drawing.recurrent import both_ways, inputs, one_way, state_words
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import number, of, say, title_of
from firth.layers.attention.score import SCORES
from firth.layers.recurrent import CELLS
from firth.models.seq2seq_config import RecurrentDecoderConfig, RecurrentSeq2SeqConfig

_PITCH = 122.0


def pair_drawing(config: RecurrentSeq2SeqConfig, title: str, ends: Ends) -> Sheet:
    if config.attention == "none":
        return _without_attention(config, title, ends)
    source, top = _encoder(config)
    start = (
        say("the decoder starts from tanh(W h), h the encoder's last state in the backward direction")
        if config.encoder_bidirectional
        else say("the decoder starts from tanh(W h), h the encoder's last state")
    )
    return headed(attending(config, source, top, ends), title, [*_summary(config), start])


def _summary(config: RecurrentSeq2SeqConfig) -> list[Words]:
    told = {"cell": title_of(CELLS[config.kind]), "layers": of(config.depth, "layer"), "n": number(config.width)}
    encoder = (
        say("encoder: bidirectional {cell}, {layers}, width {n} in each direction", **told)
        if config.encoder_bidirectional
        else say("encoder: {cell}, {layers}, width {n}", **told)
    )
    decoder = say("decoder: {cell}, {layers}, width {n}", **told)
    decoder += say("; embeddings of {n} numbers", n=number(config.embedding_width))
    return [encoder, decoder + (say(", shared by source and target") if config.shared else "")]


def _without_attention(config: RecurrentSeq2SeqConfig, title: str, ends: Ends) -> Sheet:
    """The decoder starts from the last state of the encoder."""
    cell = CELLS[config.kind]
    order = (3, 2, 1) if config.reverse else (1, 2, 3)
    left = [0.0, _PITCH, 2 * _PITCH]
    right = [2 * _PITCH + 142.0 + n * _PITCH for n in range(3)]
    shapes, points = inputs(left, [Formula(f"x_{n}") for n in order], say("embedding"))
    more, others = inputs(right, [Formula(r"\mathrm{<eos>}"), Formula("y_1"), Formula("y_2")], say("embedding"))
    encoder = one_way(left, points, cell, config.depth, before=Formula("0"), behind=False)
    shapes += [*more, *encoder.shapes]
    if config.feeds_context:
        others = _feed(shapes, others)
    decoder = one_way(right, others, cell, config.depth, behind=False)
    shapes += decoder.shapes
    for n, (one, top) in enumerate(zip(encoder.last, _first_cells(decoder.shapes, right[0]), strict=True)):
        middle = (one.right + top.left) / 2
        bend = () if one.y == top.y else (Point(middle, one.y), Point(middle, top.y))
        shapes.append(arrow(one.behind(), *bend, top.before()))
        if n == len(encoder.last) - 1 and not bend:
            shapes.append(note(middle, one.y - 11, state_words(cell, "S")))
    for n, (x, start) in enumerate(zip(right, decoder.ends, strict=True)):
        last = box(x, start.y - 30, [say("output")], "pink", 84)
        shapes += [
            arrow(start, last.below()),
            last,
            arrow(last.above(), Point(x, last.top - 20)),
            note(x, last.top - 32, Formula(f"y_{n + 1}"), size=13),
        ]
    shapes += _names(shapes, left, right)
    lines = _summary(config)
    if config.feeds_context:
        lines.append(say("the encoder's last output c also enters every step and, with the token's embedding, the output layer"))
    if config.reverse:
        lines.append(say("the source is read from its last token to its first"))
    return headed(shapes, title, [*lines, _output_words(config)])


def _feed(shapes: list[Shapes], points: list[Point]) -> list[Point]:
    """c, beside the embedding, in every step; the points from which the cells are reached."""
    bus = points[0].y - 30
    at = Point(points[0].x - 66, bus)
    shapes.append(Label(at.x - 10, bus, Formula("c"), 12.5))
    joins = [Box(point.x - 11, bus - 11, 22, 22, (";",), round=True) for point in points]
    for point, join in zip(points, joins, strict=True):
        shapes += [join, arrow(point, join.below()), arrow(at, join.before())]
        at = join.behind()
    return [join.above() for join in joins]


def _first_cells(shapes: list[Shapes], x: float) -> list[Box]:
    return [shape for shape in shapes if isinstance(shape, Box) and abs(shape.x - x) < 1]


def _names(shapes: list[Shapes], left: list[float], right: list[float]) -> list[Shapes]:
    return [Label(sum(xs) / len(xs), 22, name, 12.5, bold=True) for xs, name in ((left, say("encoder")), (right, say("decoder")))]


def _output_words(config: RecurrentDecoderConfig) -> str:
    return (
        say("output layer: softmax, with the target embedding's weights (tied)")
        if config.tied
        else say("output layer: softmax, with weights of its own")
    )


def _encoder(config: RecurrentSeq2SeqConfig) -> tuple[list[Shapes], list[Point]]:
    """The source, and the points where its annotations leave."""
    cell, xs = CELLS[config.kind], [0.0, 132.0, 264.0]
    shapes, points = inputs(xs, [Formula(f"x_{n}") for n in (1, 2, 3)], say("embedding"))
    rows = (
        both_ways(xs, points, cell, config.depth, behind=False)
        if config.encoder_bidirectional
        else one_way(xs, points, cell, config.depth, behind=False)
    )
    shapes += rows.shapes
    shapes.append(Label(132, 22, say("encoder"), 12.5, bold=True))
    return shapes, rows.ends


def attending(config: RecurrentDecoderConfig, source: list[Shapes], tops: list[Point], ends: Ends) -> list[Shapes]:
    """One step of a decoder beside its source, and attention between them."""
    luong = config.decoder == "luong"
    around = extent(source)
    score = SCORES[config.attention]
    query = "h_t" if luong else "h_{t-1}"
    lines: list[Words] = [say("attention: {score}", score=title_of(score)), *([Formula(score.latex)] if score.latex else [])]
    lines += [Formula(rf"\alpha_t = \mathrm{{softmax}}_s \; a({query}, m_s)"), Formula(r"c_t = \sum_s \alpha_{ts} m_s")]
    attention = box(around.x, around.top - 40, lines, "blue", 300)
    shapes = [*source]
    for n, top in enumerate(tops):
        shapes += [arrow(top, Point(top.x, attention.bottom)), note(top.x + 14, attention.bottom + 14, Formula(f"m_{n + 1}"))]
    x = max(around.right, attention.right) + 190
    return [*shapes, attention, *(_after(config, attention, x, ends) if luong else _before(config, attention, x, ends))]


def _before(config: RecurrentDecoderConfig, attention: Box, x: float, ends: Ends) -> list[Shapes]:
    """The previous state attends; what it finds enters the step and the output layer (Bahdanau et al. 2015)."""
    cell = CELLS[config.kind]
    middle = attention.y
    first = Box(
        x - 70,
        middle - 40,
        140,
        80,
        (title_of(cell), say("layer {n}", n=1) if config.depth > 1 else say("width {n}", n=number(config.width))),
        "vermilion",
    )
    state = state_words(cell, "t-1")
    wide = box_width([state])
    previous = Box((attention.right + first.left - wide) / 2, middle + 12, wide, 28, (state,))
    embedding, shapes = _token(x, first.bottom + 60)
    shapes += [arrow(embedding.above(), first.below()), first, previous]
    shapes += [
        arrow(previous.before(), Point(attention.right, previous.y)),
        arrow(previous.behind(), Point(first.left, previous.y)),
    ]
    y = middle - 24
    shapes += [
        arrow(Point(attention.right, y), Point(first.left, y)),
        note(attention.right + 34, y - 11, Formula("c_t"), size=12.5),
    ]
    at = _more_layers(shapes, first, config)
    output = box(x, at.y - 34, [say("output layer and softmax"), Formula("W_h h_t + W_e e_t + W_c c_t"), *_tied(config)], "pink")
    shapes += [arrow(at, output.below()), output, *_predicted(output, ends)]
    fork = min(first.left, output.left) - 20
    shapes.append(arrow(Point(fork, y), Point(fork, output.y), output.before()))
    beside = output.right + 18
    shapes.append(arrow(embedding.behind(), Point(beside, embedding.y), Point(beside, output.y), output.behind()))
    shapes.append(note(beside + 14, embedding.y - 14, Formula("e_t")))
    shapes.append(Label(x, embedding.bottom + 56, say("decoder, step t"), 12.5, bold=True))
    return shapes


def _after(config: RecurrentDecoderConfig, attention: Box, x: float, ends: Ends) -> list[Shapes]:
    """The current state of the top layer attends, after the step (Luong et al. 2015)."""
    cell = CELLS[config.kind]
    combine = box(
        x, attention.top + 44, [Formula(r"\tilde h_t = \tanh(W_c [c_t; h_t])"), say("width {n}", n=number(config.width))], "blue"
    )
    shapes: list[Shapes] = [combine]
    asked = attention.bottom - 18
    low = max(asked, combine.bottom + 20)
    layers = [say("layer {n}", n=n + 1) for n in range(config.depth)] if config.depth > 1 else [_wide(config)]
    at, bottom = Point(x, 0), low + 30
    boxes: list[Box] = []
    for words in reversed(
        layers if len(layers) <= 3 else [layers[-1], say("{n} more layers", n=len(layers) - 2), layers[0]][::-1]
    ):
        one = Box(x - 60, bottom, 120, 48, (title_of(cell), words), "vermilion")
        boxes.append(one)
        bottom = one.bottom + 24
    for one, below in itertools.pairwise(boxes):
        shapes.append(arrow(below.above(), one.below()))
    for one in boxes:
        shapes += [
            one,
            arrow(Point(one.left - 30, one.y), one.before()),
            note(one.left - 36, one.y, state_words(cell, "t-1"), "end"),
        ]
    top = boxes[0]
    at = Point(x, low)
    shapes += [
        line(top.above(), at),
        arrow(at, combine.below()),
        arrow(at, Point(attention.right, low)),
        note(attention.right + 50, low - 11, Formula("h_t"), size=12.5),
    ]
    shapes += [
        arrow(Point(attention.right, combine.y), combine.before()),
        note(attention.right + 24, combine.y - 11, Formula("c_t"), size=12.5),
    ]
    embedding, more = _token(x, boxes[-1].bottom + 60)
    shapes += [*more, arrow(embedding.above(), boxes[-1].below())]
    output = box(x, combine.top - 34, [say("output layer and softmax"), *_tied(config)], "pink")
    shapes += [arrow(combine.above(), output.below()), output, *_predicted(output, ends)]
    if config.input_feeding:
        y = boxes[-1].bottom + 30
        shapes += [
            arrow(Point(x - 90, y), Point(x - 20, y), Point(x - 20, boxes[-1].bottom)),
            note(x - 96, y, Formula(r"\tilde h_{t-1}"), "end", 12.5),
        ]
    shapes.append(Label(x, embedding.bottom + 56, say("decoder, step t"), 12.5, bold=True))
    return shapes


def _wide(config: RecurrentDecoderConfig) -> str:
    return say("width {n}", n=number(config.width))


def _token(x: float, bottom: float) -> tuple[Box, list[Shapes]]:
    embedding = box(x, bottom, [say("embedding")], "sky", 100)
    return embedding, [
        embedding,
        arrow(Point(x, embedding.bottom + 24), embedding.below()),
        note(x, embedding.bottom + 34, Formula("y_{t-1}"), size=13),
    ]


def _more_layers(shapes: list[Shapes], first: Box, config: RecurrentDecoderConfig) -> Point:
    """The layers above the first, which have no attention."""
    if config.depth == 1:
        return first.above()
    words = say("layer {n}", n=2) if config.depth == 2 else say("layers 2 to {n}", n=config.depth)
    above = box(first.x, first.top - 24, [title_of(CELLS[config.kind]), words], "vermilion", 140)
    shapes += [arrow(first.above(), above.below()), above]
    return above.above()


def _tied(config: RecurrentDecoderConfig) -> list[Words]:
    return [say("the embedding's weights (tied)")] if config.tied else []


def _predicted(output: Box, ends: Ends) -> list[Shapes]:
    return [
        arrow(output.above(), Point(output.x, output.top - 20)),
        note(output.x, output.top - 32, Formula(r"p(y_t | y_{<t}, x)"), size=13),
    ]
