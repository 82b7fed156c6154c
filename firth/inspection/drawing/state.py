"""The recurrence of linear attention: a matrix that each token changes and reads, and the window that may stand beside it."""

from __future__ import annotations

from firth.figures.diagram import Box, Formula, Label, Point, Tone, Words, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.block import SOFTMAX, Layers
from firth.inspection.drawing.masks import span_of
from firth.inspection.drawing.parts import arrow, box, circle, headed, in_rows, line, listed, note
from firth.inspection.drawing.sheet import Sheet, wrapped
from firth.inspection.drawing.wording import number, of, say, title_of, translated
from firth.layers.linear_attention.layers import GatedLinearAttention, LinearAttention, TaylorAttention
from firth.layers.token_mixer import MIXERS

_WINDOW = 5  # tokens that are drawn


def state_drawing(layers: Layers, title: str) -> Sheet:
    """Every kind of linear attention that the layers have, and what stands beside it."""
    panels, equations = [], []
    for kind, numbers in layers.mixers().items():
        mixer = MIXERS[kind]
        if mixer in SOFTMAX:
            panel = _window(layers) if mixer.local else []
        else:
            panel = _recurrence(layers, kind)
            equations += [Formula(mixer.latex)] if mixer.latex else []
        if panel:
            around = extent(panel)
            panel.append(Label(around.left, around.top - 20, f"{title_of(mixer)}: {listed(numbers)}", 12.5, "start", bold=True))
            panels.append(panel)
    told = say("the past is one matrix for each head, of the same size however long the text")
    return headed(in_rows(panels), title, [told], equations)


def _recurrence(layers: Layers, kind: str) -> list[Shapes]:
    attention = layers.block(kind).attention
    if type(attention) in (LinearAttention, TaylorAttention):
        return _wired(attention, gated=False)  # type: ignore[arg-type]  # one of these
    if type(attention) is GatedLinearAttention:
        return _wired(attention, gated=True)
    return _closed(layers, kind)


def _wired(attention: LinearAttention | GatedLinearAttention, gated: bool) -> list[Shapes]:
    """S_{t−1} → ⊙ g → + φ(k) vᵀ → S_t, read by φ(q)."""
    features, wide = attention.features.width(attention.key_width), attention.head_width
    phi = "" if gated else r"\varphi"
    read = rf"o_t = {phi}(q_t)^\top S_t" if phi else r"o_t = q_t^\top S_t"
    divided = attention.attend.normalized
    size: list[Words] = [f"{number(features)} × {number(wide)}"]
    x = 200.0 if gated else 70.0  # of the sum
    before, after = (
        Box(left, -30, 110, 60, (Formula(name), *size), "green") for left, name in ((-130.0, "S_{t-1}"), (x + 90, "S_t"))
    )
    add = circle(x, 0, "+")
    shapes: list[Shapes] = [before, after, add]
    start = before.behind()
    if gated:
        keep = circle(60, 0, "⊙")
        gate = box(keep.x, 106, [Formula("g_t"), say("of each row")], "vermilion", 84)
        shapes += [keep, gate, arrow(start, keep.before()), arrow(gate.above(), keep.below())]
        start = keep.behind()
    product = Formula(rf"{phi}(k_t) \, v_t^\top" if phi else r"k_t v_t^\top")
    written = box(add.x, 106, [product, say("written")], "orange", 110)
    shapes += [
        arrow(start, add.before()), arrow(add.behind(), after.before()), written, arrow(written.above(), add.below()),
    ]  # fmt: skip
    lines: list[Words] = [Formula(read + (rf" \, / \, {phi}(q_t)^\top z_t" if divided else ""))]
    out = box(after.x, -84, [*lines, say("read")], "sky", 150)
    shapes += [arrow(after.above(), out.below()), out, arrow(out.above(), Point(out.x, out.top - 24))]
    shapes += [note(out.x, out.top - 34, Formula("o_t"), size=13), arrow(after.behind(), Point(after.right + 44, 0))]
    shapes += [note(after.right + 56, 0, "…", size=14), arrow(Point(before.left - 44, 0), before.before())]
    shapes.append(note(before.left - 56, 0, "…", size=14))
    shapes += _inputs(written, "k_t, v_t")
    told = [say("{heads}; S has {n} numbers in each", heads=of(attention.heads, "head"), n=number(features * wide))]
    told += [say("z, the sum of all φ(k), has {n} and changes in the same way", n=number(features))] if divided else []
    told += [say("each row of S is multiplied by its own gate, between 0 and 1")] if gated else []
    around = extent(shapes)
    return [*shapes, *(note(around.left, around.bottom + 20 + 17 * n, words, "start") for n, words in enumerate(told))]


def _inputs(written: Box, names: str) -> list[Shapes]:
    y = written.bottom + 26
    return [arrow(Point(written.x, y), written.below()), note(written.x, y + 12, Formula(names), size=13)]


def _window(layers: Layers) -> list[Shapes]:
    """The last keys and values, which a softmax weighs."""
    span = span_of(layers.config.attention)
    tones: list[Tone] = ["plain", "plain", *["sky" for _ in range(_WINDOW - 1)], "vermilion"]  # type: ignore[list-item]
    boxes = [Box(n * 40.0, 0, 34, 40, (), tone) for n, tone in enumerate(tones)]
    shapes: list[Shapes] = list(boxes)
    for n, one in enumerate(boxes):
        name = "x_t" if n == len(boxes) - 1 else f"x_{{t-{len(boxes) - 1 - n}}}" if n > 1 else "…"
        shapes.append(note(one.x, 54, Formula(name) if name != "…" else name))
    first, last = boxes[2], boxes[-1]
    shapes += [line(Point(first.x, -16), Point(last.x, -16)), *(line(Point(one.x, -16), one.above()) for one in boxes[2:])]
    middle = (first.x + last.x) / 2
    total = box(middle, -40, [say("softmax over the window"), of(span, "token")], "blue", 150)
    shapes += [arrow(Point(middle, -16), total.below()), total, arrow(total.above(), Point(middle, total.top - 22))]
    shapes.append(note(middle, total.top - 32, Formula("o_t"), size=13))
    kept = say("keys and values of the last {n} tokens are kept, older ones dropped", n=number(span - 1))
    around = extent(shapes)
    lines = wrapped(kept, max(260.0, around.width))
    return [*shapes, *(note(around.left, around.bottom + 20 + 17 * n, words, "start") for n, words in enumerate(lines))]


def _closed(layers: Layers, kind: str) -> list[Shapes]:
    """A mixer whose wiring is not known here: what it says of itself, and the size of its state."""
    mixer, numbers = MIXERS[kind], layers.block(kind).attention.state_numbers()
    lines: list[Words] = [
        title_of(mixer),
        *([Formula(mixer.latex)] if mixer.latex else []),
        *wrapped(translated(mixer.about), 300),
    ]
    one = box(0, 0, [*lines, say("state of {n} numbers", n=number(numbers))], "blue", 240)
    return [
        one, arrow(Point(0, 28), one.below()), note(0, 40, Formula("x_t"), size=13),
        arrow(one.above(), Point(0, one.top - 24)), note(0, one.top - 34, Formula("o_t"), size=13),
        arrow(Point(one.left - 54, one.y), one.before()), note(one.left - 60, one.y, say("state before"), "end"),
        arrow(one.behind(), Point(one.right + 54, one.y)), note(one.right + 60, one.y, say("state after"), "start"),
    ]  # fmt: skip
