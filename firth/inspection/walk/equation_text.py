"""The equation of a recorded tensor as text."""

from __future__ import annotations

from typing import Any

from firth.inspection.walk.operation import (
    COMPARISONS,
    LETTERS,
    MATMULS,
    MOVES,
    PRODUCTS,
    REDUCTIONS,
    SUMS,
    Node,
    is_arithmetic,
    owned,
)

ATOM, _POWER, _TIMES, _PLUS, _COMPARED = range(5)  # how tightly a text binds
SUM = "sum"  # what a sum is called once it has been told
_LONGEST = 60  # characters of an equation that stands inside another


def text_of(node: Node, whole: bool = False) -> tuple[str, int]:
    """The text of a node and how tightly it binds. `whole`: its operation, even if it has a name."""
    if node.name and not whole:
        return node.name, _PLUS if " + " in node.name else ATOM
    inputs = node.inputs()
    if node.operation in MOVES and len(inputs) == 1:
        return text_of(inputs[0])
    text, binds = _composed(node)
    return (text, binds) if whole or len(text) <= _LONGEST else ("…", ATOM)


def _composed(node: Node) -> tuple[str, int]:
    name, operands = node.operation, [text_of(one) if isinstance(one, Node) else _constant(one) for one in node.args]
    named = {key: text_of(one) if isinstance(one, Node) else _constant(one) for key, one in (node.kwargs or {}).items()}
    if not name:
        return "…", ATOM
    if name == "linear":
        x, W, *b = [*operands, *named.values()]
        text = f"{held(W, _TIMES)} {held(x, _POWER)}"
        return (f"{text} + {b[0][0]}", _PLUS) if b and b[0][0] else (text, _TIMES)
    if name in MATMULS:
        return f"{held(operands[0], _TIMES)} {held(operands[1], _POWER)}", _TIMES
    if name in ("rsub", "rdiv"):
        name, operands = name[1:], operands[::-1]
    if name in SUMS and len(operands) == 2 and not named:
        right = held(operands[1], _TIMES if name == "sub" else _PLUS)
        minus = name == "add" and right.startswith("−")
        return f"{held(operands[0], _PLUS)} {'−' if minus else SUMS[name]} {right.removeprefix('−') if minus else right}", _PLUS
    if name in PRODUCTS and len(operands) == 2 and not named:
        sign = "·" if name == "mul" and not all(isinstance(one, Node) for one in node.args) else PRODUCTS[name]
        return f"{held(operands[0], _TIMES)} {sign} {held(operands[1], _POWER if name == 'div' else _TIMES)}", _TIMES
    if name in COMPARISONS:
        return f"{held(operands[0], _PLUS)} {COMPARISONS[name]} {held(operands[1], _PLUS)}", _COMPARED
    if name == "neg":
        return f"−{held(operands[0], _TIMES)}", _PLUS
    if name in ("square", "pow"):
        power = "²" if name == "square" or operands[1][0] == "2" else f"^{held(operands[1], ATOM)}"
        return f"{held(operands[0], ATOM)}{power}", _POWER
    if name == "abs":
        return f"|{operands[0][0]}|", ATOM
    if name == "where" and len(operands) == 3:
        return f"{operands[1][0]} if {operands[0][0]}, else {operands[2][0]}", _COMPARED
    if name in REDUCTIONS:
        return (f"Σ {held(operands[0], _TIMES)}", _TIMES) if name == "sum" else (f"mean({operands[0][0]})", ATOM)
    inside = ", ".join(text for text, _ in operands if text)
    return f"{LETTERS.get(name, name)}({inside})", ATOM


def held(text: tuple[str, int], most: int) -> str:
    """In parentheses, if it binds less tightly than its surroundings."""
    return text[0] if text[1] <= most else f"({text[0]})"


def _constant(value: Any) -> tuple[str, int]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "", ATOM
    return f"{value:g}".replace("-", "−"), ATOM


def is_sum(node: Node) -> bool:
    """Whether its text is a sum, which is told in a line of its own before a function of it."""
    owner = owned(node)
    return not owner.name and (owner.operation in SUMS or (owner.operation == "linear" and len(owner.inputs()) > 2))


def label_of(node: Node, name: str = "") -> str:
    inputs = node.inputs()
    of_sum = len(node.args) == len(inputs) == 1 and not is_arithmetic(node) and is_sum(inputs[0])
    text = f"{LETTERS.get(node.operation, node.operation)}({SUM})" if of_sum else text_of(node, whole=True)[0]
    text = text if len(text) <= _LONGEST else "…"
    return f"{name} = {text}" if name else text
