"""Positions against the one-number-at-a-time oracle, and the laws that make them positions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerance import EXACT, assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.position import Learned, Rotary, RotaryTurn, Sinusoidal, angles, rotate, sinusoid
from firth.layers.position.rotary import turns
from firth.layers.position.sinusoidal import SinusoidalConfig
from firth.oracles import position as oracle

BASES = (10_000.0, 100_000.0, 7.0)


def at(*positions: int) -> Tensor:
    return torch.tensor(positions)


def turned(x_D: Tensor, t: int, base: float = 10_000.0) -> Tensor:
    """One head turned as if at position t, in float64 all the way."""
    turn = RotaryTurn(*turns(angles(at(t), len(x_D), base)))
    return rotate(x_D.view(1, 1, 1, -1), turn).flatten()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("width", [2, 6, 16])
def test_the_sinusoid_equals_the_oracle_for_any_base(width: int, base: float) -> None:
    positions = (0, 1, 2, 17, 1000)
    truth = np.stack([oracle.sinusoid(t, width, base) for t in positions])
    assert_equal(sinusoid(at(*positions), width, base), torch.from_numpy(truth))


def test_the_sinusoid_is_interleaved() -> None:
    """(sin t, cos t, sin t/100, cos t/100) for width 4 and base 10,000."""
    t = 3
    truth = [np.sin(t), np.cos(t), np.sin(t / 100), np.cos(t / 100)]
    assert_equal(sinusoid(at(t), 4)[0], torch.tensor(truth, dtype=torch.float64))


@given(t=st.integers(0, 5000), delta=st.integers(-500, 5000), base=st.sampled_from(BASES))
def test_a_shift_in_time_is_a_fixed_turn_of_the_sinusoid(t: int, delta: int, base: float) -> None:
    """R_δ p_t = p_{t+δ} with one R_δ for all t."""
    shifted = torch.from_numpy(oracle.shift(delta, 8, base)) @ sinusoid(at(t), 8, base)[0]
    assert_equal(shifted, sinusoid(at(t + delta), 8, base)[0], share=1e-11)  # angles up to 10⁴ carry an error of 10⁴ · 10⁻¹⁶


@pytest.mark.parametrize("base", BASES)
def test_rotary_equals_the_oracle(base: float) -> None:
    x = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for t in (0, 1, 2, 99):
        assert_equal(turned(x, t, base), torch.from_numpy(oracle.rotate(x.numpy(), t, base)))


def test_rotary_turns_halves_by_plus_theta() -> None:
    """(1, 0 | 0, 0) at t = 1 becomes (cos 1, 0 | sin 1, 0)."""
    x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert_equal(turned(x, 1), torch.tensor([np.cos(1), 0.0, np.sin(1), 0.0], dtype=torch.float64))


@given(t=st.integers(0, 3000), s=st.integers(0, 3000), shift=st.integers(0, 3000), seed=st.integers(0, 100))
def test_rotary_scores_depend_on_the_distance_alone(t: int, s: int, shift: int, seed: int) -> None:
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    here, there = turned(q, t) @ turned(k, s), turned(q, t + shift) @ turned(k, s + shift)
    assert abs(here - there) < 1e-10


@given(t=st.integers(0, 10**6))
def test_rotary_keeps_the_length_of_a_vector(t: int) -> None:
    x = torch.tensor([3.0, 0.0, 4.0, 12.0], dtype=torch.float64)
    assert abs(turned(x, t).norm().item() - 13) < 13 * EXACT


def test_angles_are_accurate_at_position_100_000() -> None:
    """Computed in float32, the first angle alone would be off by up to 0.004."""
    t, width = 10**5 - 1, 8
    truth = [t * oracle.frequency(i, width) for i in range(4)]
    assert_equal(angles(at(t), width, 10_000.0)[0], torch.tensor(truth, dtype=torch.float64))
    cosines = Rotary(4, width, 10_000.0).turn(t, 1).cos_TD[0, :4]
    off = (cosines.double() - torch.tensor(np.cos(truth))).abs().max()
    assert cosines.dtype == torch.float32
    assert off <= torch.finfo(torch.float32).eps / 2  # rounded once


def _stacked(rotary: Rotary) -> Callable[[int, int], torch.Tensor]:
    return lambda start, length: torch.stack(rotary.turn(start, length))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tables_that_grow_past_the_context_keep_their_values(dtype: torch.dtype) -> None:
    for small, large in (
        (_stacked(Rotary(4, 8, 10_000.0).to(dtype)), _stacked(Rotary(64, 8, 10_000.0).to(dtype))),
        (Sinusoidal(4, 8).to(dtype), Sinusoidal(64, 8).to(dtype)),
    ):
        before = small(0, 4).clone()
        assert torch.equal(small(2, 30), large(2, 30))
        assert torch.equal(small(0, 4), before)
        assert small(0, 4).dtype == dtype


def test_a_table_that_grew_while_generating_still_serves_training() -> None:
    rotary, sinusoidal = Rotary(4, 8, 10_000.0), Sinusoidal(4, 8)
    with torch.inference_mode():
        rotary.turn(0, 9)
        sinusoidal(0, 9)
    x = torch.ones(1, 1, 9, 8, requires_grad=True)
    (rotate(x, rotary.turn(0, 9)) * sinusoidal(0, 9)).sum().backward()
    assert x.grad is not None


def test_tables_are_not_saved() -> None:
    assert not Rotary(4, 8, 10_000.0).state_dict()
    assert not Sinusoidal(4, 8).state_dict()


def test_learned_positions_are_rows_of_a_table() -> None:
    learned = Learned(5, 3)
    with torch.no_grad():
        learned.table_Td.copy_(torch.arange(15.0).view(5, 3))
    assert learned(3, 2).tolist() == [[9, 10, 11], [12, 13, 14]]


def test_learned_positions_end_with_the_context() -> None:
    learned = Learned(5, 3)
    assert learned(0, 5).shape == (5, 3)
    with pytest.raises(ConfigError, match=r"position 6 is beyond model.context = 5"):
        learned(4, 2)


def test_odd_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"even; given 7"):
        Rotary(4, 7, 10_000.0)
    with pytest.raises(ConfigError, match=r"even; given 5"):
        Sinusoidal(4, 5)


def test_with_endpoint_and_first_the_sinusoid_is_that_of_fairseq() -> None:
    """sin and cos of (t + first)·10000^(−i/(half − 1)), computed in plain Python."""
    config = SinusoidalConfig(order="halves", endpoint=True, first=2)
    sinusoid_TD = Sinusoidal(3, 8, config)(0, 9)  # it grows
    for t, row in enumerate(sinusoid_TD.tolist()):
        angle = [(t + 2) * 10_000 ** (-i / 3) for i in range(4)]
        assert row == pytest.approx([*map(math.sin, angle), *map(math.cos, angle)], abs=1e-6)
    with pytest.raises(ConfigError, match=r"model\.position\.first is -1"):
        SinusoidalConfig(first=-1)
