"""Shares of many cases that are alike: `make test` runs some of them, `make test-all` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_Param = type(pytest.param())
_GOLDEN = (5**0.5 - 1) / 2


def half(cases: Iterable[Any], turn: int = 0) -> list[Any]:
    """Tests of the same cases take turns, 0 and 1, so that the quick ones meet each case together."""
    return _share(cases, 2, turn)


def third(cases: Iterable[Any], turn: int = 0) -> list[Any]:
    return _share(cases, 3, turn)


def some(cases: Iterable[Any], *quick: Any) -> list[Any]:
    return [case if case in quick else _long(case) for case in cases]


def _share(cases: Iterable[Any], parts: int, turn: int) -> list[Any]:
    """By multiples of the golden ratio: every third case of a product of lists might have the same kind each time."""
    return [case if int(n * _GOLDEN % 1 * parts) == turn else _long(case) for n, case in enumerate(cases)]


def _long(case: Any) -> Any:
    given = case if isinstance(case, _Param) else pytest.param(case)
    return pytest.param(*given.values, marks=[*given.marks, pytest.mark.long], id=given.id)
