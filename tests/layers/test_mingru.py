"""minGRU: the parallel scan against the step, the float64 loop of firth.oracles, and autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.layers.recurrent import Recurrent
from firth.layers.recurrent.mingru import linear_scan
from firth.layers.state import RecurrentState
from firth.oracles import recurrent as oracle

INPUTS, WIDTH = 4, 6


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(depth: int = 1, dtype: torch.dtype = torch.float64, **options: Any) -> Recurrent:
    layer = Recurrent("mingru", INPUTS, WIDTH, depth, **options)
    generator = seeded(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.9, generator=generator)
    return layer.to(dtype)


def run(layer: Recurrent, kernel: Any, T: int, lengths: tuple[int, ...] | None) -> dict[str, Tensor]:
    """Outputs, last state, and every gradient. The initial state has both signs, as after RNNsearch's tanh."""
    dtype = next(layer.parameters()).dtype
    x_BTi = torch.randn(3, T, INPUTS, generator=seeded(2)).to(dtype).requires_grad_()
    h_LBd = torch.randn(len(layer.layers) * layer.directions, 3, WIDTH, generator=seeded(3)).to(dtype).requires_grad_()
    length_B = None if lengths is None else torch.tensor(lengths)
    y_BTd, last = layer(x_BTi, RecurrentState(h_LBd), length_B=length_B, kernel=kernel)
    weights = [torch.randn(value.shape, generator=seeded(4)).to(dtype) for value in (y_BTd, last.h_LBd)]
    loss = (y_BTd * weights[0]).sum() + (last.h_LBd * weights[1]).sum()
    named = dict(layer.named_parameters()) | {"x": x_BTi, "h0": h_LBd}
    gradients = torch.autograd.grad(loss, list(named.values()))
    found = {"y": y_BTd.detach(), "h": last.h_LBd.detach()}
    return found | {f"d{name}": gradient for name, gradient in zip(named, gradients, strict=True)}


@pytest.mark.parametrize("kernel", ["fused", "cells"])
def test_both_ways_to_compute_it_equal_the_loops_of_the_oracle(kernel: Any) -> None:
    layer = made()
    w = layer.layers[0].weights()  # type: ignore[operator]
    x_BTi = torch.randn(2, 7, INPUTS, generator=seeded(2), dtype=torch.float64)
    h_LBd = torch.randn(1, 2, WIDTH, generator=seeded(3), dtype=torch.float64)
    with torch.no_grad():
        y_BTd, last = layer(x_BTi, RecurrentState(h_LBd), kernel=kernel)
        trace, _ = layer.layers[0].unroll(x_BTi, (h_LBd[0],))  # type: ignore[operator]
    stacked = zip(w.input_gi.detach().chunk(2), w.input_bias_g.detach().chunk(2), strict=True)
    gates = [oracle.InputGate(W.numpy(), b.numpy()) for W, b in stacked]
    for b in range(2):
        truth = oracle.mingru(x_BTi[b].numpy(), h_LBd[0, b].numpy(), *gates)
        assert_equal(y_BTd[b], torch.from_numpy(truth.h_Td))
        assert_equal(last.h_LBd[0, b], torch.from_numpy(truth.h_Td[-1]))
        for name in ("update", "candidate"):
            assert_equal(trace[name][b], torch.from_numpy(getattr(truth, f"{name}_Td")))
    assert (trace["candidate"] > 0.5).any()
    assert (trace["candidate"] < 0.5).any(), "both branches of g are tested"


@pytest.mark.parametrize("lengths", [None, (5, 2, 13)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_parallel_scan_equals_the_steps_in_value_and_every_gradient(
    depth: int, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    layer = made(depth, bidirectional=bidirectional)
    fused, cells = (run(layer, kernel, 13, lengths) for kernel in ("fused", "cells"))
    for name in cells:
        assert_equal(fused[name], cells[name])


@pytest.mark.parametrize("T", [1, 2, 3, 64, 257])
def test_in_float32_the_scan_is_as_accurate_as_the_steps(T: int) -> None:
    exact = run(made(2), "cells", T, None)
    fused, cells = (run(made(2, torch.float32), kernel, T, None) for kernel in ("fused", "cells"))
    for name in exact:  # a weight's gradient is a sum over the steps, in an order that each kernel chooses: √T roundings more
        assert_as_accurate(fused[name], cells[name], exact[name], roundings=4 + math.sqrt(T))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**16))
def test_a_scan_of_any_length_is_the_loop(T: int, seed: int) -> None:
    generator = seeded(seed)
    a_BTd = torch.rand(2, T, 3, generator=generator, dtype=torch.float64)
    b_BTd = torch.randn(2, T, 3, generator=generator, dtype=torch.float64)
    h_Bd = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    found_BTd = linear_scan(a_BTd, b_BTd, h_Bd)
    for t in range(T):
        h_Bd = a_BTd[:, t] * h_Bd + b_BTd[:, t]
        assert_equal(found_BTd[:, t], h_Bd)


def test_the_scan_has_first_and_second_derivatives() -> None:
    given = [
        torch.rand(shape, generator=seeded(1), dtype=torch.float64).requires_grad_() for shape in ((2, 5, 2), (2, 5, 2), (2, 2))
    ]
    assert torch.autograd.gradcheck(linear_scan, given)  # type: ignore[no-untyped-call]
    assert torch.autograd.gradgradcheck(linear_scan, given)  # type: ignore[no-untyped-call]


def test_a_closed_or_an_open_gate_for_a_thousand_steps_neither_overflows_nor_underflows() -> None:
    """1 − z of 0 or 1 in float32 would be log 0, or a quotient 0 / 0, in other forms of the scan."""
    for x in (-200.0, 200.0):
        layer = made(dtype=torch.float32)
        with torch.no_grad():
            layer.layers[0].get_parameter("bias_ih_l0")[:WIDTH] = x
            y_BTd, _ = layer(torch.randn(2, 1000, INPUTS, generator=seeded(2)), RecurrentState(torch.full((1, 2, WIDTH), 3.0)))
            trace, _ = layer.layers[0].unroll(  # type: ignore[operator]
                torch.randn(2, 1000, INPUTS, generator=seeded(2)), (torch.full((2, WIDTH), 3.0),)
            )
        assert torch.equal(y_BTd, torch.full_like(y_BTd, 3.0) if x < 0 else trace["candidate"])


def test_under_autocast_the_state_stays_in_float32() -> None:
    layer = made(2, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y_BTd, last = layer(torch.randn(2, 9, INPUTS, generator=seeded(2)))
    assert y_BTd.dtype == last.h_LBd.dtype == torch.float32
