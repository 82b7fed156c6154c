"""What the expressions that users write have in common: claims of studies, and conditions on runs. Python's parser reads them,
nothing executes them: each kind of expression evaluates the nodes that it knows and refuses all others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from firth.errors import ConfigError

LONGEST = 500  # characters
ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def parsed(text: str, what: str) -> ast.expr | None:
    """The tree of an expression, `what` in messages; None if it is not one."""
    if len(text) > LONGEST:
        raise ConfigError(f"{what} has {len(text):,} characters; expected at most {LONGEST:,}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
