"""An operation on tensors, as a recording keeps it, and the kinds of operations that equations and terms distinguish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from firth.inspection.walk.matrix import SourceLine

SUMS = {"add": "+", "sub": "−"}
PRODUCTS = {"mul": "⊙", "div": "/"}
COMPARISONS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "eq": "=", "ne": "≠"}
LETTERS = {"sigmoid": "σ", "sqrt": "√", "log": "ln", "silu": "SiLU", "relu": "ReLU", "gelu": "GELU"}
REDUCTIONS = ("sum", "mean")
MATMULS = frozenset(("matmul", "mm", "bmm", "linear"))
_CUTS = ("chunk", "split", "unbind", "narrow", "select", "getitem", "cat", "stack", "expand", "expand_as", "repeat_interleave")
_SHAPES = (
    "view",
    "view_as",
    "reshape",
    "flatten",
    "unflatten",
    "unsqueeze",
    "squeeze",
    "transpose",
    "permute",
    "t",
    "T",
    "mT",
    "data",
)
_COPIES = ("to", "float", "double", "bfloat16", "type_as", "detach", "clone", "contiguous", "data", "flip", "roll")
MOVES = frozenset((*_CUTS, *_SHAPES, *_COPIES))  # a number stays what it is and stands elsewhere
ELEMENTWISE = frozenset(
    ("tanh", "exp", "abs", "square", "rsqrt", "reciprocal", "log1p", "expm1", "sin", "cos", "where", "clamp", "clamp_min")
)


@dataclass(eq=False)
class Node:
    """A tensor: an input, or what an operation made."""

    value: Tensor
    name: str = ""
    operation: str = ""
    call: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()  # with nodes in place of tensors
    kwargs: Mapping[str, Any] | None = None
    part: int | None = None  # of several outputs
    source: SourceLine | None = None

    def inputs(self) -> list[Node]:
        """Those that are operands: the arguments that are tensors, and numbers among the others."""
        return list(nodes_in((*self.args, *(self.kwargs or {}).values())))


def nodes_in(values: Iterable[Any]) -> Iterable[Node]:
    for value in values:
        if isinstance(value, Node):
            yield value
        elif type(value) in (tuple, list):
            yield from nodes_in(value)


def owned(node: Node) -> Node:
    """What a tensor was before it was cut or turned around."""
    while node.operation in MOVES and not node.name and len(inputs := node.inputs()) == 1:
        node = inputs[0]
    return node


def is_arithmetic(node: Node) -> bool:
    return node.operation in SUMS or node.operation in PRODUCTS or node.operation in ("neg", "pow", "where")


def is_elementwise(node: Node) -> bool:
    return is_arithmetic(node) or any(node.operation in names for names in (COMPARISONS, LETTERS, ELEMENTWISE))
