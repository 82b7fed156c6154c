"""The known numbers, how they are computed again, and how far from them a result may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from same_numbers.case import Case, Numbers
from same_numbers.cases import Files, recipes
from same_numbers.decoded import decoded

RECORD = Path(__file__).parent / "known.json"
COMMAND = "python tests/same_numbers/record.py"
# All of these are shares of the largest number of a list, and far above what processors were seen to differ by (LOG.md).
EXACT = 1e-9  # float64: some thousand roundings of 1e-16, which grow by less than 1e4 on the way to the logits
# float32, in which probabilities, losses and the scores of a search are summed whatever the network: some dozen roundings of 6e-8
ROUNDED = 2.0**-17
FAST = 2.0**-15  # logits of a network in float32: two layers, and sums of up to 64 products in each
SHARES = {"logits": EXACT, "fast logits": FAST}

Compute = Callable[[int, float], Numbers]


def known() -> dict[str, Numbers]:
    """By case: the seed of its weights, and its numbers."""
    numbers_of: dict[str, Numbers] = json.loads(RECORD.read_text(encoding="utf-8"))
    return numbers_of


def cases(folder: Path) -> dict[str, Compute]:
    """For each case, a function that computes its numbers from the seed of its weights and the noise in them."""
    files, computes = Files(folder), {}
    tasks: set[str] = set()
    for name, table in recipes(files).items():
        computes[name] = _compute(table, table["objective"]["kind"] not in tasks)
        tasks.add(table["objective"]["kind"])
    return {**computes, **decoded(files.pairs)}


def _compute(table: dict[str, Any], evaluated: bool) -> Compute:
    return lambda seed, noise: Case(table, seed, noise).numbers(evaluated)


def differences(given: Any, expected: Any, share: float = ROUNDED, at: str = "") -> Iterator[str]:
    """The places where two results differ: texts and counts at all, lists by more than `share` of their largest number."""
    if isinstance(expected, dict):
        if given.keys() != expected.keys():
            yield f"{at}: {sorted(given.keys() ^ expected.keys())} in only one of them"
        for key in expected.keys() & given.keys():
            yield from differences(given[key], expected[key], SHARES.get(key, share), f"{at}/{key}")
    elif _numbers(expected) and _numbers(given) and len(given) == len(expected):
        largest = max(map(abs, expected), default=0.0)
        for n, (one, other) in enumerate(zip(given, expected, strict=True)):
            if not abs(one - other) <= share * largest:
                yield f"{at}/{n}: {one!r} is not {other!r}, off by {abs(one - other) / largest:.1e} of the largest"
    elif isinstance(expected, list) and isinstance(given, list | tuple) and len(given) == len(expected):
        for n, (one, other) in enumerate(zip(given, expected, strict=True)):
            yield from differences(one, other, share, f"{at}/{n}")
    elif isinstance(expected, float):
        yield from differences([given], [expected], share, at)
    elif given != expected:
        yield f"{at}: {given!r} is not {expected!r}"


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, float) for value in values)


def discrete(numbers: Any) -> Any:
    """The same without floats: what may not depend on a rounding."""
    if isinstance(numbers, dict):
        return {key: discrete(value) for key, value in numbers.items()}
    if isinstance(numbers, list | tuple):
        return [discrete(value) for value in numbers]
    return None if isinstance(numbers, float) else numbers
