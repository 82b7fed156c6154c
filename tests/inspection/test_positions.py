"""Sinusoidal positions beside binary numbers: against the formula, and Python's own binary numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firth.errors import ConfigError
from firth.inspection.positions import sinusoid_and_binary


def test_3_is_011_and_not_101() -> None:
    table = sinusoid_and_binary(length=8)
    assert table.binary(3) == "011"
    assert table.binary(5) == "101"
    assert [table.binary(t) for t in range(8)] == [f"{t:03b}" for t in range(8)]
    assert [sum(bit << j for j, bit in enumerate(bits)) for bits in table.bit_Tn.tolist()] == list(range(8))


@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_waves_are_those_of_the_formula(base: float) -> None:
    table = sinusoid_and_binary(length=5, width=6, base=base)
    for t in range(5):
        for i in range(3):
            omega = base ** (-2 * i / 6)
            assert table.wave_Td[t, 2 * i : 2 * i + 2] == pytest.approx([math.sin(omega * t), math.cos(omega * t)], rel=1e-12)


def test_after_its_period_a_digit_is_the_same_again() -> None:
    table = sinusoid_and_binary(length=64, width=4, base=4.0)  # waves of 2π and 4π positions
    assert table.bit_periods == [2, 4, 8, 16, 32, 64]
    for j, period in enumerate(table.bit_periods[:-1]):
        np.testing.assert_array_equal(table.bit_Tn[period:, j], table.bit_Tn[:-period, j])
        assert (table.bit_Tn[period // 2 :, j] != table.bit_Tn[: -period // 2, j]).all()
    assert table.wave_periods == pytest.approx([2 * math.pi, 4 * math.pi])


def test_the_figure_and_the_text_have_the_same_numbers() -> None:
    table = sinusoid_and_binary(length=4, width=4)
    waves, bits = table.plot().data
    np.testing.assert_array_equal(waves.z, table.wave_Td)
    np.testing.assert_array_equal(bits.z, table.bit_Tn)
    assert table.text().splitlines()[4].split() == ["3", "11", "0.14", "-0.99", "0.03", "1.00"]
    narrow = sinusoid_and_binary(length=4, width=64).text(width=40)
    assert "4 of 64 dimensions are shown" in narrow
    assert max(map(len, narrow.splitlines()[:5])) <= 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": 1}, "length is 1; expected 2 to 1,024"),
        ({"width": 5}, "width is 5; each sine has a cosine"),
        ({"base": 1.0}, "base is 1; expected a finite number above 1"),
    ],
)
def test_bad_settings_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sinusoid_and_binary(**given)  # type: ignore[arg-type]
