from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from shell import Firth

from firth.oracles.position import sinusoid


def test_every_position_is_shown_as_waves_and_as_bits(firth: Firth) -> None:
    _, *lines = firth("positions", "--length", 8, "--width", 6).out.splitlines()
    for t in range(8):
        number, bits, *waves = lines[t].split()
        assert (number, bits) == (str(t), f"{t:03b}")
        assert [float(wave) for wave in waves] == pytest.approx(sinusoid(t, 6), abs=0.00501)


def test_json_has_every_digit_and_what_repeats_when(firth: Firth, tmp_path: Path) -> None:
    chosen = ("--length", 6, "--width", 4, "--base", 100)
    told = json.loads(firth("positions", *chosen, "--json", "--save", tmp_path / "page.html").out)
    assert told["binary"] == ["000", "001", "010", "011", "100", "101"]
    for t, waves in enumerate(told["sinusoid"]):
        assert waves == pytest.approx(sinusoid(t, 4, 100), rel=1e-12)
    assert told["bit_periods"] == [2, 4, 8]
    assert told["wave_periods"] == pytest.approx([2 * math.pi, 20 * math.pi])  # ω = 1 and 100^(−1/2)
    assert "Sinusoid and binary numbers" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_odd_width_is_refused(firth: Firth) -> None:
    refused = firth("positions", "--width", 5)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "firth: width is 5; each sine has a cosine, so it must be even\n"
