"""Drawings of a model from its settings: the whole model, its parts, and what it keeps, trains and searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firth.errors import ConfigError, either
from firth.figures.diagram import Diagram, Size, Words
from firth.figures.diagram.diagram import expected_size
from firth.inspection.drawing import cells, recurrent, seq2seq, transformer
from firth.inspection.drawing.adapters import lora_drawing
from firth.inspection.drawing.attention import attention_drawing, memory_drawing
from firth.inspection.drawing.beams import beam_drawing
from firth.inspection.drawing.block import SOFTMAX, Layers, block_drawing
from firth.inspection.drawing.cache import cache_drawing
from firth.inspection.drawing.families import families_drawing
from firth.inspection.drawing.images import caption_drawing
from firth.inspection.drawing.masks import MaskDrawing, mask_drawing, whole_mask, window_mask
from firth.inspection.drawing.merges import merges_drawing
from firth.inspection.drawing.parts import listed
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.state import state_drawing
from firth.inspection.drawing.subject import Subject, layers_of
from firth.inspection.drawing.wording import making, number, say, title_of, translated
from firth.layers.recurrent import CELLS, Cell, CellKind, Reset
from firth.layers.token_mixer import MIXERS
from firth.models.caption_config import RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.config import RecurrentConfig
from firth.models.encoder_config import AverageConfig, RecurrentEncoderConfig
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig

KINDS = {
    "model": "the whole model",
    "cell": "the recurrent cell with its gates",
    "block": "the Transformer block, with its norms and the residual stream",
    "attention": "one head from scores to the weighted sum, and all heads",
    "mask": "the positions that each position may attend to",
    "families": "encoder, decoder, and encoder–decoder side by side, with their masks",
    "cache": "what is kept from step to step while a text is generated",
    "state": "the recurrence of linear attention",
    "lora": "low-rank adapters beside frozen matrices",
    "beam": "a beam search as a tree",
    "merges": "byte pairs that are merged to tokens",
}
Draw = Callable[[str], Sheet]  # under a title


def draw_model(subject: Subject, kind: str, size: Size = "page", language: str = "en") -> Diagram:
    """The drawing of that kind."""
    name = subject.name
    with making(language, expected_size(size)):
        own = kinds_of(subject)
        if kind not in KINDS:
            raise ConfigError(f'there is no drawing of kind "{kind}"; choose {either(tuple(KINDS))}.')
        if kind not in own:
            raise ConfigError(f'{name} has no drawing of kind "{kind}": {_why_not(subject, kind)}. It has {_and(tuple(own))}.')
        sheet = own[kind](name if kind == "model" else f"{name}: {translated(kind)}")
        shapes, slide = sheet.slide() if size == "slide" else (sheet.page(), None)
        title, told = f"{name}: {translated(KINDS[kind])}", "; ".join(sheet.words())
        return Diagram(title, told, tuple(shapes), slide=slide, language=language)


def kinds_of(subject: Subject) -> Mapping[str, Draw]:
    """The drawings that a model has, by their kinds."""
    own = {**_parts(subject), **_kept(subject)}
    if subject.adapters is not None and layers_of(subject.config):
        own["lora"] = lambda title: lora_drawing(subject, title)
    if subject.tree is not None or (subject.decoding is not None and subject.decoding.beam > 1):
        own["beam"] = lambda title: beam_drawing(subject, title)
    if subject.merged:
        own["merges"] = lambda title: merges_drawing(subject.merged, title)
    return own


def _kept(subject: Subject) -> dict[str, Draw]:
    """What a step of generating keeps for the next one."""
    own: dict[str, Draw] = {}
    if subject.config.family != "encoder":
        own["cache"] = lambda title: cache_drawing(subject.config, title)
    if any(layers.linear() for layers in layers_of(subject.config)):
        own["state"] = lambda title: state_drawing(layers_of(subject.config)[-1], title)
    return own


def _parts(subject: Subject) -> dict[str, Draw]:
    """The whole model and the parts that it is made of."""
    config, ends = subject.config, subject.ends
    match config:
        case RecurrentConfig():
            own = _cell(config.kind, config.reset, config.width)
            return {"model": lambda title: recurrent.language_drawing(config, title, ends), **own}
        case RecurrentEncoderConfig():
            own = _cell(config.kind, "after", config.width)
            return {"model": lambda title: recurrent.encoder_drawing(config, title, ends), **own}
        case AverageConfig():
            return {"model": lambda title: recurrent.average_drawing(config, title, ends)}
        case RecurrentSeq2SeqConfig() | RecurrentCaptionConfig():
            return _recurrent_pair(subject, config)
        case TransformerSeq2SeqConfig():
            encoder, decoder = layers_of(config)
            whole: Draw = lambda title: transformer.pair_drawing(encoder, decoder, None, title, ends, config.shared)  # noqa: E731
            return {"model": whole, **_of_layers(decoder, encoder)}
        case TransformerCaptionConfig():
            *over, decoder = layers_of(config)
            own = {"model": lambda title: caption_drawing(config, title, ends), **_of_layers(decoder)}
            return {**own, "families": lambda title: families_drawing(decoder, over[0] if over else None, title)}
        case _:
            (layers,) = layers_of(config)
            return {"model": lambda title: transformer.one_tower(layers, title, ends), **_of_layers(layers)}


def _recurrent_pair(subject: Subject, config: RecurrentSeq2SeqConfig | RecurrentCaptionConfig) -> dict[str, Draw]:
    ends = subject.ends
    whole: Draw = (
        (lambda title: seq2seq.pair_drawing(config, title, ends))
        if isinstance(config, RecurrentSeq2SeqConfig)
        else (lambda title: caption_drawing(config, title, ends))
    )
    own = {"model": whole, **_cell(config.kind, config.decoder_reset, config.width)}
    return own if config.attention == "none" else {**own, "attention": lambda title: memory_drawing(config, title)}


def _cell(kind: CellKind, reset: Reset, width: int) -> dict[str, Draw]:
    cell = CELLS[kind]

    def drawn(title: str) -> Sheet:
        lines: list[Words] = [say("{cell}, width {n}", cell=title_of(cell), n=number(width)) + _reset_words(cell, reset)]
        return cells.cell_drawing(cell, reset, title, [*lines, *([translated(cell.about)] if cell.about else [])])

    return {"cell": drawn}


def _reset_words(cell: type[Cell], reset: Reset) -> str:
    if not cell.has_reset:
        return ""
    return (
        say("; the reset gate acts after the product with U")
        if reset == "after"
        else say("; the reset gate acts before the product with U")
    )


def _of_layers(layers: Layers, encoder: Layers | None = None) -> dict[str, Draw]:
    own: dict[str, Draw] = {
        "block": lambda title: block_drawing(layers, title),
        "attention": lambda title: attention_drawing(layers, title),
    }
    masks = _masks(layers, encoder)
    if masks:
        own["mask"] = lambda title: mask_drawing(masks, title)
        own["families"] = lambda title: families_drawing(layers, encoder, title)
    return own


def _masks(layers: Layers, encoder: Layers | None) -> list[tuple[str, MaskDrawing]]:
    """The masks of the layers whose mixers have one, each drawn once."""
    found = []
    for of, name in ((encoder, say("encoder")), (layers, say("decoder") if encoder is not None else "")):
        for kind, numbers in of.mixers().items() if of is not None else ():
            if MIXERS[kind] in SOFTMAX:
                assert of is not None
                where = title_of(MIXERS[kind]) + ("" if len(of.mixers()) == 1 else f": {listed(numbers)}")
                if MIXERS[kind].local:
                    mask = window_mask(of.config.attention, of.bidirectional)
                else:
                    mask = whole_mask(of.config, of.bidirectional, of.prefix)
                found.append((f"{name}: {where}" if name else where, mask))
    return found


def _why_not(subject: Subject, kind: str) -> str:
    config = subject.config
    layers = layers_of(config)
    match kind:
        case "cell":
            return "it has no recurrent cell"
        case "attention":
            return "it has no attention"
        case "mask" | "families" if layers:
            return "its layers have no mask of scores"
        case "state":
            return "it has no linear attention"
        case "cache":
            return "it does not generate a text token by token"
        case "lora" if layers:
            return "training.lora is not set. Give a recipe, --training.lora=8 and --training.init=RUN"
        case "beam":
            return _why_no_beam(subject)
        case "merges":
            return "no word is given. Add one with --text"
        case _:
            return "it is not a Transformer"


def _why_no_beam(subject: Subject) -> str:
    if subject.config.family == "encoder":
        return "it does not generate a text"
    if subject.decoding is None:
        return "it has no settings of decoding. Give a recipe or a run"
    return "decoding.beam is 1, which is greedy decoding and has no tree. Set --decoding.beam=3"


def _and(names: tuple[str, ...]) -> str:
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
