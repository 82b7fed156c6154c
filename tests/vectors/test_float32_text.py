"""float32 as text: the shortest decimals, numpy's own, and back to the same bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from firth.vectors import float32_text
from firth.vectors.float32_text import nearest_float32, shortest, to_float32

EDGES = np.float32(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 1e-12, 9.9999e-13, 1e6, 999999.94, 1e-5, 1 / 3]
)


def any_bits(count: int) -> NDArray[np.float32]:
    value = np.random.default_rng(0).integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    return value[np.isfinite(value)]


@pytest.mark.parametrize("kind", ["edges", "any bits", "as in vectors", "of every size"])
def test_the_text_is_numpys_shortest(kind: str) -> None:
    generator = np.random.default_rng(1)
    value = {
        "edges": EDGES,
        "any bits": any_bits(5000),
        "as in vectors": generator.standard_normal(20_000, dtype=np.float32) / 8,
        "of every size": np.float32(10.0 ** generator.uniform(-14, 8, 20_000)),
    }[kind]
    assert shortest(value) == [str(number) for number in value]


def test_text_gives_the_same_bits_back() -> None:
    value = np.concatenate((EDGES, any_bits(5000)))
    rounded, doubtful = to_float32(np.array([float(text) for text in shortest(value)]))
    for n in doubtful:
        rounded[n] = nearest_float32(shortest(value)[n])
    assert rounded.tobytes() == value.tobytes()


def above_the_middle() -> str:
    """A decimal a hair above the middle between two float32, so little that float64 puts it on the middle."""
    low = np.float32(1.0)
    middle = (Fraction(float(low)) + Fraction(float(np.nextafter(low, np.float32(2))))) / 2
    return f"{float(middle):.40f}".rstrip("0") + "0000000000001"


def test_a_decimal_is_rounded_once_and_not_twice() -> None:
    text = above_the_middle()
    assert np.float32(float(text)) == 1  # twice: the tie goes to even, which is below
    (rounded,), (doubtful,) = to_float32(np.array([float(text)]))
    assert (rounded, doubtful) == (1, 0)
    assert nearest_float32(text) == np.nextafter(np.float32(1), np.float32(2))


def test_a_decimal_on_the_middle_is_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such numbers are too rare to find one, so another is declared to be on the middle: a longer decimal is taken."""
    third = np.float32([1 / 3])
    assert shortest(third) == ["0.33333334"]
    monkeypatch.setattr(float32_text, "_in_the_middle", lambda value: value == 0.33333334)
    assert shortest(third) == ["0.333333343"]


def test_a_tie_goes_to_the_even_one() -> None:
    assert nearest_float32("1.000000059604644775390625") == 1
    assert nearest_float32("1.000000178813934326171875").view(np.uint32) & 1 == 0


@pytest.mark.parametrize(("text", "expected"), [("1e-46", 0.0), ("-1e-46", -0.0), ("7.1e-46", 1e-45), ("1e39", np.inf)])
def test_the_ends_of_the_range(text: str, expected: float) -> None:
    assert nearest_float32(text).tobytes() == np.float32(expected).tobytes()
