"""Conditions on runs: loss < 1.5 and model.kind == "lstm"

A name stands for a figure or a setting of a run. What a run does not have is unknown, and so is every comparison with it; `and`,
`or` and `not` follow Kleene's logic: unknown and false is false, unknown or true is true, not unknown is unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from firth.errors import ConfigError
from firth.experiments.expressions import ARITHMETIC, parsed
from firth.experiments.records.cost_to_loss import COSTS

Values = Callable[[str], Any]  # from a name to its value; None if the run has none
_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CONSTANTS = {"true": True, "false": False}  # as in TOML


class RunCondition:
    """A condition, such as `RunCondition('loss < 1.5 and model.kind == "lstm"')`."""

    def __init__(self, text: str) -> None:
        self.text = text
        tree = parsed(text, "the condition")
        if tree is None:
            raise ConfigError(f"the condition {text!r} cannot be read. Write one such as {_EXAMPLE}.")
        self._tree = tree
        self.names = tuple(dict.fromkeys(_names(tree)))
        self.holds(lambda name: None)  # refuses what no condition may contain

    def holds(self, values: Values) -> bool | None:
        """Whether it holds for a run; None if that is unknown."""
        try:
            return self._truth(self._tree, values)
        except RecursionError as error:
            raise ConfigError(f"the condition {self.text[:40]!r}… is nested too deeply") from error
        except OverflowError:  # of a whole number of hundreds of digits
            return None

    def _truth(self, node: ast.expr, values: Values) -> bool | None:
        match node:
            case ast.BoolOp(op=op, values=parts):
                decides = isinstance(op, ast.Or)
                truths = [self._truth(part, values) for part in parts]
                return decides if decides in truths else None if None in truths else not decides
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                truth = self._truth(inner, values)
                return None if truth is None else not truth
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self._value(side, values) for side in (left, *others)]
                truths = [self._compared(op, one, other) for op, one, other in zip(ops, sides, sides[1:], strict=False)]
                return False if False in truths else None if None in truths else True
        value = self._value(node, values)
        if value is None or isinstance(value, bool):
            return value
        raise ConfigError(f"{ast.unparse(node)[:40]} is {value!r}, which is neither true nor false. Compare it with something.")

    def _compared(self, op: ast.cmpop, one: Any, other: Any) -> bool | None:
        if isinstance(op, ast.Is | ast.IsNot):
            raise self._refused("is")
        if one is None or other is None:
            return None
        if isinstance(op, ast.Eq | ast.NotEq):
            return bool(one == other) == isinstance(op, ast.Eq)
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(other, tuple | str) or (isinstance(other, str) and not isinstance(one, str)):
                raise ConfigError(f"the condition {self.text!r} looks for {one!r} in {other!r}, which is no list")
            return bool(one in other) == isinstance(op, ast.In)
        if _sort(one) != _sort(other) or _sort(one) == "a list":
            raise ConfigError(
                f"the condition {self.text!r} compares {one!r}, {_sort(one)}, with {other!r}, {_sort(other)}. Only numbers, or "
                "texts, are less or more than each other."
            )
        return _ORDER[type(op)](one, other)

    def _value(self, node: ast.expr, values: Values) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in _CONSTANTS:
                return _CONSTANTS[name]
            case ast.Name() | ast.Attribute() | ast.Call() if name := _dotted(node):
                value = values(name)
                return tuple(value) if isinstance(value, list) else value
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                items = tuple(self._value(part, values) for part in parts)
                return None if None in items else items
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self._number(inner, values)
                return None if value is None else -value
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                one, other = self._number(left, values), self._number(right, values)
                unknown = one is None or other is None or (isinstance(op, ast.Div) and other == 0)
                return None if unknown else ARITHMETIC[type(op)](one, other)
        raise self._refused(ast.unparse(node)[:40])

    def _number(self, node: ast.expr, values: Values) -> int | float | None:
        value = self._value(node, values)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ConfigError(f"the condition {self.text!r} calculates with {value!r}, which is no number")
        return value

    def _refused(self, part: str) -> ConfigError:
        return ConfigError(
            f'the condition {self.text!r} contains "{part}". Use figures, settings such as model.width, numbers, texts in '
            "quotes, lists, comparisons, and, or, not, in, + - * /."
        )


_EXAMPLE = "'loss < 1.5 and model.kind == \"lstm\"'"


def _sort(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "a text" if isinstance(value, str) else "a list"


def _dotted(node: ast.expr) -> str:
    """ "model.width" or "seconds_to(1.6)"; "" for what is not the name of a figure or a setting."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=last) if before := _dotted(inner):
            return f"{before}.{last}"
        case ast.Call(func=ast.Name(id=name)) if name in COSTS:
            return ast.unparse(node)
    return ""


def _names(tree: ast.expr) -> Iterator[str]:
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        name = _dotted(node) if isinstance(node, ast.expr) else ""
        if name and name not in _CONSTANTS:
            yield name
        elif not name:
            left += reversed(list(ast.iter_child_nodes(node)))
