"""Drawings of a model from its settings: the whole model, its cell, its block, its attention, its masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firth.errors import ConfigError, either
from firth.figures.diagram import Box, Diagram, Label, Words
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing import cells, recurrent, seq2seq, transformer
from firth.inspection.drawing.attention import attention_drawing, memory_drawing
from firth.inspection.drawing.block import SOFTMAX, Layers, block_drawing
from firth.inspection.drawing.images import caption_drawing
from firth.inspection.drawing.masks import MaskDrawing, mask_drawing, whole_mask, window_mask
from firth.inspection.drawing.parts import Ends, listed, number
from firth.layers.recurrent import CELLS, CellKind, Reset
from firth.layers.token_mixer import MIXERS
from firth.models.caption_config import RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.config import RecurrentConfig, TransformerConfig
from firth.models.encoder_config import AverageConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.network import ModelConfig
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig

KINDS = {
    "model": "the whole model",
    "cell": "the recurrent cell with its gates",
    "block": "the Transformer block, with its norms and the residual stream",
    "attention": "one head from scores to the weighted sum, and all heads",
    "mask": "the positions that each position may attend to",
}
Draw = Callable[[str], list[Shapes]]  # shapes under a title


def draw_model(config: ModelConfig, kind: str, name: str, ends: Ends | None = None) -> Diagram:
    """The drawing of that kind; `name` is that of the model, `ends` says what it reads and predicts."""
    own = kinds_of(config, ends or Ends())
    if kind not in KINDS:
        raise ConfigError(f'there is no drawing of kind "{kind}"; choose {either(tuple(KINDS))}.')
    if kind not in own:
        raise ConfigError(f'{name} has no drawing of kind "{kind}": {_why_not(config, kind)}. It has {_and(tuple(own))}.')
    title = name if kind == "model" else f"{name}: {kind}"
    shapes = own[kind](title)
    return Diagram(f"{name}: {KINDS[kind]}", _description(shapes), tuple(shapes))


def kinds_of(config: ModelConfig, ends: Ends) -> Mapping[str, Draw]:
    """The drawings that a model has, by their kinds."""
    match config:
        case RecurrentConfig():
            reset = config.reset
            return {
                "model": lambda title: recurrent.language_drawing(config, title, ends),
                **_cell(config.kind, reset, config.width),
            }
        case RecurrentEncoderConfig():
            own = _cell(config.kind, "after", config.width)
            return {"model": lambda title: recurrent.encoder_drawing(config, title, ends), **own}
        case AverageConfig():
            return {"model": lambda title: recurrent.average_drawing(config, title, ends)}
        case RecurrentSeq2SeqConfig() | RecurrentCaptionConfig():
            return _recurrent_pair(config, ends)
        case TransformerConfig() | PrefixConfig():
            layers = Layers(config, config.depth, prefix=isinstance(config, PrefixConfig))
            return {"model": lambda title: transformer.one_tower(layers, title, ends), **_of_layers(layers)}
        case TransformerEncoderConfig():
            layers = Layers(config, config.depth, bidirectional=True, groups=config.layer_groups)
            return {"model": lambda title: transformer.one_tower(layers, title, ends), **_of_layers(layers)}
        case TransformerSeq2SeqConfig():
            encoder = Layers(config, config.encoder_depth or config.depth, bidirectional=True)
            decoder = Layers(config, config.depth, cross=True)
            whole: Draw = lambda title: transformer.pair_drawing(encoder, decoder, None, title, ends, config.shared)  # noqa: E731
            return {"model": whole, **_of_layers(decoder, encoder)}
        case TransformerCaptionConfig():
            decoder = Layers(config, config.depth, cross=True)
            return {"model": lambda title: caption_drawing(config, title, ends), **_of_layers(decoder)}


def _recurrent_pair(config: RecurrentSeq2SeqConfig | RecurrentCaptionConfig, ends: Ends) -> dict[str, Draw]:
    whole: Draw = (
        (lambda title: seq2seq.pair_drawing(config, title, ends))
        if isinstance(config, RecurrentSeq2SeqConfig)
        else (lambda title: caption_drawing(config, title, ends))
    )
    own = {"model": whole, **_cell(config.kind, config.decoder_reset, config.width)}
    return own if config.attention == "none" else {**own, "attention": lambda title: memory_drawing(config, title)}


def _cell(kind: CellKind, reset: Reset, width: int) -> dict[str, Draw]:
    cell = CELLS[kind]
    lines: list[Words] = [
        f"{cell.title()}, width {number(width)}" + (f"; the reset gate acts {reset} the product with U" if cell.has_reset else "")
    ]
    lines += [cell.about] if cell.about else []
    return {"cell": lambda title: cells.cell_drawing(cell, reset, title, lines)}


def _of_layers(layers: Layers, encoder: Layers | None = None) -> dict[str, Draw]:
    own: dict[str, Draw] = {
        "block": lambda title: block_drawing(layers, title),
        "attention": lambda title: attention_drawing(layers, title),
    }
    masks = _masks(layers, encoder)
    return {**own, "mask": lambda title: mask_drawing(masks, title)} if masks else own


def _masks(layers: Layers, encoder: Layers | None) -> list[tuple[str, MaskDrawing]]:
    """The masks of the layers whose mixers have one, each drawn once."""
    found = []
    for of, name in ((encoder, "encoder"), (layers, "decoder" if encoder is not None else "")):
        for kind, numbers in of.mixers().items() if of is not None else ():
            if MIXERS[kind] in SOFTMAX:
                assert of is not None
                where = MIXERS[kind].title() + ("" if len(of.mixers()) == 1 else f": {listed(numbers)}")
                if MIXERS[kind].local:
                    mask = window_mask(of.config.attention, of.bidirectional)
                else:
                    mask = whole_mask(of.config, of.bidirectional, of.prefix)
                found.append((f"{name}: {where}" if name else where, mask))
    return found


def _why_not(config: ModelConfig, kind: str) -> str:
    match kind:
        case "cell":
            return "it has no recurrent cell"
        case "block":
            return "it is not a Transformer"
        case "attention":
            return "it has no attention"
        case _:
            return "its layers have no mask of scores" if hasattr(config, "position") else "it is not a Transformer"


def _and(names: tuple[str, ...]) -> str:
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _description(shapes: list[Shapes]) -> str:
    """What a drawing says, in words, from its title downwards and from left to right."""
    texts = [(shape.rect, str(shape.words)) for shape in shapes if isinstance(shape, Label)]
    texts += [(shape.rect, ", ".join(map(str, shape.lines))) for shape in shapes if isinstance(shape, Box) and shape.lines]
    in_order = sorted(texts, key=lambda one: (round(one[0].y / 12), one[0].left))
    return "; ".join(text for _, text in in_order)
