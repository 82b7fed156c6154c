"""An operation on tensors, as a recording keeps it, and the kinds of operations that equations and terms distinguish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firth.inspection.walk.matrix import SourceLine

SUMS = {"add": "+", "sub": "−"}
PRODUCTS = {"mul": "⊙", "div": "/"}
COMPARISONS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "eq": "=", "ne": "≠"}
LETTERS = {"sigmoid": "σ", "sqrt": "√", "log": "ln", "log_sigmoid": "ln σ", "silu": "SiLU", "relu": "ReLU", "gelu": "GELU"}
REDUCTIONS = ("sum", "mean")
MATMULS = frozenset(("matmul", "mm", "bmm", "linear"))
_CUTS = (
    "chunk",
    "split",
    "split_with_sizes",
    "unbind",
    "narrow",
    "select",
    "getitem",
    "cat",
    "stack",
    "expand",
    "expand_as",
    "repeat_interleave",
)
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
    ("tanh", "exp", "abs", "square", "rsqrt", "reciprocal", "log1p", "expm1", "elu", "sin", "cos", "where", "clamp", "clamp_min")
)


Index = tuple[int, ...]


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
    """The operation that computed a tensor, before it was sliced, concatenated or transposed."""
    while (source := moved_from(node)) is not None:
        node = source
    return node


def moved_from(node: Node) -> Node | None:
    """The tensor that all numbers of a node come from, if it only moves them."""
    if node.name or node.operation not in MOVES or not node.value.numel():
        return None
    inputs = node.inputs()
    if len(inputs) > 1 or inputs[0].operation not in ("cat", "stack"):
        return inputs[0] if len(inputs) == 1 else None
    ends = [moved(node, (0,) * node.value.ndim), moved(node, tuple(size - 1 for size in node.value.shape))]
    sources = [None if one is None else moved(*one) for one in ends]
    first, last = sources
    return first[0] if first is not None and last is not None and first[0] is last[0] else inputs[0]


def is_arithmetic(node: Node) -> bool:
    return node.operation in SUMS or node.operation in PRODUCTS or node.operation in ("neg", "pow", "where")


def is_elementwise(node: Node) -> bool:
    return is_arithmetic(node) or any(node.operation in names for names in (COMPARISONS, LETTERS, ELEMENTWISE))


def moved(node: Node, at: Index) -> tuple[Node, Index] | None:
    """The number of an input that stands at this place: the operation is done with numbered places."""
    inputs, places, first = node.inputs(), {}, 0
    inputs = inputs[:1] if node.operation == "getitem" else inputs  # the others are indexes
    for one in inputs:
        count = one.value.numel()
        places[id(one)] = torch.arange(first, first + count, dtype=torch.float64).view(one.value.shape)
        first += count
    assert node.call is not None
    swapped = _tensors(node.args, places), {name: _tensors(value, places) for name, value in (node.kwargs or {}).items()}
    try:
        made = node.call(*swapped[0], **swapped[1])
    except RuntimeError:  # a view of a tensor with other strides
        return None
    place, first = int((made if node.part is None else made[node.part])[at]), 0
    for one in inputs:
        if place < first + one.value.numel():
            return one, tuple(map(int, np.unravel_index(place - first, one.value.shape)))
        first += one.value.numel()
    return None


def _tensors(value: Any, places: Mapping[int, Tensor]) -> Any:
    if isinstance(value, Node):
        return places.get(id(value), value.value)
    return type(value)(_tensors(one, places) for one in value) if type(value) in (tuple, list) else value
