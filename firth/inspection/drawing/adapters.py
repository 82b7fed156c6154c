"""LoRA: a frozen matrix and the correction of low rank that is trained in its place, with the matrices that have one."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from firth.figures.diagram import Box, Formula, Label, Point, Words, extent
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.block import Layers
from firth.inspection.drawing.parts import arrow, box, circle, gap, headed, line, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.subject import Subject, layers_of
from firth.inspection.drawing.wording import decimal, number, of, say, translated
from firth.models.adapters import TARGETS, Lora, adaptable

_ROW = 21.0


class AdaptedMatrix(NamedTuple):
    """Matrices of one role and size that have adapters."""

    role: str
    columns: int  # numbers that it reads
    rows: int  # numbers that it writes

    def trained(self, rank: int) -> int:
        return rank * (self.columns + self.rows)


def lora_drawing(subject: Subject, title: str) -> Sheet:
    lora = subject.adapters
    assert lora is not None
    found = adapted_matrices(layers_of(subject.config), lora)
    trained = sum(count * one.trained(lora.rank) for one, count in found.items())
    shapes = _sum(next(iter(found)), lora)
    around = extent(shapes)
    shapes += [shape.moved(around.right + 48, around.y) for shape in _table(found, lora)]
    factor = decimal(lora.alpha / lora.rank)
    lines: list[Words] = [
        say("rank {r}, α = {alpha}: the correction is multiplied by {factor}", r=lora.rank, alpha=decimal(lora.alpha),
            factor=factor),
        say("trained: {n} numbers in {adapters}; the weights of the run to start from are frozen", n=number(trained),
            adapters=of(sum(found.values()), "adapter")),
    ]  # fmt: skip
    return headed(shapes, title, lines, [Formula(r"y = W x + (\alpha / r) \, B A x")])


def adapted_matrices(stacks: tuple[Layers, ...], lora: Lora) -> Counter[AdaptedMatrix]:
    """The matrices with adapters, and how many there are of each size, in the order of their roles."""
    found: Counter[AdaptedMatrix] = Counter()
    for layers in stacks:
        shared = layers.depth // (layers.groups or layers.depth)  # layers that are one block
        for kind, numbers in layers.mixers().items():
            block = layers.block(kind)
            blocks = sum(layer % shared == 0 for layer in numbers)
            for path, spans in adaptable(block).items():
                columns = block.get_submodule(path).get_parameter("weight").shape[1]
                for role, (first, last) in spans.items():
                    if role in lora.targets:
                        found[AdaptedMatrix(role, columns, last - first)] += blocks
    return Counter({one: found[one] for role in TARGETS for one in found if one.role == role})


def _sum(shown: AdaptedMatrix, lora: Lora) -> list[Shapes]:
    """W beside B A, and their sum."""
    r = lora.rank
    first: list[Words] = [Formula(r"A"), f"{number(shown.columns)} → {r}"]
    a = box(0, -gap() - 14, first, "vermilion", 130)
    dropped: list[Shapes] = []
    start = Point(0, a.bottom)
    if lora.dropout:
        drop = box(0, -gap() - 14, [say("dropout"), decimal(lora.dropout)], "plain", 100)
        a = a.moved(0, drop.top - gap() - a.bottom)
        dropped, start = [drop, arrow(drop.above(), a.below())], drop.below()
    b = box(0, a.top - gap() - 20, [Formula(r"B"), f"{r} → {number(shown.rows)}", say("zero at first")], "vermilion", 130)
    factor = box(0, b.top - gap(), [Formula(r"\times \; \alpha / r")], "plain", 90)
    frozen = Box(-250, b.top, 150, a.bottom - b.top, (Formula("W"), f"{number(shown.columns)} → {number(shown.rows)}",
                 say("frozen")), "blue")  # fmt: skip
    plus = circle((frozen.x + a.x) / 2, factor.top - gap() - 8, "+")
    bus = -8.0
    return [
        note(plus.x, 24, Formula("x"), size=14), line(Point(plus.x, 14), Point(plus.x, bus)),
        line(Point(frozen.x, bus), Point(a.x, bus)),
        arrow(Point(frozen.x, bus), frozen.below()), arrow(Point(a.x, bus), start),
        *dropped, a, arrow(a.above(), b.below()), note(10, (a.top + b.bottom) / 2, of(r, "number"), "start"),
        b, arrow(b.above(), factor.below()), factor, frozen, plus,
        arrow(frozen.above(), Point(frozen.x, plus.y), plus.before()), arrow(factor.above(), Point(a.x, plus.y), plus.behind()),
        arrow(plus.above(), Point(plus.x, plus.top - 24)), note(plus.x, plus.top - 34, Formula("y"), size=14),
    ]  # fmt: skip


def _table(found: Counter[AdaptedMatrix], lora: Lora) -> list[Shapes]:
    """A row for each role and size, around y = 0."""
    headings = [say("matrices with adapters"), say("size"), say("trained")]
    rows = [
        (
            f"{number(count)} × {_role(one.role)}",
            f"{number(one.columns)} → {number(one.rows)}",
            number(count * one.trained(lora.rank)),
        )
        for one, count in found.items()
    ]
    top = -_ROW * len(rows) / 2
    shapes: list[Shapes] = []
    x = 0.0
    for column, heading in enumerate(headings):
        cells: list[Shapes] = [Label(x, top, heading, 12, "start", bold=True)]
        cells += [note(x, top + _ROW * (n + 1), row[column], "start", 12) for n, row in enumerate(rows)]
        shapes += cells
        x = extent(cells).right + 18
    return shapes


def _role(role: str) -> str:
    return translated("output of attention" if role == "output" else role)
