"""Claims of studies, checked seed by seed; scipy is the oracle of their statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from firth.errors import ConfigError
from firth.experiments.studies.claims import expect_readable, verdict

NUMBERS = st.lists(st.floats(-100, 100), min_size=2, max_size=6)


def table(**measures: dict[str, list[float]]) -> dict[str, dict[str, np.ndarray]]:
    return {name: {arm: np.array(values) for arm, values in arms.items()} for name, arms in measures.items()}


@given(st.data(), NUMBERS)
def test_the_margin_is_that_of_each_seed_and_its_error_is_scipys(data: st.DataObject, left: list[float]) -> None:
    right = data.draw(st.lists(st.floats(-100, 100), min_size=len(left), max_size=len(left)))
    claim = verdict("exact(a) - exact(b) >= 0.25", table(exact={"a": left, "b": right}))
    margins = np.array(left) - np.array(right) - 0.25
    assert claim.margin == pytest.approx(margins.mean(), abs=1e-9)
    assert claim.error == pytest.approx(stats.sem(margins), abs=1e-9)
    assert claim.held == (np.mean(margins) >= 0)


def test_paired_seeds_have_a_smaller_error_than_their_means_would() -> None:
    """Both models are better with seed 1 than with seed 0, by the same amount: their difference has no error."""
    claim = verdict("loss(b) < loss(a)", table(loss={"a": [2.0, 1.0], "b": [1.5, 0.5]}))
    assert (claim.held, claim.margin, claim.error) == (True, 0.5, 0.0)


@pytest.mark.parametrize(
    ("check", "held"),
    [
        ("x(a) > x(b) > x(c)", True),
        ("x(a) > x(c) > x(b)", False),
        ("x(a) > x(a)", False),
        ("x(a) >= x(a)", True),
        ("max(x(b), x(c)) <= 2 * x(c)", True),
        ("abs(x(c) - x(a)) < mean(x(a), x(c))", False),
        ("-x(a) < min(x(a), x(b)) / 4", True),
        ('x("2-64") == 1', None),
    ],
)
def test_arithmetic_and_chains_are_computed(check: str, held: bool | None) -> None:
    measures = table(x={"a": [4.0], "b": [2.0], "c": [1.0], "2-64": [1.0]})
    if held is None:
        with pytest.raises(ConfigError, match="is not an inequality"):
            verdict(check, measures)
    else:
        assert verdict(check, measures).held is held
        assert verdict(check, measures).error is None  # one seed


@given(
    st.lists(
        st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=3, max_size=6, unique_by=lambda pair: round(pair[0], 3)
    )
)
def test_the_slope_is_that_of_a_line_through_the_logarithms(points: list[tuple[float, float]]) -> None:
    x, y = (np.array(side) for side in zip(*points, strict=True))
    arms = [f"m{n}" for n in range(len(points))]
    measures = table(
        loss=dict(zip(arms, y[:, None].tolist(), strict=True)), size=dict(zip(arms, x[:, None].tolist(), strict=True))
    )
    expected = stats.linregress(np.log(x), np.log(y)).slope
    assert verdict("slope(loss, size) >= 0", measures).margin == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 9)), min_size=2, max_size=5, unique_by=lambda pair: pair[0]))
def test_argmin_is_the_x_of_the_lowest_y_of_each_seed(points: list[tuple[float, float]]) -> None:
    arms = [f"m{n}" for n in range(len(points))]
    losses = {arm: [loss, -loss] for arm, (loss, _) in zip(arms, points, strict=True)}  # the second seed turns the order around
    measures = table(loss=losses, rate={arm: [rate, rate] for arm, (_, rate) in zip(arms, points, strict=True)})
    expected = (min(points)[1] + max(points)[1]) / 2
    assert verdict("argmin(loss, rate) >= 0", measures).margin == pytest.approx(expected)
    first = verdict(f"argmin(loss, rate, {arms[1]}, {arms[0]}) >= 0", measures)
    assert first.margin == pytest.approx((points[0][1] + points[1][1]) / 2)


def test_a_diverged_run_is_never_the_lowest_and_one_that_was_not_trained_is_not_measured() -> None:
    nan = float("nan")
    diverged = table(loss={"a": [nan], "b": [2.0], "c": [3.0]}, rate={"a": [0.1], "b": [0.2], "c": [0.3]})
    assert verdict("argmin(loss, rate) >= 0", diverged).margin == 0.2
    assert verdict("argmin(loss, rate, a) >= 0", diverged).held is None
    untrained = table(loss={"a": [nan], "b": [2.0]}, rate={"a": [nan], "b": [0.2]})
    assert verdict("argmin(loss, rate) >= 0", untrained).held is None
    with pytest.raises(ConfigError, match=r"needs argmin\(measure, measure, arm, …\)"):
        verdict("argmin(loss, a) >= 0", diverged)


@given(st.floats(-3, 3), st.floats(0.01, 10), st.lists(st.floats(0.1, 100), min_size=3, max_size=6), st.floats(-1, 1))
def test_the_vertex_is_that_of_numpys_parabola_over_the_logarithms(low: float, a: float, xs: list[float], noise: float) -> None:
    assume(np.diff(np.sort(np.log(xs))).min() > 0.1)
    arms = [f"m{n}" for n in range(len(xs))]
    losses = [a * (np.log(x) - low) ** 2 + 5 + noise * a * 0.1 * (-1) ** n for n, x in enumerate(xs)]
    first, second, _ = np.polyfit(np.log(xs), losses, 2)
    measures = table(
        loss={arm: [one, -one] for arm, one in zip(arms, losses, strict=True)},  # the second seed's has no minimum
        size={arm: [x, x] for arm, x in zip(arms, xs, strict=True)},
    )
    seeds = {name: {arm: values[:1] for arm, values in of.items()} for name, of in measures.items()}
    assume(first > 1e-3)
    vertex = verdict("log(vertex(loss, size)) >= 0", seeds).margin
    assert vertex == pytest.approx(-second / (2 * first), rel=1e-4, abs=1e-4)
    assert verdict("vertex(loss, size) >= 0", measures).held is None
    assert verdict("vertex(loss, size, m0, m1) >= 0", seeds).held is None  # two points are no parabola


def test_a_vertex_without_one_of_its_points_is_not_measured() -> None:
    sizes = {"a": [1.0], "b": [2.0], "c": [3.0], "d": [4.0]}
    measures = table(loss={"a": [3.0], "b": [2.0], "c": [float("nan")], "d": [3.0]}, size=sizes)
    assert verdict("vertex(loss, size) >= 0", measures).held is None
    assert verdict("log(vertex(loss, size, a, b, d)) >= 0", measures).held
    measures = table(loss={"a": [3.0], "b": [2.0], "c": [2.0], "d": [3.0]}, size=sizes | {"c": [float("nan")]})
    assert verdict("vertex(loss, size) >= 0", measures).held is None


def test_what_was_not_measured_neither_holds_nor_fails() -> None:
    claim = verdict("x(a) > x(b)", table(x={"a": [1.0, 2.0], "b": [0.0, float("nan")]}))
    assert (claim.held, claim.margin, claim.text()) == (None, None, "not measured")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("loss(a)", "is not an inequality"),
        ("loss(a) <", "is not an inequality"),
        ("loss(a) in (1, 2)", "is not an inequality"),
        ("lost(a) < 1", 'asks for lost, which the study does not measure. Did you mean "loss"'),
        ("loss(ab) < 1", "names the arm ab"),
        ("loss(a, b) < 1", "gives loss 2 arms"),
        ("loss.a < 1", 'contains "loss.a"'),
        ("loss(a) ** 9 < 1", 'contains "loss(a) ** 9"'),
        ("__import__('os').getcwd() < 1", "Use measure"),
        ("slope(loss) < 1", "needs slope"),
        ("-" * 400 + "1 < 1", None),
        ("1 < " + "(" * 450 + "1" + ")" * 450, "expected at most"),
    ],
)
def test_other_texts_are_refused_in_one_line(check: str, message: str | None) -> None:
    if message is None:
        expect_readable(check, ["loss"], ["a", "b"])
        return
    with pytest.raises(ConfigError) as error:
        expect_readable(check, ["loss"], ["a", "b"])
    assert message in str(error.value)
