"""Models that write captions: cells of an image, and a decoder that attends to them."""

from __future__ import annotations

from dataclasses import replace

from firth.figures.diagram import Point, Words
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing import seq2seq, transformer
from firth.inspection.drawing.block import Layers
from firth.inspection.drawing.parts import Ends, arrow, box, headed, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import number, of, say, title_of
from firth.layers.recurrent import CELLS
from firth.models.caption_config import RecurrentCaptionConfig, TransformerCaptionConfig


def caption_drawing(config: RecurrentCaptionConfig | TransformerCaptionConfig, title: str, ends: Ends) -> Sheet:
    if isinstance(config, TransformerCaptionConfig):
        encoder = Layers(config, config.layers_over_cells, bidirectional=True, placed=False)
        cells = _patches(config) if config.encoder == "patch" else _convolutions(config.channels, config.width)
        return transformer.pair_drawing(encoder, Layers(config, config.depth, cross=True), cells, title, ends, shared=False)
    source = _convolutions(config.channels, config.channels[-1])
    middle = source[-1]
    shapes = seq2seq.attending(config, source, [Point(x, middle.rect.top) for x in (-70.0, 0.0, 70.0)], ends)
    cell = title_of(CELLS[config.kind])
    lines: list[Words] = [
        say("decoder: {cell}, {layers}, width {n}", cell=cell, layers=of(config.depth, "layer"), n=number(config.width))
        + say("; m: the cells of the image")
    ]
    return headed(shapes, title, lines)


def _patches(config: TransformerCaptionConfig) -> list[Shapes]:
    lines: list[Words] = [
        say("patches of {n} × {n} pixels", n=config.patch),
        say("linear → {n}", n=number(config.width)),
        say("+ row and column"),
    ]
    return _image(lines)


def _convolutions(channels: tuple[int, ...], width: int) -> list[Shapes]:
    lines: list[Words] = [
        say("{convolutions} of 3 × 3", convolutions=of(len(channels), "convolution")),
        say("channels: {numbers}", numbers=", ".join(map(number, channels))),
        say("+ row and column"),
    ]
    return _image(lines + ([say("linear → {n}", n=number(width))] if channels[-1] != width else []))


def _image(lines: list[Words]) -> list[Shapes]:
    one = box(0, -30, lines, "sky", 220)
    return [note(0, -8, say("image"), size=13), arrow(Point(0, -16), one.below()), replace(one)]
