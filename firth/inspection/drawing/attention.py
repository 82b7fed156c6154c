"""Attention: one head from scores to the weighted sum, and the heads that share keys and values. What is not softmax attention is
a box with its equation."""

from __future__ import annotations

from dataclasses import dataclass

from firth.figures.diagram import Box, Formula, Label, Point, Tone, Words, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.block import SOFTMAX, Layers
from firth.inspection.drawing.masks import mask_words, span_of
from firth.inspection.drawing.parts import arrow, box, gap, headed, in_rows, line, listed, note
from firth.inspection.drawing.sheet import Sheet, wrapped
from firth.inspection.drawing.wording import decimal, number, of, say, title_of, translated
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.score import SCORES
from firth.layers.position import SCHEMES, Bias
from firth.layers.token_mixer import MIXERS
from firth.models.config import TransformerSettings
from firth.models.seq2seq_config import RecurrentDecoderConfig

_APART = 132.0  # between q, k and v
_GROUPS, _SHARING = 3, 4  # heads that are drawn one by one
_HEAD = 27.0


@dataclass(frozen=True)
class ChainStep:
    """A box of the chain from scores to weights."""

    lines: tuple[Words, ...]
    tone: Tone = "blue"


def attention_drawing(layers: Layers, title: str) -> Sheet:
    """Every kind of mixer that the layers have, side by side."""
    mixers, panels = layers.mixers(), []
    for kind, numbers in mixers.items():
        panel = _softmax(layers, kind) if MIXERS[kind] in SOFTMAX else _closed(layers, kind)
        if len(mixers) > 1:
            around = extent(panel)
            panel.append(
                Label(around.left, around.top - 18, f"{title_of(MIXERS[kind])}: {listed(numbers)}", 12.5, "start", bold=True)
            )
        panels.append(panel)
    if any(MIXERS[kind] in SOFTMAX for kind in mixers):
        panels.append(_heads(layers.config.attention))
    lines: list[Words] = [_widths(layers.config)]
    if layers.cross:
        lines.append(say("attention to the source is the same, with keys and values of the encoder's output, and no positions"))
    return headed(in_rows(panels), title, lines)


def _widths(config: TransformerSettings) -> str:
    attention = config.attention
    parts = [of(attention.heads, "head")]
    parts += [of(attention.groups, "key/value head")] if attention.groups != attention.heads else []
    return ", ".join([*parts, say("width {n}", n=number(config.width))])


def _softmax(layers: Layers, kind: str) -> list[Shapes]:
    config, attention = layers.config, layers.config.attention
    steps = _before_scores(config, layers.placed)
    wide, each = number(config.width), number(attention.per_head(config.width))
    mask = (
        say("mask: window of {n} tokens", n=number(span_of(attention)))
        if MIXERS[kind].local
        else mask_words(config, layers.bidirectional, layers.prefix)
    )
    chain = [ChainStep(_score_lines(attention)), *_on_scores(layers)]
    chain += [ChainStep((mask,)), ChainStep((say("softmax over keys"),))]
    widths: tuple[Words, ...] = (f"{wide} → {each}",)
    starts = [((Formula(rf"{one} = x\,W_{one.upper()}")), *widths) for one in ("q", "k", "v")]
    return _chain(starts, steps, chain, say("x, a vector for each token"))


def _score_lines(attention: AttentionConfig) -> tuple[Words, ...]:
    score = SCORES[attention.score]
    lines: list[Words] = [say("score: {score}", score=title_of(score)), *([Formula(score.latex)] if score.latex else [])]
    if attention.scale is not None:
        lines.append(say("factor of the scores: {n}", n=decimal(attention.scale)))
    return tuple(lines)


def _before_scores(config: TransformerSettings, placed: bool) -> list[ChainStep]:
    """What is done to q and k."""
    scheme, steps = SCHEMES[config.position.kind], []
    if config.attention.qk_norm:
        words = say("all heads together") if config.attention.qk_norm == "whole" else say("each head")
        steps.append(ChainStep((say("norm of q and k"), words), "orange"))
    if scheme.turns and placed:
        turned = say("{scheme} positions turn q and k", scheme=title_of(scheme))
        steps.append(ChainStep((turned, *([Formula(scheme.latex)] if scheme.latex else [])), "orange"))
    return steps


def _on_scores(layers: Layers) -> list[ChainStep]:
    """What is done to the scores: a bias is added after they are bounded, other positions are part of them."""
    scheme, cap = SCHEMES[layers.config.position.kind], layers.config.attention.cap
    bounded = [] if cap is None else [ChainStep((say("bound of the scores"), Formula(rf"{cap:g} \tanh(s / {cap:g})")))]
    if not (scheme.acts_on_scores and layers.placed):
        return bounded
    where = say("positions: {scheme}", scheme=title_of(scheme))
    placed = [ChainStep((where, *([Formula(scheme.latex)] if scheme.latex else [])), "orange")]
    added = bool(bounded) and isinstance(scheme.of(layers.config, layers.bidirectional).relative(), Bias)
    return [*bounded, *placed] if added else [*placed, *bounded]


def _chain(starts: list[tuple[Words, ...]], on_both: list[ChainStep], chain: list[ChainStep], reads: str) -> list[Shapes]:
    """q, k and v at the bottom, the chain of q and k above them, and the weighted sum of v at the top."""
    tones: tuple[Tone, ...] = ("sky", "sky", "green")
    q, k, v = (box(n * _APART, 0, lines, tone, 116) for n, (lines, tone) in enumerate(zip(starts, tones, strict=True)))
    bus = q.bottom + 24
    shapes: list[Shapes] = [
        q,
        k,
        v,
        line(Point(q.x, bus), Point(v.x, bus)),
        note(k.x, bus + 30, reads),
        line(Point(k.x, bus + 18), Point(k.x, bus)),
    ]
    shapes += [arrow(Point(one.x, bus), one.below()) for one in (q, k, v)]
    middle, high = (q.x + k.x) / 2, q.top
    wide = k.right - q.left
    first = True
    for step in (*on_both, *chain):
        one = box(middle, high - gap(), list(step.lines), step.tone, wide)
        both = first or step in on_both
        last_pair = on_both and step is chain[0]
        pairs = both or last_pair
        shapes += [arrow(Point(x, high), Point(x, one.bottom)) for x in ((q.x, k.x) if pairs else (middle,))]
        shapes.append(one)
        high, first = one.top, False
    total = box(
        (q.left + v.right) / 2,
        high - 32,
        [say("weighted sum of the values"), Formula(r"o_t = \sum_s \alpha_{ts} v_s")],
        "green",
        v.right - q.left,
    )
    shapes += [
        arrow(Point(middle, high), Point(middle, total.bottom)),
        note(middle + 12, high - 16, Formula(r"\alpha"), size=12.5),
    ]
    shapes += [
        arrow(v.above(), Point(v.x, total.bottom)),
        total,
        arrow(total.above(), Point(total.x, total.top - 22)),
        note(total.x, total.top - 32, say("output of the head")),
    ]
    return shapes


def _closed(layers: Layers, kind: str) -> list[Shapes]:
    """A mixer that is not softmax attention: what it says of itself."""
    mixer = MIXERS[kind]
    lines: list[Words] = [
        title_of(mixer),
        *([Formula(mixer.latex)] if mixer.latex else []),
        *wrapped(translated(mixer.about), 300),
        of(layers.config.attention.heads, "head"),
    ]
    one = box(0, 0, lines, "blue", 240)
    return [
        note(0, 40, say("x, a vector for each token")), arrow(Point(0, 28), one.below()), one,
        arrow(one.above(), Point(0, one.top - 24)), note(0, one.top - 34, say("output, a vector for each token")),
    ]  # fmt: skip


def _shown(count: int, most: int) -> list[int | None]:
    """The first ones and the last; None stands for those left out."""
    return [*range(count)] if count <= most else [*range(most - 2), None, count - 1]


def _heads(attention: AttentionConfig) -> list[Shapes]:
    """Each query head reads the keys and values of head h // (H / G), counted from 0."""
    heads, groups = attention.heads, attention.groups
    each = heads // groups
    shapes: list[Shapes] = []
    x = 0.0
    for group in _shown(groups, 8 if each == 1 else _GROUPS):
        if group is None:
            shapes += [note(x + 6, 0, "…", size=14), note(x + 6, 92, "…", size=14)]
            x += 26
            continue
        places = []
        for n in _shown(each, _SHARING):
            if n is None:
                shapes.append(note(x + 6, 0, "…", size=14))
                x += 22
                continue
            places.append(Box(x, -13, _HEAD, 26, (str(group * each + n + 1),), "sky"))
            x += _HEAD + 5
        left, right = places[0].left, places[-1].right
        keys = Box((left + right) / 2 - max(_HEAD, 30) / 2, 79, max(_HEAD, 30), 26, (str(group + 1),), "green")
        shapes += [*places, keys, *(line(one.below(), keys.above()) for one in places)]
        x += 12 if each > 1 else 4
    around = extent(shapes)
    shapes.append(Label(around.left, -42, of(heads, "query head"), 12.5, "start", bold=True))
    shapes.append(Label(around.left, 132, of(groups, "key/value head"), 12.5, "start", bold=True))
    shared = (
        say("each with keys and values of its own")
        if each == 1
        else say("{n} query heads share the keys and values of one", n=number(each))
    )
    joined = Formula(rf"\text{{{say('{n} outputs, side by side, times', n=number(heads))} }} W_O")
    shapes += [note(around.left, 152, shared, "start"), note(around.left, -62, joined, "start")]
    return shapes


def memory_drawing(config: RecurrentDecoderConfig, title: str) -> Sheet:
    """Attention of a recurrent decoder to the states of its encoder."""
    score = SCORES[config.attention]
    query = "h_t" if config.decoder == "luong" else "h_{t-1}"
    starts: list[tuple[Words, ...]] = [
        (Formula(f"q = W_q {query}" if score.projects_query else f"q = {query}"), say("state of the decoder")),
        (Formula("k_s = W_k m_s" if score.projects_key else "k_s = m_s"), say("of the encoder")),
        (Formula("v_s = m_s"), say("of the encoder")),
    ]
    chain = [
        ChainStep(_score_lines(AttentionConfig(heads=1, score=config.attention))),
        ChainStep((say("mask: the source's tokens"),)),
        ChainStep((say("softmax over the source"),)),
    ]
    when = (
        say("the decoder attends after each step, with the new state")
        if config.decoder == "luong"
        else say("the decoder attends before each step, with the previous state")
    )
    return headed(_memory(starts, chain), title, [when])


def _memory(starts: list[tuple[Words, ...]], chain: list[ChainStep]) -> list[Shapes]:
    tones: tuple[Tone, ...] = ("vermilion", "sky", "green")
    wide = 150.0
    q, k, v = (box(n * (wide + 16), 0, lines, tone, wide) for n, (lines, tone) in enumerate(zip(starts, tones, strict=True)))
    shapes: list[Shapes] = [q, k, v]
    middle, high = (q.x + k.x) / 2, q.top
    for n, step in enumerate(chain):
        one = box(middle, high - gap(), list(step.lines), step.tone, k.right - q.left)
        shapes += [arrow(Point(x, high), Point(x, one.bottom)) for x in ((q.x, k.x) if n == 0 else (middle,))]
        shapes.append(one)
        high = one.top
    total = box(
        k.x,
        high - 32,
        [say("weighted sum of the values"), Formula(r"c_t = \sum_s \alpha_{ts} m_s")],
        "green",
        v.right - q.left,
    )
    shapes += [
        arrow(Point(middle, high), Point(middle, total.bottom)),
        note(middle + 14, high - 16, Formula(r"\alpha_t"), size=12.5),
    ]
    shapes += [arrow(v.above(), Point(v.x, total.bottom)), total, arrow(total.above(), Point(total.x, total.top - 22))]
    return [*shapes, note(total.x, total.top - 32, say("to the decoder"))]
