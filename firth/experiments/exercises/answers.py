"""Reads the answers of a student's process, which may hold anything: its code can write to the same pipe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_DEEPEST = 50  # lists within lists


def read(line: bytes, arguments: int) -> dict[str, Any] | None:
    """The answer in a line, about a call with so many arguments; None if it is not one that child.py writes."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or len(answer) != 1:
        return None
    [(kind, content)] = answer.items()
    right = {
        "ready": lambda: content is True,
        "stopped": lambda: _is_reason(content),
        "value": lambda: _is_value(content),
        "raised": lambda: _is_raised(content),
        "changed": lambda: type(content) is int and 0 <= content < arguments,
    }
    return answer if kind in right and right[kind]() else None


def _is_reason(content: Any) -> bool:
    if not isinstance(content, dict) or len(content) != 1:
        return False
    [(kind, what)] = content.items()
    if kind == "forbidden":
        return _is_table(what, {"imports": str, "reads": str}) and bool(what)
    return _is_raised(what) if kind == "raised" else kind in ("missing", "syntax") and isinstance(what, str)


def _is_raised(content: Any) -> bool:
    types = {"type": str, "message": str, "frames": list, "memory": bool}
    return _is_table(content, types) and content.keys() == types.keys() and all(isinstance(one, str) for one in content["frames"])


def _is_value(content: Any, depth: int = 0) -> bool:
    if isinstance(content, list):
        return depth < _DEEPEST and all(_is_value(one, depth + 1) for one in content)
    if not isinstance(content, dict):
        return True
    if "other" in content:
        return _is_table(content, {"other": str}) and len(content) == 1
    return content.keys() == {"dtype", "shape", "values"} and _is_array(**content)


def _is_array(dtype: Any, shape: Any, values: Any) -> bool:
    if not isinstance(dtype, str) or not isinstance(shape, list) or not all(type(one) is int and one >= 0 for one in shape):
        return False
    if values is None:
        return True
    return isinstance(values, list) and len(values) == math.prod(shape) and all(_is_number(one) for one in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() <= 64)


def _is_table(content: Any, types: Mapping[str, type]) -> bool:
    return isinstance(content, dict) and all(isinstance(one, types.get(name, ())) for name, one in content.items())
