"""log Σ_v e^{x_v} of each row, without writing what is summed. Letters: R rows, V vocabulary."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team

if TYPE_CHECKING:
    from firth.layers.kernels.cpu.code import Compiled

FIELDS = ("taken", "x", "largest", "total", "V", "R")
_FEWEST = 16  # numbers of a row


def why_not(x_RV: Tensor) -> str | None:
    if not x_RV.is_cpu or x_RV.dtype != torch.float32 or not x_RV.is_contiguous() or x_RV.shape[-1] < _FEWEST:
        return "it is for contiguous rows of float32 on a CPU"
    if torch.is_grad_enabled():
        return "it computes no gradients"
    return team.why_not()


def log_normaliser(x_RV: Tensor) -> Tensor:
    """log Σ_v e^{x_rv} = m_r + log Σ_v e^{x_rv − m_r}, m_r = max_v x_rv."""
    largest_R, total_R = x_RV.new_empty(2, len(x_RV))
    addresses = (tensor.data_ptr() for tensor in (x_RV, largest_R, total_R))
    team.run(_kernel(), (0, *addresses, x_RV.shape[1], len(x_RV)))
    log_R: Tensor = total_R.log_().add_(largest_R)
    return log_R


@cache
def _kernel() -> Compiled:
    from firth.layers.kernels.cpu.log_normaliser_code import sums

    return sums()
