"""Stage: one box of the picture, in the order of the computation; Walk: all of them. Letters: T tokens, d width, K keys,
V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from firth.errors import ConfigError, index_range
from firth.figures.figure import Table
from firth.inspection.walk.matrix import SourceLine, WalkMatrix

StageKind = Literal["embedding", "block", "recurrent", "attention", "norm", "output"]


@dataclass(frozen=True, eq=False)
class Stage:
    """One box of the picture. `.matrices(head)` computes what is inside."""

    name: str  # "layer 3"
    kind: StageKind
    side: str  # "encoder" or "decoder" in sequence to sequence, otherwise ""
    tokens: tuple[str, ...]
    equation: str
    axes: str  # of the output
    source: SourceLine
    out_Td: Tensor = field(repr=False)  # what leaves the box, one row per token
    inside: Callable[[int], Sequence[WalkMatrix]] = field(repr=False)  # the matrices of one head, in the order of the computation
    heads: int = 0  # 0: nothing to choose
    backwards: bool = False  # a recurrent layer that runs from the last token to the first
    links: Mapping[str, Callable[[], Tensor]] = field(
        default_factory=dict, repr=False
    )  # "self", "cross": mean attention weights, T,K

    def matrices(self, head: int = 0) -> Sequence[WalkMatrix]:
        if not 0 <= head < max(1, self.heads):
            raise ConfigError(f"head is {head}; {self.name} has {index_range(max(1, self.heads))}")
        return self.inside(head)


@dataclass(frozen=True, eq=False, repr=False)
class Walk:
    """The stages from the tokens to the logits after each token. `.text()` lists them; `.stages[n].matrices(head)[k]` is a matrix
    inside one of them, and its `.lines(row, column)` the sum that one of its numbers is."""

    stages: tuple[Stage, ...]
    logits_TV: Tensor

    def stage(self, number: int) -> Stage:
        """The stage with that `number`, counted from 0."""
        if not 0 <= number < len(self.stages):
            raise ConfigError(f"stage is {number}; expected {index_range(len(self.stages))}")
        return self.stages[number]

    def rows(self) -> list[tuple[str, str, str]]:
        """The name, the equation and the size of the output of each stage."""
        named = [(f"{one.side} {one.name}".strip(), one) for one in self.stages]
        return [(name, one.equation, " × ".join(map(str, one.out_Td.shape))) for name, one in named]

    def text(self) -> str:
        """Each stage with its equation and the size of its output, line by line."""
        widest = max(len(name) for name, _, _ in self.rows())
        return "\n".join(f"{name:<{widest}}  {size:<12}{equation}" for name, equation, size in self.rows())

    def __repr__(self) -> str:
        return f"<Walk: {len(self.stages)} stages; .text() lists them>"

    def _repr_html_(self) -> str:
        return Table(("stage", "equation", "output"), self.rows()).html()
