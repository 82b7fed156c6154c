"""Recurrent layers with dropped weights on a GPU, where cuDNN wants the weights of a layer in one piece of memory.

Warnings are errors here, and weights that lie anywhere else are worth one to torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from firth.layers.recurrent import Recurrent

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def run(layer: Recurrent, kernel: Any, x_BTi: Tensor, length_B: Tensor | None) -> list[Tensor]:
    """Output and every gradient, with the masks of seed 5."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        y_BTd, _ = layer(x_BTi, length_B=length_B, kernel=kernel)
    return [y_BTd, *torch.autograd.grad(y_BTd.square().sum(), list(layer.parameters()))]


@pytest.mark.parametrize("lengths", [None, (2, 9, 5)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_the_fused_kernel_equals_the_cells_with_the_same_dropped_weights(
    kind: Any, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    layer = (
        Recurrent(kind, 12, 16, 2, dropout=0.3, dropout_weight=0.5, dropout_locked=True, bidirectional=bidirectional)
        .double()
        .cuda()
    )
    x_BTi = torch.randn(3, 9, 12, dtype=torch.float64, device="cuda")
    length_B = None if lengths is None else torch.tensor(lengths)
    for fused, cells in zip(*(run(layer, kernel, x_BTi, length_B) for kernel in ("fused", "cells")), strict=True):
        torch.testing.assert_close(fused, cells, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_dropped_weights_train_in_float32_and_under_autocast_without_a_warning(kind: Any) -> None:
    layer = Recurrent(kind, 12, 16, 2, dropout_weight=0.5).cuda()
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            y_BTd, _ = layer(torch.randn(3, 9, 12, device="cuda"))
        y_BTd.float().sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in layer.parameters())
