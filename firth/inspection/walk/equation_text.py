"""The equation of a recorded tensor as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firth.inspection.walk.operation import (
    COMPARISONS,
    LETTERS,
    MATMULS,
    PRODUCTS,
    SUMS,
    Node,
    is_arithmetic,
    moved_from,
    nodes_in,
    owned,
)

ATOM, _POWER, _TIMES, _PLUS, _COMPARED = range(5)  # how tightly a text binds
SUM = "sum"  # what a sum is called once it has been told
_LONGEST = 60  # characters of an equation that stands inside another
Text = tuple[str, int]  # how tightly it binds, too


def text_of(node: Node, whole: bool = False) -> Text:
    """`whole`: the operation of a node, even if it has a name."""
    if node.name and not whole:
        return node.name, _PLUS if {"+", "−"} & set(node.name.split()) else ATOM
    if (source := moved_from(node)) is not None:
        text = text_of(source)
        return (f"{held(text, ATOM)}ᵀ", ATOM) if node.operation in ("mT", "T", "t") else text
    text = _composed(node)
    return text if whole or len(text[0]) <= _LONGEST else ("…", ATOM)


def held(text: Text, most: int) -> str:
    """In parentheses, if it binds less tightly than its surroundings."""
    return text[0] if text[1] <= most else f"({text[0]})"


def _composed(node: Node) -> Text:
    name, operands = node.operation, [_operand(one) for one in node.args]
    operands += [text for text in map(_operand, (node.kwargs or {}).values()) if text[0] and name in (*MATMULS, "where")]
    if not name:
        return "…", ATOM
    if len(operands) == 2 and not node.kwargs and name in (*SUMS, *PRODUCTS, *COMPARISONS):
        left, right = operands[::-1] if name == "mul" and isinstance(node.args[1], int | float) else operands
        return _infix(name, left, right, of_number=len(node.inputs()) == 1)
    if name == "getitem":
        return f"{held(operands[0], ATOM)}[{', '.join(text_of(one)[0] for one in nodes_in(node.args[1:]))}]", ATOM
    if name in ("cat", "stack"):
        return f"[{'; '.join(text_of(one)[0] for one in node.inputs())}]", ATOM
    if name in _FORMS:
        return _FORMS[name](*operands)
    return f"{LETTERS.get(name, name)}({', '.join(text for text, _ in operands if text)})", ATOM


def _operand(value: Any) -> Text:
    if isinstance(value, Node):
        return text_of(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (f"{value:g}".replace("-", "−") if is_number else "", ATOM)


def _infix(name: str, left: Text, right: Text, of_number: bool) -> Text:
    if name in COMPARISONS:
        return f"{held(left, _PLUS)} {COMPARISONS[name]} {held(right, _PLUS)}", _COMPARED
    if name in PRODUCTS:
        sign = "·" if name == "mul" and of_number else PRODUCTS[name]
        return f"{held(left, _TIMES)} {sign} {held(right, _POWER if name == 'div' else _TIMES)}", _TIMES
    if name == "add" and right[0].startswith("−"):
        return f"{held(left, _PLUS)} − {right[0].removeprefix('−')}", _PLUS
    return f"{held(left, _PLUS)} {SUMS[name]} {held(right, _PLUS if name == 'add' else _TIMES)}", _PLUS


def _linear(x: Text, W: Text, b: Text = ("", ATOM)) -> Text:
    text = f"{held(W, _TIMES)} {held(x, _POWER)}"
    return (f"{text} + {b[0]}", _PLUS) if b[0] else (text, _TIMES)


def _matmul(left: Text, right: Text) -> Text:
    return f"{held(left, _TIMES)} {held(right, _POWER)}", _TIMES


def _power(x: Text, n: Text = ("2", ATOM)) -> Text:
    return f"{held(x, ATOM)}{'²' if n[0] == '2' else f'^{held(n, ATOM)}'}", _POWER


_FORMS: dict[str, Callable[..., Text]] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    "pow": _power,
    "square": _power,
    "neg": lambda x: (f"−{held(x, _TIMES)}", _TIMES),
    "abs": lambda x: (f"|{x[0]}|", ATOM),
    "log1p": lambda x: (f"ln(1 + {x[0]})", ATOM),
    "where": lambda condition, yes, no: (f"{yes[0]} if {condition[0]}, else {no[0]}", _COMPARED),
    "ones_like": lambda x, *more: ("1", ATOM),
    "sum": lambda x, *dim: (f"Σ {held(x, _TIMES)}", _TIMES),
    "mean": lambda x, *dim: (f"mean({x[0]})", ATOM),
}


def is_sum(node: Node) -> bool:
    """True if the text is a sum, which gets a line of its own before a function is applied to it."""
    owner = owned(node)
    return not owner.name and (owner.operation in SUMS or (owner.operation == "linear" and len(owner.inputs()) > 2))


def label_of(node: Node, name: str = "") -> str:
    inputs = node.inputs()
    of_sum = len(node.args) == len(inputs) == 1 and not is_arithmetic(node) and is_sum(inputs[0])
    text = f"{LETTERS.get(node.operation, node.operation)}({SUM})" if of_sum else text_of(node, whole=True)[0]
    text = text if len(text) <= _LONGEST else "…"
    return f"{name} = {text}" if name and text != "…" else name or text
