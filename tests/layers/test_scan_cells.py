"""Cells whose gates do not depend on the state: the scan against the step, the loop of firth.oracles, and autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.layers.recurrent import CELLS, Cell, Recurrent
from firth.layers.recurrent.scan_cell import linear_scan
from firth.layers.state import RecurrentState
from firth.oracles import recurrent as oracle

INPUTS, WIDTH = 4, 6
KINDS = [cell.kind for cell in CELLS if cell.scans]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(kind: str, depth: int = 1, dtype: torch.dtype = torch.float64, **options: Any) -> Recurrent:
    layer = Recurrent(kind, INPUTS, WIDTH, depth, **options)
    return randomise(layer, std=0.9, seed=1).to(dtype)


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
    computed = {"y": y_BTd.detach(), "h": last.h_LBd.detach()}
    return computed | {f"d{name}": gradient for name, gradient in zip(named, gradients, strict=True)}


def cell_of(layer: Recurrent) -> Cell:
    cell = layer.layers[0]
    assert isinstance(cell, Cell)
    return cell


@pytest.mark.parametrize("kernel", ["fused", "cells"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_to_compute_it_equal_the_loops_of_the_oracle(kind: str, kernel: Any) -> None:
    """The loop has the name of the cell, and takes its gates in the order in which W stacks them."""
    layer = made(kind)
    cell, w, names = cell_of(layer), cell_of(layer).own_weights(), CELLS[kind].gates
    x_BTi = torch.randn(2, 7, INPUTS, generator=seeded(2), dtype=torch.float64)
    h_LBd = torch.randn(1, 2, WIDTH, generator=seeded(3), dtype=torch.float64)
    with torch.no_grad():
        y_BTd, last = layer(x_BTi, RecurrentState(h_LBd), kernel=kernel)
        trace, _ = cell.unroll(x_BTi, (h_LBd[0],))
    stacked = zip(w.input_gi.detach().chunk(len(names)), w.input_bias_g.detach().chunk(len(names)), strict=True)
    gates = [oracle.InputGate(W.numpy(), b.numpy()) for W, b in stacked]
    for b in range(2):
        truth = getattr(oracle, kind)(x_BTi[b].numpy(), h_LBd[0, b].numpy(), *gates)
        assert_equal(y_BTd[b], torch.from_numpy(truth.h_Td))
        assert_equal(last.h_LBd[0, b], torch.from_numpy(truth.h_Td[-1]))
        for name in names:
            assert_equal(trace[name][b], torch.from_numpy(getattr(truth, f"{name}_Td")))
    assert (trace["candidate"] > 0.5).any()
    assert (trace["candidate"] < 0.5).any(), "both branches of g are tested"


@pytest.mark.parametrize("lengths", [None, (5, 2, 13)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_parallel_scan_equals_the_steps_in_value_and_every_gradient(
    kind: str, depth: int, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    layer = made(kind, depth, bidirectional=bidirectional)
    fused, cells = (run(layer, kernel, 13, lengths) for kernel in ("fused", "cells"))
    for name in cells:
        assert_equal(fused[name], cells[name])


@pytest.mark.parametrize("T", [1, 2, 3, 64, 257])
@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_the_scan_is_as_accurate_as_the_steps(kind: str, T: int) -> None:
    exact = run(made(kind, 2), "cells", T, None)
    fused, cells = (run(made(kind, 2, torch.float32), kernel, T, None) for kernel in ("fused", "cells"))
    for name in exact:  # a weight's gradient is a sum over the steps, in an order that each kernel chooses: √T roundings more
        assert_as_accurate(fused[name], cells[name], exact[name], roundings=4 + math.sqrt(T))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**16))
def test_a_scan_of_any_length_is_the_loop(T: int, seed: int) -> None:
    generator = seeded(seed)
    a_BTd = torch.rand(2, T, 3, generator=generator, dtype=torch.float64)
    b_BTd = torch.randn(2, T, 3, generator=generator, dtype=torch.float64)
    h_Bd = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    scanned_BTd = linear_scan(a_BTd, b_BTd, h_Bd)
    for t in range(T):
        h_Bd = a_BTd[:, t] * h_Bd + b_BTd[:, t]
        assert_equal(scanned_BTd[:, t], h_Bd)


def test_the_scan_has_first_and_second_derivatives() -> None:
    given = [
        torch.rand(shape, generator=seeded(1), dtype=torch.float64).requires_grad_() for shape in ((2, 5, 2), (2, 5, 2), (2, 2))
    ]
    assert torch.autograd.gradcheck(linear_scan, given)  # type: ignore[no-untyped-call]
    assert torch.autograd.gradgradcheck(linear_scan, given)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("x", [-200.0, 200.0])
@pytest.mark.parametrize(("kind", "n"), [(kind, n) for kind in KINDS for n in range(len(CELLS[kind].gates) - 1)])
def test_a_closed_or_an_open_gate_for_a_thousand_steps_neither_overflows_nor_underflows(kind: str, n: int, x: float) -> None:
    """A gate of 0 or 1 in float32 would be log 0, or a quotient 0 / 0, in other forms of the scan. A state that is only kept, or
    only written, is exact."""
    layer = made(kind, dtype=torch.float32)
    name, x_BTi, h_Bd = CELLS[kind].gates[n], torch.randn(2, 1000, INPUTS, generator=seeded(2)), torch.full((2, WIDTH), 3.0)
    with torch.no_grad():
        cell_of(layer).get_parameter("bias_ih_l0")[n * WIDTH : (n + 1) * WIDTH] = x
        y_BTd, _ = layer(x_BTi, RecurrentState(h_Bd.unsqueeze(0)))
        trace, _ = cell_of(layer).unroll(x_BTi, (h_Bd,))
    torch.testing.assert_close(y_BTd, trace["h"], rtol=1e-5, atol=1e-5)
    if name == "update" or (kind == "minlstm" and x < 0):
        kept = (name == "forget") == (x > 0)
        assert torch.equal(y_BTd, torch.full_like(y_BTd, 3.0) if kept else trace["candidate"])


def test_two_closed_gates_of_a_minlstm_share_as_their_logarithms_say() -> None:
    """σ(−200) is 0 in float32, and 0 / (0 + 0) no number."""
    layer = made("minlstm", dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter[: 2 * WIDTH] = 0.0 if "weight" in name else torch.tensor(-200.0)
        cell_of(layer).get_parameter("bias_ih_l0")[WIDTH : 2 * WIDTH] -= math.log(3)  # i = f / 3
        x_BTi = torch.randn(2, 5, INPUTS, generator=seeded(2))
        trace, _ = cell_of(layer).unroll(x_BTi)
        y_BTd, _ = layer(x_BTi)
    torch.testing.assert_close(trace["forget"], torch.full_like(y_BTd, 0.75), rtol=1e-4, atol=0)
    torch.testing.assert_close(trace["input"], torch.full_like(y_BTd, 0.25), rtol=1e-4, atol=0)
    torch.testing.assert_close(y_BTd, trace["h"])


@pytest.mark.parametrize("kind", KINDS)
def test_under_autocast_the_state_stays_in_float32(kind: str) -> None:
    layer = made(kind, 2, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y_BTd, last = layer(torch.randn(2, 9, INPUTS, generator=seeded(2)))
    assert y_BTd.dtype == last.h_LBd.dtype == torch.float32
