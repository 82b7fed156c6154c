"""LoRA (Hu et al. 2021): a frozen matrix, and a correction of low rank that is trained in its place.

    y = W x + b + (α / r) B A dropout(x)       W frozen; A drawn at random, B zero, so that training starts from W

A matrix may hold several projections, as that of attention holds W^Q, W^K and W^V. Each has an A and a B of its own, and one may
have them without the others; they are multiplied together, as

    A_Rd = A_1 … A_P stacked,   B_nR = (α / r) B_1 … B_P, each in its own rows and columns, zero elsewhere

Letters: B batch, T time, n rows of W (outputs), d its columns, m rows of one projection, r rank of one correction, R their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.hook_free import Direct

Target = Literal["query", "key", "value", "output", "gate", "up", "down"]


class ProjectionRows(NamedTuple):
    """The rows of one projection in a matrix, and the factor α / r of its correction."""

    first: int
    last: int  # exclusive
    scale: float


class LowRank(nn.Module):
    """A_rd and B_mr of one projection."""

    def __init__(self, columns: int, rank: int, rows: ProjectionRows, like: Tensor) -> None:
        super().__init__()
        self.rows = rows
        self.a = nn.Parameter(like.new_empty(rank, columns))
        self.b = nn.Parameter(like.new_zeros(rows.last - rows.first, rank))

    def draw(self, generator: torch.Generator) -> None:
        """A x then has the size of x. B is zero."""
        with torch.no_grad():
            values_rd = torch.empty(self.a.shape).normal_(0.0, self.a.shape[1] ** -0.5, generator=generator)
            self.a.copy_(values_rd)
            self.b.zero_()


class LoraLinear(Direct):
    """A Linear with corrections. `weight` and `bias` are those of `frozen` and keep their names."""

    def __init__(self, frozen: nn.Linear, parts: Mapping[Target, LowRank], dropout: float = 0.0) -> None:
        super().__init__()
        self.weight, self.bias, self.dropout = frozen.weight, frozen.bias, dropout
        self.lora = nn.ModuleDict({role: part for role, part in parts.items()})  # noqa: C416 (role as a str)

    def forward(self, x_BTd: Tensor) -> Tensor:
        y_BTn = F.linear(x_BTd, self.weight, self.bias)
        if self.dropout:
            x_BTd = F.dropout(x_BTd, self.dropout, self.training)
        return y_BTn + F.linear(F.linear(x_BTd, self.stacked_a()), self.stacked_b())

    @property
    def matrix(self) -> Tensor:
        """W + (α / r) B A."""
        return self.weight + self.stacked_b() @ self.stacked_a()

    def parts(self) -> Iterable[tuple[Target, LowRank]]:
        return self.lora.items()  # type: ignore[return-value]  # a ModuleDict of LowRank

    def stacked_a(self) -> Tensor:
        return torch.cat([part.a for _, part in self.parts()])

    def stacked_b(self) -> Tensor:
        n = len(self.weight)
        placed = [F.pad(part.rows.scale * part.b, (0, 0, part.rows.first, n - part.rows.last)) for _, part in self.parts()]
        return torch.cat(placed, dim=1)
