"""Backward passes written by hand, for operations whose autograd version would move memory needlessly on a CPU.

Each has a plain expression beside it, used under torch.compile, which fuses it anyway, and for second derivatives. The fast one
gives the first derivative, which is what training needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def by_hand(x: Tensor) -> bool:
    """True if this input needs the manual backward pass."""
    return torch.is_grad_enabled() and x.device.type == "cpu" and not torch.compiler.is_compiling()


def of_plain(plain: Callable[..., Any], inputs: tuple[Tensor, ...], *dy: Tensor) -> tuple[Tensor | None, ...]:
    """The derivative of the plain expression, itself differentiable; for create_graph=True."""
    with torch.enable_grad():
        y = plain(*inputs)
        outputs = y if isinstance(y, tuple) else (y,)
        needed = tuple(x for x in inputs if x.requires_grad)
        gradients = iter(torch.autograd.grad(outputs, needed, dy, create_graph=True))
    return tuple(next(gradients) if x.requires_grad else None for x in inputs)
