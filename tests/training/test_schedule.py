"""The learning rate is the published function of the step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.config import build
from firth.training.config import TrainingConfig
from firth.training.schedule import SCHEDULES, rate_at


def config(schedule: str, **changed: Any) -> TrainingConfig:
    given = {"steps": 101, "warmup": 20, "rate": 0.5, "final_rate_ratio": 0.2, "decay_share": 0.25} | changed
    for setting in {"final_rate_ratio", "decay_share"} - set(SCHEDULES[schedule].uses):
        del given[setting]
    return TrainingConfig(schedule=schedule, **given)


@pytest.mark.parametrize("schedule", SCHEDULES.kinds)
def test_the_warm_up_climbs_in_equal_steps_to_the_full_rate(schedule: str) -> None:
    climb = [rate_at(config(schedule), step) for step in range(20)]
    assert climb == [0.5 * n / 20 for n in range(1, 21)]
    assert climb[-1] == 0.5


@pytest.mark.parametrize("schedule", SCHEDULES.kinds)
def test_without_a_warm_up_the_first_step_has_the_full_rate(schedule: str) -> None:
    assert rate_at(config(schedule, warmup=0), 0) == 0.5


@pytest.mark.parametrize("step", [20, 21, 37, 60, 80, 81, 90, 99, 100])
def test_each_schedule_is_its_formula(step: int) -> None:
    done = (step - 20) / (100 - 20)
    assert rate_at(config("constant"), step) == 0.5
    assert rate_at(config("linear"), step) == pytest.approx(0.5 * (1 - 0.8 * done), rel=1e-14)
    assert rate_at(config("cosine"), step) == pytest.approx(0.1 + 0.4 * math.cos(math.pi * done / 2) ** 2, rel=1e-14)
    wsd = 0.5 if step <= 80 else 0.5 + (0.1 - 0.5) * (step - 80) / 20  # a quarter of 80 steps
    assert rate_at(config("wsd"), step) == pytest.approx(wsd, rel=1e-14)
    assert rate_at(config("inverse-sqrt"), step) == pytest.approx(0.5 * math.sqrt(20) * (step + 1) ** -0.5, rel=1e-14)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_schedules_with_a_final_rate_begin_and_end_exactly(schedule: str) -> None:
    assert rate_at(config(schedule), 20) == 0.5
    assert rate_at(config(schedule), 100) == 0.5 * 0.2
    assert rate_at(config(schedule, final_rate_ratio=0.0), 100) == 0.0


def test_inverse_sqrt_is_the_transformer_paper_s_rate() -> None:
    """Vaswani et al. 2017, eq. 3, counts steps from 1: width^-0.5 · min(n^-0.5, n · warmup^-1.5)."""
    width, warmup = 512, 400
    peak = width**-0.5 * warmup**-0.5
    given = config("inverse-sqrt", warmup=warmup, steps=4000, rate=peak)
    for n in (1, 7, 399, 400, 401, 4000):
        assert rate_at(given, n - 1) == pytest.approx(width**-0.5 * min(n**-0.5, n * warmup**-1.5), rel=1e-14)


@given(
    schedule=st.sampled_from(SCHEDULES.kinds),
    steps=st.integers(1, 10_000),
    warmup=st.integers(0, 12_000),
    rate=st.floats(1e-8, 1e3),
    final=st.floats(0, 1),
    at=st.lists(st.integers(0, 15_000), min_size=2, max_size=8),
)
def test_a_rate_is_finite_never_negative_and_only_falls_after_the_warm_up(
    schedule: str, steps: int, warmup: int, rate: float, final: float, at: list[int]
) -> None:
    given = config(schedule, steps=steps, warmup=warmup, rate=rate, final_rate_ratio=final)
    rates = [rate_at(given, step) for step in sorted(at)]
    assert all(math.isfinite(value) and 0 <= value <= rate * (1 + 1e-12) for value in rates)
    after = [rate_at(given, step) for step in sorted(at) if step >= warmup]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(after))


def test_a_run_shorter_than_its_warm_up_climbs_for_half_of_it_and_then_falls() -> None:
    config = TrainingConfig(steps=10, warmup=200, rate=1.0, schedule="linear", final_rate_ratio=0.0)
    assert [round(rate_at(config, step), 9) for step in range(10)] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]


def test_the_old_name_final_is_read() -> None:
    notes: list[str] = []
    assert build(TrainingConfig, {"final": 0.3}, "training", notes.append).final_rate_ratio == 0.3
    assert notes == ["training.final is now called training.final_rate_ratio; the old name still works"]
