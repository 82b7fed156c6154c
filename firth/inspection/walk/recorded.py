"""The computation of a function, recorded while it runs, so that its equation and the terms of a number follow from its code.

`Recording` runs a function and keeps every operation. Of each tensor that it saw, it gives the equation in the names of the
inputs (`equation`), the line of code (`source`) and the computation of one number (`spell`). An operation that it does not know
stands in the equation by its name and is not taken apart.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from firth.inspection.walk.equation_text import ATOM, SUM, held, is_sum, label_of, text_of
from firth.inspection.walk.matrix import Line, SourceLine, Spell, number, product, shown_path
from firth.inspection.walk.operation import (
    MATMULS,
    MOVES,
    REDUCTIONS,
    Index,
    Node,
    is_arithmetic,
    is_elementwise,
    moved,
    moved_from,
    owned,
)

_TORCH = str(Path(torch.__file__).parent)


class Recording(TorchFunctionMode):
    """Run `function` on its arguments, whose tensors have `names`."""

    def __init__(self, function: Callable[..., Any], *args: Any, names: Iterable[tuple[str, Tensor]] = ()) -> None:
        super().__init__()
        self._of = {id(tensor): Node(tensor, name) for name, tensor in names}
        self._kept: list[Any] = []  # so that no id is used twice
        with torch.no_grad(), self:
            self.result = function(*args)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, swapped = _operation(func)
        given, named = _replaced(args, self._node), {key: _replaced(value, self._node) for key, value in (kwargs or {}).items()}
        if _in_place(func) and isinstance(args[0], Tensor):
            given[0].value = args[0].clone()
        made = func(*args, **(kwargs or {}))
        several = isinstance(made, tuple | list)
        if not isinstance(made, Tensor) and not several:
            return made
        source = _line(sys._getframe(1))
        for part, one in enumerate(made if several else [made]):
            if isinstance(one, Tensor):
                self._of[id(one)] = Node(
                    one, "", name, func, given[::-1] if swapped else given, named, part if several else None, source
                )
        self._kept.append(made)
        return made

    def _node(self, tensor: Tensor) -> Node:
        if id(tensor) not in self._of:
            self._of[id(tensor)] = Node(tensor)
            self._kept.append(tensor)
        return self._of[id(tensor)]

    def call_it(self, tensor: Tensor, name: str) -> None:
        """From here on, equations of other tensors have this name for it."""
        self._node(tensor).name = name

    def equation(self, tensor: Tensor) -> str:
        return text_of(owned(self._node(tensor)), whole=True)[0]

    def source(self, tensor: Tensor) -> SourceLine | None:
        return self._node(tensor).source

    def origin(self, tensor: Tensor) -> SourceLine | None:
        """The line that computes a tensor, or that takes it from a product of several matrices."""
        node = self._node(tensor)
        while (source := moved_from(node)) is not None and source.operation not in MATMULS:
            node = source
        return node.source

    def name(self, tensor: Tensor) -> str:
        """The name of what a tensor is a part of, or a rearrangement; "" if that has none."""
        return owned(self._node(tensor)).name

    def is_share(self, tensor: Tensor) -> bool:
        """True if all its values are between 0 and 1 by the operation that made it."""
        return owned(self._node(tensor)).operation in ("sigmoid", "softmax")

    def spell(self, tensor: Tensor, name: str, before: Index = ()) -> Spell:
        """The computation of tensor[*before, row, column]."""
        node = self._node(tensor)

        def lines(row: int, column: int) -> list[Line]:
            spelled = _Spelled()
            spelled.visit(node, (*before, row, column), last=name)
            return spelled.lines

        return lines


class _Spelled:
    """One number of a recording, line by line: products and inputs, functions of them, and the number itself."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.seen: set[tuple[int, Index]] = set()

    def visit(self, node: Node, at: Index, last: str = "", told: bool = False) -> None:
        """Tell what `node[at]` is computed from. `last`: the name of the number that is spelled; `told`: tell the number itself,
        even if it is a sum, because a function of it follows."""
        if not last and (id(node), at) in self.seen:
            return
        self.seen.add((id(node), at))
        if node.name and not last:
            self.add(node.name, number(node.value[at]))
        elif node.operation in MOVES:
            where = moved(node, at)
            if where is None:
                self.add(label_of(node), number(node.value[at]))
            else:
                self.visit(*where, last=last, told=told)
        elif node.operation in MATMULS and node.inputs()[0].value.ndim > 1:
            self._matmul(node, at, last, told)
        elif node.operation in REDUCTIONS:
            self._reduction(node, at, last)
        elif is_elementwise(node):
            arithmetic = is_arithmetic(node)
            for one in node.inputs():
                self.visit(one, _broadcast(at, one.value), told=not arithmetic)
            if last or told or not arithmetic:
                self.add(SUM if told and is_sum(node) else label_of(node, last), number(node.value[at]))
        else:
            self.add(label_of(node, last), number(node.value[at]))

    def add(self, label: str, value: float, *more: Any) -> None:
        self.lines.append(Line(label, value, *more))

    def _matmul(self, node: Node, at: Index, last: str, told: bool) -> None:
        one, other, bias, factors = _factors(node, at)
        texts = text_of(one), text_of(other)
        names = texts[0][0].removesuffix("ᵀ"), texts[1][0].removesuffix("ᵀ")
        label = (
            label_of(node, last)
            if last and bias is None
            else f"Σ {held(texts[0], ATOM)} {held(texts[1], ATOM)}".removesuffix("ᵀ")
        )
        self.lines.append(product(label, *factors, names))
        if bias is not None:
            self.visit(bias, at[-1:])
            if last or told:
                self.add(last or SUM, number(node.value[at]))

    def _reduction(self, node: Node, at: Index, last: str) -> None:
        """Over the last axis; the terms are numbers, or products of two."""
        (inner, *_), row = node.inputs(), _reduced(node, at)
        if row is None:
            self.add(label_of(node, last), number(node.value[at]))
            return
        inner = owned(inner)
        if inner.operation == "mul" and len(inner.inputs()) == 2:
            left, right = (torch.broadcast_to(one.value, inner.value.shape)[row] for one in inner.inputs())
            names = (text_of(inner.inputs()[0])[0], text_of(inner.inputs()[1])[0])
        else:
            left, names = inner.value[row], (text_of(inner)[0], "1")
            right = torch.ones_like(left)
        if node.operation == "mean":
            right, names = right / len(left), (names[0], "1/n" if names[1] == "1" else f"{names[1]} / n")
        total = product(label_of(node, last), left, right, names)
        self.lines.append(total)


_ALIASES = {"truediv": "div", "multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg"}


def _operation(func: Any) -> tuple[str, bool]:
    """ "add" for torch.add, Tensor.__iadd__ and Tensor.add_; and whether its operands are swapped, as in Tensor.__radd__."""
    name = str(getattr(func, "__name__", ""))
    if name == "__get__":  # of an attribute, such as mT
        return str(func.__self__.__name__), False
    bare = name.strip("_")
    swapped = bare in ("radd", "rsub", "rmul", "rdiv", "rtruediv", "rpow")
    bare = bare[1:] if swapped or bare in ("iadd", "isub", "imul", "itruediv") else bare
    return _ALIASES.get(bare, bare), swapped


def _in_place(func: Any) -> bool:
    name = str(getattr(func, "__name__", ""))
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))


def _replaced(value: Any, node: Callable[[Tensor], Node]) -> Any:
    if isinstance(value, Tensor):
        return node(value)
    return type(value)(_replaced(one, node) for one in value) if type(value) in (tuple, list) else value


def _line(frame: FrameType | None) -> SourceLine | None:
    """The line of the innermost function that is not torch's."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return SourceLine(shown_path(Path(file)), line, linecache.getline(file, line).strip())


# Where a number comes from


def _broadcast(at: Index, value: Tensor) -> Index:
    own = at[len(at) - value.ndim :]
    return tuple(0 if size == 1 else n for n, size in zip(own, value.shape, strict=True))


def _factors(node: Node, at: Index) -> tuple[Node, Node, Node | None, tuple[Tensor, Tensor]]:
    """Both operands of a matrix product, its bias, and the row and column of one number."""
    left, right, *rest = node.inputs()
    if node.operation == "linear":
        return right, left, rest[0] if rest else None, (right.value[at[-1]], left.value[at[:-1]])
    if right.value.ndim == 1:
        return left, right, None, (left.value[at], right.value)
    row: tuple[Any, ...] = (*_broadcast(at[:-2], left.value[..., 0, 0]), at[-2])
    column: tuple[Any, ...] = (*_broadcast(at[:-2], right.value[..., 0, 0]), slice(None), at[-1])
    return left, right, None, (left.value[row], right.value[column])


def _reduced(node: Node, at: Index) -> tuple[Any, ...] | None:
    """The row that a sum over the last axis reads; None if it is over others."""
    (inner,), kwargs = node.inputs(), node.kwargs or {}
    dim = kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    dims = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if dims not in ((-1,), (inner.value.ndim - 1,)):
        return None
    return (*(at[:-1] if node.value.ndim == inner.value.ndim else at), slice(None))
