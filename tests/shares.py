"""Shares of many cases that are alike: `make test` runs some of them, `make test-all` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_Param = type(pytest.param())


def every_second(cases: Iterable[Any]) -> list[Any]:
    return [_long(case) if n % 2 else case for n, case in enumerate(cases)]


def some(cases: Iterable[Any], *quick: Any) -> list[Any]:
    return [case if case in quick else _long(case) for case in cases]


def _long(case: Any) -> Any:
    given = case if isinstance(case, _Param) else pytest.param(case)
    return pytest.param(*given.values, marks=[*given.marks, pytest.mark.long], id=given.id)
