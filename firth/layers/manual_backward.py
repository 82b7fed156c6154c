"""Derivatives written by hand, where autograd's own would move memory for nothing on a CPU.

Each has a plain expression beside it. That is what a compiler is given, which fuses it anyway, and what a second derivative
is taken of; the fast one is for the first derivative, which is the one that training needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def by_hand(x: Tensor) -> bool:
    """Whether a call with this input is one for the derivative by hand."""
    return torch.is_grad_enabled() and x.device.type == "cpu" and not torch.compiler.is_compiling()


def of_plain(plain: Callable[..., Any], inputs: tuple[Tensor, ...], *dy: Tensor) -> tuple[Tensor | None, ...]:
    """The derivative of the plain expression, itself differentiable; asked for when a graph of the backward pass is made."""
    with torch.enable_grad():
        y = plain(*inputs)
        outputs = y if isinstance(y, tuple) else (y,)
        needed = tuple(x for x in inputs if x.requires_grad)
        found = iter(torch.autograd.grad(outputs, needed, dy, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
