"""Costs of layers: operation counts follow from the matrices, and fits recover known exponents."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from torch.utils.flop_counter import FlopCounterMode

from firth.errors import ConfigError, DataError
from firth.inspection import timing
from firth.inspection.cost import Costs, Layer, Timing, exponent, fitted, layers, operations, steps
from firth.layers.attention import attend
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.linear_attention import IDENTITY, linear_attend
from firth.layers.recurrent import CELLS
from firth.layers.self_attention import SelfAttention

SIZES = tuple(64 << n for n in range(7))


def made(n: int = 64, d: int = 64) -> Costs:
    """Timings that are exactly the counts, a thousand operations a second."""
    sizes = [(length, d) for length in SIZES] + [(n, width) for width in SIZES if width != d]
    return Costs(tuple(Timing(name, n, d, operations(name, n, d) / 1000) for name in layers() for n, d in sizes), n, d)


@pytest.mark.parametrize("layer", ["rnn", "lstm", "gru"])
def test_a_recurrent_layer_multiplies_with_each_of_its_weights_once_a_step(layer: Layer) -> None:
    module = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[layer](8, 8, bias=False)
    assert operations(layer, 5, 8) == 5 * sum(weight.numel() for weight in module.parameters())
    assert steps(layer, 5) == 5


def test_attention_multiplies_as_often_as_torch_counts_and_its_projections_with_each_weight_once_a_token() -> None:
    x_1HTD = torch.zeros(1, 2, 6, 4)
    with FlopCounterMode(display=False) as counter:
        attend(x_1HTD, x_1HTD, x_1HTD, kernel="reference")
    assert counter.get_total_flops() == 2 * operations("attention", 6, 8)  # it counts the addition, too
    weights = sum(
        weight.numel() for weight in SelfAttention(BlockConfig(width=8, attention=AttentionConfig(heads=2))).parameters()
    )
    assert operations("attention with projections", 6, 8) == operations("attention", 6, 8) + 6 * weights
    assert steps("attention", 6) == steps("attention with projections", 6) == 1


def test_an_exponent_is_found_again() -> None:
    assert exponent([2, 4, 8], [3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)
    with pytest.raises(DataError, match="1 times for 1 sizes; expected one positive time per size, for at least two sizes"):
        exponent([2], [1.0])


def test_recurrence_grows_with_n_and_d_squared_attention_with_n_squared_and_d() -> None:
    costs = made()
    assert costs.layers == layers()
    growth = {name: (costs.growth(name, "n"), costs.growth(name, "d")) for name in layers()}
    for layer in ("rnn", "lstm", "gru"):
        assert growth[layer] == (pytest.approx(1), pytest.approx(2))
    assert growth["attention"] == (pytest.approx(2), pytest.approx(1))
    between, _ = growth["attention with projections"]
    assert between is not None
    assert 1 < between < 2
    for layer in ("linear attention", "gated linear attention"):
        assert growth[layer][0] == pytest.approx(1)
    for name in layers():
        for axis in ("n", "d"):
            fit = costs.fit(name, axis)  # type: ignore[arg-type]
            assert fit is not None
            assert fit.exponent == pytest.approx(fit.counted)


def test_a_growth_that_overhead_hides_is_not_told() -> None:
    def costs(*seconds: float) -> Costs:
        along = [Timing("attention", 64 << n, 128, one) for n, one in enumerate(seconds)]
        return Costs((*along, *(Timing("attention", 256, 17 << n, 1.0 * 2**n) for n in range(7))), 256, 128)

    assert costs(1, 1.1, 8, 32, 128, 512).growth("attention", "n") == pytest.approx(2)  # the first two sizes are overhead
    assert costs(1, 1.1, 4, 16, 64, 256).growth("attention", "n") is None  # a quarter of the third is overhead as well
    assert costs(1, 1, 1.5, 1.6, 1.9).growth("attention", "n") is None  # all of them are
    assert costs(1, 9, 16, 9, 30).growth("attention", "n") is None  # another program was busy
    assert costs(1, 9, 18, 36, 72 * 2**0.3).growth("attention", "n") is None  # it still rises
    assert costs(1, 9, 18).growth("attention", "n") is None  # too few
    names = {trace.name for trace in costs(1, 1, 1, 1, 1).figure().plot.data}
    assert names == {"attention: d^1.00"}
    assert "–" in costs(1, 1, 1, 1, 1).text()
    assert costs(1, 1, 1, 1, 1).facts()["attention"]["n"] is None


def test_the_error_is_the_standard_error_of_a_line() -> None:
    """Against scipy's line through the logarithms."""
    seconds = [1.0, 9.0, 19.0, 37.0, 80.0]
    fit = fitted([Timing("rnn", 64 << n, 8, one) for n, one in enumerate(seconds)], "n")
    line = linregress(np.log([128, 256, 512, 1024]), np.log(seconds[1:]))
    assert fit is not None
    assert (fit.exponent, fit.error) == (pytest.approx(line.slope), pytest.approx(line.stderr))
    assert fit.sizes == (128, 256, 512, 1024)


def test_sizes_grow_until_the_exponent_has_settled_or_a_call_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with an overhead of 1 ms that multiplies 10⁹ times a second."""

    def taken(layer: Layer, n: int, d: int, device: torch.device, rounds: int) -> Timing:
        return Timing(layer, n, d, 0.001 + operations(layer, n, d) / 1e9)

    monkeypatch.setattr(timing, "_of_layer", taken)
    costs = timing.measured(seconds=2.0)
    for layer in layers():
        for axis in ("n", "d"):
            fit = costs.fit(layer, axis)  # type: ignore[arg-type]
            assert fit is not None
            assert not fit.settled or fit.exponent == pytest.approx(fit.counted, abs=0.1)
            assert costs.along(layer, axis)[-2].seconds <= 2.0  # type: ignore[arg-type]
    assert costs.growth("attention", "n") == pytest.approx(2, abs=0.05)
    assert costs.growth("rnn", "d") == pytest.approx(2, abs=0.05)
    hurried = timing.measured(seconds=0.002)
    assert hurried.growth("attention", "n") is None
    assert hurried.along("rnn", "n")[-1].n < costs.along("rnn", "n")[-1].n
    assert {one.n for one in timing.measured(longest=128, widest=64).timings} == {64, 128}


def test_linear_attention_works_on_each_number_of_its_state_for_each_token() -> None:
    """For four heads of width 2: q·S as torch counts it, and k vᵀ and g S, which cost as much."""
    x_1HTD = torch.zeros(1, 4, 6, 2)
    with FlopCounterMode(display=False) as counter:
        linear_attend(x_1HTD, x_1HTD, x_1HTD, features=IDENTITY, normalized=False, form="recurrent")
    of_state, within_chunk = counter.get_total_flops() // 2, 2 * 6 * 6 * 8
    assert operations("linear attention", 6, 8) == 2 * of_state + within_chunk
    assert operations("gated linear attention", 6, 8) == 2 * of_state + within_chunk + of_state // 6  # one chunk
    assert [steps("linear attention", n) for n in (1, 64, 65, 1024)] == [1, 1, 2, 5]


def test_timings_that_are_not_there_are_asked_for() -> None:
    costs = Costs((Timing("rnn", 64, 8, 1.0),), 64, 8)
    with pytest.raises(ConfigError, match=r'no timings of "lstm" along d\. Measure some at n = 64'):
        costs.along("lstm", "d")


def test_the_figure_has_both_axes_and_the_table_every_timing() -> None:
    figure = made().figure()
    assert len(figure.plot.data) == 2 * len(layers())
    assert figure.plot.data[0].name == "rnn: n^1.00, d^2.00"
    assert figure.plot.data[0].x == SIZES
    assert figure.plot.data[1].x == SIZES
    assert figure.plot.layout.xaxis.type == figure.plot.layout.yaxis2.type == "log"
    assert len(figure.table.rows) == len(layers()) * 2 * len(SIZES)
    lines = made().text().splitlines()
    assert lines[1].split() == [
        "rnn",
        "1.00",
        "±",
        "0.00",
        "1.00",
        "512…4,096",
        "2.00",
        "±",
        "0.00",
        "2.00",
        "512…4,096",
        "4,096",
    ]
    assert lines[1 + len(CELLS)].split() == [
        "attention",
        "2.00",
        "±",
        "0.00",
        "2.00",
        "512…4,096",
        "1.00",
        "±",
        "0.00",
        "1.00",
        "512…4,096",
        "1",
    ]
