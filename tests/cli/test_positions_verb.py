"""firth positions, as the shell calls it: the table, its options, the page and the JSON, against the formula of Vaswani et al.
(2017) and Python's own binary numbers."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from shell import Firth


def waves(t: int, width: int, base: float = 10_000.0) -> list[float]:
    """PE(t, 2i) = sin(t / N^(2i/d)), PE(t, 2i + 1) = cos(t / N^(2i/d))"""
    angles = [t / base ** (2 * i / width) for i in range(width // 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def rows_of(out: str) -> list[tuple[int, str, list[float]]]:
    """The position, its bits and its waves in each row of the printed table."""
    table, _, _ = out.partition("\n\n")
    return [(int(t), bits, list(map(float, shown))) for t, bits, *shown in map(str.split, table.splitlines()[1:])]


def assert_rows(out: str, length: int, width: int, base: float, shown: int) -> None:
    rows = rows_of(out)
    assert [(t, bits) for t, bits, _ in rows] == [(t, f"{t:0{(length - 1).bit_length()}b}") for t in range(length)]
    for t, _, sinusoid in rows:
        assert sinusoid == pytest.approx(waves(t, width, base)[:shown], abs=0.00501), t


def test_a_small_table_is_printed_to_the_letter(firth: Firth) -> None:
    assert firth("positions", "--length", 4, "--width", 4).out.splitlines() == [
        "   t  binary  sin 0  cos 0  sin 1  cos 1",
        "   0      00   0.00   1.00   0.00   1.00",
        "   1      01   0.84   0.54   0.01   1.00",
        "   2      10   0.91  -0.42   0.02   1.00",
        "   3      11   0.14  -0.99   0.03   1.00",
        "",
        "periods of the bits, lowest first: 2 4 positions",
        "periods of the waves: 6.283 628.3 positions",
    ]


def test_by_default_it_shows_sixteen_positions_in_eight_dimensions_with_the_published_base(firth: Firth) -> None:
    out = firth("positions").out
    assert_rows(out, 16, 8, 10_000.0, 8)
    assert "periods of the waves: 6.283 62.83 628.3 6283 positions" in out


@pytest.mark.parametrize(("length", "width", "base"), [(8, 6, 10_000.0), (5, 4, 100.0), (33, 2, 7.5)])
def test_every_position_is_shown_as_waves_and_as_bits(length: int, width: int, base: float, firth: Firth) -> None:
    out = firth("positions", "--length", length, "--width", width, "--base", base).out
    assert_rows(out, length, width, base, width)
    told = re.search(r"periods of the waves: (.+) positions", out)
    assert told is not None
    periods = [2 * math.pi * base ** (2 * i / width) for i in range(width // 2)]
    assert list(map(float, told[1].split())) == pytest.approx(periods, rel=5e-4)


def test_a_narrow_terminal_gets_the_first_dimensions_and_is_told_so(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = firth("positions", "--width", 16).out
    assert_rows(out, 16, 16, 10_000.0, 4)
    assert "4 of 16 dimensions are shown; --json prints all, and --save draws them." in out


def test_json_has_every_digit_and_what_repeats_when(firth: Firth) -> None:
    told = json.loads(firth("positions", "--length", 6, "--width", 4, "--base", 100, "--json").out)
    assert told["base"] == 100
    assert told["binary"] == ["000", "001", "010", "011", "100", "101"]
    assert len(told["sinusoid"]) == 6
    for t, sinusoid in enumerate(told["sinusoid"]):
        assert sinusoid == pytest.approx(waves(t, 4, 100), rel=1e-12, abs=1e-15)
    assert told["bit_periods"] == [2, 4, 8]
    assert told["wave_periods"] == pytest.approx([2 * math.pi, 20 * math.pi])  # ω = 1 and 100^(−1/2)


def test_the_saved_page_has_the_numbers_of_the_options(firth: Firth, tmp_path: Path) -> None:
    answer = firth("positions", "--length", 5, "--width", 4, "--base", 100, "--save", tmp_path / "page.html")
    assert_rows(answer.out, 5, 4, 100.0, 4)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Sinusoid and binary numbers" in page
    rows = re.findall(r"<tr><td>(\d+)</td><td>([^<]+)</td><td>([01]+)</td></tr>", page)
    assert [(int(t), bits[::-1]) for t, _, bits in rows] == [(t, f"{t:03b}") for t in range(5)]  # lowest first
    for t, shown, _ in rows:
        assert list(map(float, shown.split())) == pytest.approx(waves(int(t), 4, 100), abs=0.000501)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--width", 5), "width is 5; each sine has a cosine, so it must be even"),
        (("--length", 1), "length is 1; expected 2 to 1,024"),
        (("--base", 1), "base is 1; expected a finite number above 1, such as 10000"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_setting_that_makes_no_table_is_refused(given: tuple[str, float], message: str, firth: Firth, tmp_path: Path) -> None:
    refused = firth("positions", *given, "--save", tmp_path / "page.html")
    assert (refused.code, refused.out, refused.err) == (2, "", f"firth: {message}\n")
    assert not (tmp_path / "page.html").exists()
