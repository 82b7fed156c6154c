"""Shares of many cases that are alike: `make test` runs some of them, `make test-all` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every_second(cases: Iterable[Any]) -> list[Any]:
    return [pytest.param(case, marks=[pytest.mark.long] * (n % 2)) for n, case in enumerate(cases)]


def some(cases: Iterable[Any], *quick: Any) -> list[Any]:
    return [pytest.param(case, marks=[] if case in quick else [pytest.mark.long]) for case in cases]
