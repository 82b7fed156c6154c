"""What a model keeps from step to step while it writes a text: keys and values, or a state whose size never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firth.figures.counting import in_bytes
from firth.figures.diagram import Box, Formula, Label, Point, Tone, Words, extent
from firth.figures.diagram.shapes import Shapes, text_width
from firth.inspection.drawing.block import SOFTMAX, Layers
from firth.inspection.drawing.masks import span_of
from firth.inspection.drawing.parts import arrow, box, headed, in_rows, line, listed, note
from firth.inspection.drawing.recurrent import state_words
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.subject import layers_of
from firth.inspection.drawing.wording import number, of, say, title_of
from firth.layers.attention.config import AttentionConfig
from firth.layers.recurrent import CELLS
from firth.layers.token_mixer import MIXERS
from firth.models.caption_config import RecurrentCaptionConfig, TransformerCaptionConfig
from firth.models.config import RecurrentConfig, TransformerSettings
from firth.models.counting import FLOAT
from firth.models.network import ModelConfig
from firth.models.seq2seq_config import RecurrentDecoderConfig, RecurrentSeq2SeqConfig

TOKENS = 7  # that are drawn before the current one
_SHORT = 4  # a window that can be seen among them
_CELL, _ROW = 34.0, 30.0


@dataclass(frozen=True)
class Kept:
    """Bytes in float32."""

    per_token: int = 0  # of the text
    per_source: int = 0  # per token of the source, or cell of the image
    fixed: int = 0  # whatever the length


def kept_by(config: ModelConfig) -> Kept:
    """What all layers keep."""
    if layers := layers_of(config):
        return _kept_by_layers(layers[-1])
    assert isinstance(config, RecurrentConfig | RecurrentDecoderConfig)
    state = FLOAT * config.depth * len(CELLS[config.kind].state) * config.width
    return Kept(fixed=state, per_source=_memory(config))


def _kept_by_layers(layers: Layers) -> Kept:
    config, mixers = layers.config, layers.mixers()
    each = FLOAT * _keys_and_values(config)
    whole = sum(len(numbers) for kind, numbers in mixers.items() if not MIXERS[kind].local and MIXERS[kind] in SOFTMAX)
    local = sum(len(numbers) for kind, numbers in mixers.items() if MIXERS[kind].local)
    states = sum(FLOAT * len(numbers) * _state_numbers(layers, kind) for kind, numbers in mixers.items())
    windows = local * (span_of(config.attention) - 1) * each if local else 0
    return Kept(whole * each, layers.depth * each if layers.cross else 0, states + windows)


def _keys_and_values(config: TransformerSettings) -> int:
    """Numbers of a token in one layer."""
    return 2 * config.attention.groups * config.attention.per_head(config.width)


def _state_numbers(layers: Layers, kind: str) -> int:
    return 0 if MIXERS[kind] in SOFTMAX else layers.block(kind).attention.state_numbers()


def _memory(config: RecurrentConfig | RecurrentDecoderConfig) -> int:
    """Bytes of the encoder's output for a token."""
    if isinstance(config, RecurrentCaptionConfig):
        return FLOAT * config.channels[-1]
    if isinstance(config, RecurrentSeq2SeqConfig) and config.attention != "none":
        return FLOAT * config.width * (1 + config.encoder_bidirectional)
    return 0


def cache_drawing(config: ModelConfig, title: str) -> Sheet:
    kept, stacks = kept_by(config), layers_of(config)
    image = isinstance(config, RecurrentCaptionConfig | TransformerCaptionConfig)
    panels = _of_layers(stacks[-1], image) if stacks else _of_cells(config, image)
    return headed(in_rows(panels), title, _summary(kept, getattr(config, "context", None), image))


def _summary(kept: Kept, context: int | None, image: bool) -> list[Words]:
    lines: list[Words] = []
    if kept.per_token:
        told = say("per token: {n} bytes in float32", n=number(kept.per_token))
        if context is not None:
            told += say("; {tokens} tokens: {size}", tokens=number(context), size=in_bytes(kept.per_token * context))
        lines.append(told)
    if kept.per_source:
        lines.append(
            say("per cell of the image: {n} bytes in float32, computed once", n=number(kept.per_source))
            if image
            else say("per token of the source: {n} bytes in float32, computed once", n=number(kept.per_source))
        )
    if kept.fixed:
        lines.append(say("state: {n} bytes in float32, however long the text", n=number(kept.fixed)))
    return lines


def _of_layers(layers: Layers, image: bool) -> list[list[Shapes]]:
    """A panel for each kind of mixer, and one for attention to a source."""
    mixers, panels = layers.mixers(), []
    for kind, numbers in mixers.items():
        heading = title_of(MIXERS[kind]) + ("" if len(mixers) == 1 else f": {listed(numbers)}")
        if MIXERS[kind] in SOFTMAX:
            span = span_of(layers.config.attention) if MIXERS[kind].local else None
            panels.append(_strips(heading, layers, len(numbers), span))
        else:
            panels.append(_fixed(heading, layers, kind, len(numbers)))
    if layers.cross:
        heading = say("attention to the image") if image else say("attention to the source")
        panels.append(_source(heading, layers, image))
    return panels


def _strips(heading: str, layers: Layers, count: int, span: int | None) -> list[Shapes]:
    """The keys and values of each head, a column for each token; the current one is written."""
    attention = layers.config.attention
    shown = None if span is None else min(span, _SHORT)
    written: list[Tone] = ["vermilion"]
    shapes = _rows(attention, [_seen(n, shown) for n in range(TOKENS)] + written)
    for n in range(TOKENS + 1):
        name = "x_t" if n == TOKENS else f"x_{n + 1}" if n < 3 else f"x_{{t-{TOKENS - n}}}" if n > 4 else r"\ldots"
        shapes.append(note((n + 0.5) * _CELL, -14, Formula(name)))
    below = extent(shapes).bottom
    step: list[Words] = [say("a step computes q, k and v of its token, writes k and v,")]
    if span is None:
        step.append(say("and reads the keys and values of all tokens so far"))
    else:
        step.append(say("and reads the keys and values of the last {n} tokens", n=number(span)))
        step += [say("drawn with a window of {shown} instead of {n}", shown=shown, n=number(span))] if shown != span else []
    each = FLOAT * _keys_and_values(layers.config)
    step.append(_product(attention, layers.config, count))
    step.append(
        say("= {n} bytes per token", n=number(count * each))
        if span is None
        else say("= {n} bytes per token, of {m} earlier tokens", n=number(count * each), m=number(span - 1))
    )
    return _panel(heading, shapes, _legend(below + 18, dropped=shown is not None), step)


def _seen(n: int, shown: int | None) -> Tone:
    """The tone of an earlier token: whether it is in the window."""
    return "sky" if shown is None or n > TOKENS - shown else "plain"


def _rows(attention: AttentionConfig, tones: Sequence[Tone]) -> list[Shapes]:
    """K and V of the first key/value head and the last one."""
    groups = attention.groups
    each = attention.heads // groups
    shapes: list[Shapes] = []
    y = 0.0
    for group in range(groups) if groups <= 2 else (0, None, groups - 1):
        if group is None:
            shapes.append(note(_CELL * len(tones) / 2, y + 10, "⋮", size=15))
            y += 26
            continue
        first, last = group * each + 1, (group + 1) * each
        head = say("head {n}", n=first) if each == 1 else say("query heads {n} to {m}", n=first, m=last)
        shapes += [
            note(-34, y + _ROW, head, "end"),
            note(-14, y + _ROW / 2, Formula("K")),
            note(-14, y + 1.5 * _ROW, Formula("V")),
        ]
        for row in range(2):
            for n, tone in enumerate(tones):
                own = "green" if row and tone == "sky" else tone
                shapes.append(Box(n * _CELL + 1, y + row * _ROW + 1, _CELL - 2, _ROW - 2, (), own))
        y += 2 * _ROW + 12
    return shapes


def _legend(y: float, dropped: bool) -> list[Shapes]:
    """The meaning of the tones."""
    entries: list[tuple[Tone, str]] = [("sky", say("kept")), ("vermilion", say("written in this step"))]
    entries += [("plain", say("no longer kept"))] if dropped else []
    shapes: list[Shapes] = []
    x = 0.0
    for tone, words in entries:
        shapes += [Box(x, y - 6, 12, 12, (), tone), note(x + 18, y, words, "start", 11)]
        x += 18 + text_width(words, 11) + 18
    return shapes


def _product(attention: AttentionConfig, config: TransformerSettings, count: int) -> str:
    return say(
        "2 (K, V) × {layers} × {heads} × width {n} × {m} bytes",
        layers=of(count, "layer"),
        heads=of(attention.groups, "key/value head" if attention.groups != attention.heads else "head"),
        n=number(attention.per_head(config.width)),
        m=FLOAT,
    )


def _panel(heading: str, shapes: list[Shapes], legend: list[Shapes], below: Sequence[Words]) -> list[Shapes]:
    around = extent([*shapes, *legend])
    feet = [note(around.left, around.bottom + 20 + 17 * n, words, "start") for n, words in enumerate(below)]
    return [Label(around.left, around.top - 20, heading, 12.5, "start", bold=True), *shapes, *legend, *feet]


def _fixed(heading: str, layers: Layers, kind: str, count: int) -> list[Shapes]:
    """A state of one size, which each step reads and writes."""
    numbers = _state_numbers(layers, kind)
    lines: list[Words] = [of(layers.config.attention.heads, "head"), say("{n} numbers", n=number(numbers))]
    shapes = _step(Formula("S_{t-1}"), Formula("S_t"), lines, "green")
    told = say("{layers} × {n} numbers × {m} bytes = {total} bytes", layers=of(count, "layer"), n=number(numbers), m=FLOAT,
               total=number(count * numbers * FLOAT))  # fmt: skip
    return _panel(
        heading, shapes, [], [say("a step reads the whole state and writes it anew,"), say("however long the text"), told]
    )


def _step(before: Words, after: Words, lines: list[Words], tone: Tone) -> list[Shapes]:
    """State, step, state."""
    left, right = box(0, 0, [before, *lines], tone, 110), box(0, 0, [after, *lines], tone, 110)
    step = box(left.right + 90, 0, [say("step")], "vermilion", 70)
    step = step.moved(0, left.y - step.y)
    right = right.moved(step.right + 54 - right.left, 0)
    return [
        left, step, right, arrow(left.behind(), step.before()), arrow(step.behind(), right.before()),
        arrow(Point(step.x, left.bottom + 24), step.below()), note(step.x, left.bottom + 36, Formula("x_t"), size=13),
        arrow(step.above(), Point(step.x, left.top - 12)), note(step.x, left.top - 24, Formula("y_t"), size=13),
    ]  # fmt: skip


def _source(heading: str, layers: Layers, image: bool) -> list[Shapes]:
    """Keys and values of a source, which no step writes."""
    attention = layers.config.attention
    symbol = "c" if image else "s"
    shapes = _rows(attention, ["sky"] * (TOKENS + 1))
    for n in range(TOKENS + 1):
        name = f"{symbol}_{n + 1}" if n < 3 else r"\ldots" if n < TOKENS else f"{symbol}_S"
        shapes.append(note((n + 0.5) * _CELL, -14, Formula(name)))
    each = FLOAT * _keys_and_values(layers.config)
    told: list[Words] = [
        say("computed once, before the first step;"), say("every step reads them and writes nothing"),
        _product(attention, layers.config, layers.depth),
        say("= {n} bytes per cell of the image", n=number(layers.depth * each))
        if image
        else say("= {n} bytes per token of the source", n=number(layers.depth * each)),
    ]  # fmt: skip
    return _panel(heading, shapes, _legend(extent(shapes).bottom + 18, dropped=False)[:2], told)


def _of_cells(config: ModelConfig, image: bool) -> list[list[Shapes]]:
    """The state of a recurrent network, and what its decoder attends to."""
    assert isinstance(config, RecurrentConfig | RecurrentDecoderConfig)
    cell = CELLS[config.kind]
    lines: list[Words] = [of(config.depth, "layer"), say("width {n}", n=number(config.width))]
    shapes = _step(state_words(cell, "t-1"), state_words(cell, "t"), lines, "vermilion")
    letters = ", ".join(cell.quantity(name).letter for name in cell.state)
    told: list[Words] = [
        say("a step reads the whole state and writes it anew,"), say("however long the text"),
        say("{layers} × {k} ({letters}) × width {n} × {m} bytes", layers=of(config.depth, "layer"), k=len(cell.state),
            letters=letters, n=number(config.width), m=FLOAT),
        say("= {n} bytes", n=number(config.depth * len(cell.state) * config.width * FLOAT)),
    ]  # fmt: skip
    panels = [_panel(say("state of the {cell}", cell=title_of(cell)), shapes, [], told)]
    if each := _memory(config):
        panels.append(_memory_panel(each, image))
    return panels


def _memory_panel(each: int, image: bool) -> list[Shapes]:
    """The outputs of an encoder, which every step reads."""
    boxes = [Box(n * 48.0, 0, 40, 54, (Formula(name),), "sky") for n, name in enumerate(("m_1", "m_2", "m_3"))]
    last = Box(3 * 48.0 + 30, 0, 40, 54, (Formula("m_S"),), "sky")
    shapes: list[Shapes] = [*boxes, note(3 * 48.0 + 11, 27, "…", size=14), last, line(Point(0, 64), Point(last.right, 64))]
    told: list[Words] = [
        say("computed once, before the first step;"), say("every step reads them and writes nothing"),
        say("{n} numbers × {m} bytes = {total} bytes per cell of the image", n=number(each // FLOAT), m=FLOAT, total=number(each))
        if image
        else say("{n} numbers × {m} bytes = {total} bytes per token of the source", n=number(each // FLOAT), m=FLOAT,
                 total=number(each)),
    ]  # fmt: skip
    return _panel(say("outputs of the encoder"), shapes, [], told)
