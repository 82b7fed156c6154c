"""What layers cost: counts that are those of the matrices, and exponents that are found again."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from firth.errors import ConfigError, DataError
from firth.inspection.cost import LAYERS, Costs, Layer, Timing, exponent, operations, steps
from firth.layers.attention import attend
from firth.layers.linear_attention import IDENTITY, linear_attend
from firth.layers.self_attention import SelfAttention


def made(n: int = 64, d: int = 32) -> Costs:
    """Timings that are exactly the counts, a thousand operations a second."""
    sizes = [(length, d) for length in (16, 32, 64, 128, 256)] + [(n, width) for width in (8, 16, 64, 128)]
    return Costs(tuple(Timing(name, n, d, operations(name, n, d) / 1000) for name in LAYERS for n, d in sizes), n, d)


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
    weights = sum(weight.numel() for weight in SelfAttention(8, 2, 2, bias=False).parameters())
    assert operations("attention with projections", 6, 8) == operations("attention", 6, 8) + 6 * weights
    assert steps("attention", 6) == steps("attention with projections", 6) == 1


def test_an_exponent_is_found_again() -> None:
    assert exponent([2, 4, 8], [3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)
    with pytest.raises(DataError, match="1 times for 1 sizes; expected one positive time per size, for at least two sizes"):
        exponent([2], [1.0])


def test_recurrence_grows_with_n_and_d_squared_attention_with_n_squared_and_d() -> None:
    costs = made()
    assert costs.layers == LAYERS
    for layer in ("rnn", "lstm", "gru"):
        assert costs.exponent(layer, "n") == pytest.approx(1)
        assert costs.exponent(layer, "d") == pytest.approx(2)
    assert costs.exponent("attention", "n") == pytest.approx(2)
    assert costs.exponent("attention", "d") == pytest.approx(1)
    assert 1 < costs.exponent("attention with projections", "n") < 2
    assert costs.theory("attention", "n") == pytest.approx(2)
    for layer in ("linear attention", "gated linear attention"):
        assert costs.exponent(layer, "n") == pytest.approx(1)  # type: ignore[arg-type]
        assert costs.exponent(layer, "d") == pytest.approx(2)  # type: ignore[arg-type]


def test_a_growth_that_overhead_hides_is_not_told() -> None:
    def costs(*seconds: float) -> Costs:
        along = [Timing("attention", 64 << n, 128, one) for n, one in enumerate(seconds)]
        return Costs((*along, *(Timing("attention", 256, 16 << n, 1.0 * 2**n) for n in range(3))), 256, 128)

    assert costs(1, 1.1, 4, 16, 64).growth("attention", "n") == pytest.approx(2)  # the first two sizes are overhead
    assert costs(1, 1, 1.5, 1.6, 1.9).growth("attention", "n") is None  # all of them are
    assert costs(1, 4, 16, 9, 30).growth("attention", "n") is None  # another program was busy
    names = {trace.name for trace in costs(1, 1, 1, 1, 1).figure().plot.data}
    assert names == {"attention: d^1.00"}


def test_linear_attention_works_on_each_number_of_its_state_for_each_token() -> None:
    """Of four heads of width 2: q·S as torch counts it, and k vᵀ and g S, which are as many."""
    x_1HTD = torch.zeros(1, 4, 6, 2)
    with FlopCounterMode(display=False) as counter:
        linear_attend(x_1HTD, x_1HTD, x_1HTD, features=IDENTITY, normalised=False, form="recurrent")
    assert operations("linear attention", 6, 8) == 2 * (counter.get_total_flops() // 2)
    assert operations("gated linear attention", 6, 8) == 3 * (counter.get_total_flops() // 2)
    assert [steps("linear attention", n) for n in (1, 64, 65, 1024)] == [1, 1, 2, 5]


def test_only_the_larger_half_is_fitted() -> None:
    times = {16: 9.0, 32: 9.0, 64: 9.0, 128: 18.0, 256: 36.0}  # a constant hides the growth of the small ones
    costs = Costs(tuple(Timing("rnn", n, 8, seconds) for n, seconds in times.items()), 64, 8)
    assert costs.exponent("rnn", "n") == pytest.approx(1)
    with pytest.raises(ConfigError, match=r'no timings of "lstm" along d\. Measure some at n = 64'):
        costs.along("lstm", "d")


def test_the_figure_has_both_axes_and_the_table_every_timing() -> None:
    figure = made().figure()
    assert len(figure.plot.data) == 2 * len(LAYERS)
    assert figure.plot.data[0].name == "rnn: n^1.00, d^2.00"
    assert figure.plot.data[0].x == (16, 32, 64, 128, 256)
    assert figure.plot.data[1].x == (8, 16, 32, 64, 128)
    assert figure.plot.layout.xaxis.type == figure.plot.layout.yaxis2.type == "log"
    assert len(figure.table.rows) == len(LAYERS) * 10
    lines = made().text().splitlines()
    assert lines[1].split() == ["rnn", "1.00", "1.00", "2.00", "2.00", "256"]
    assert lines[4].split() == ["mingru", "1.00", "1.00", "2.00", "2.00", "8"]
    assert lines[5].split() == ["attention", "2.00", "2.00", "1.00", "1.00", "1"]
