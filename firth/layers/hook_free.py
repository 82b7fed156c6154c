"""Modules that skip torch's hook machinery. One decoded token passes thirty modules, and on a CPU looking for hooks costs as
much in each as its matrix product; here it is done only if a hook is registered."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from firth.layers.kernels import transposed_product


class Direct(nn.Module):
    """A module whose call is its forward, unless it has hooks or is being compiled."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or torch.compiler.is_compiling()
        ):
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)


class Linear(Direct, nn.Linear):
    """y = x Wᵀ + b."""

    def forward(self, x_nd: torch.Tensor) -> torch.Tensor:
        return transposed_product.linear(x_nd, self.weight, self.bias)

    @property
    def matrix(self) -> torch.Tensor:
        """W, as an expression that autograd follows; with corrections (lora.py) it is not a parameter."""
        return self.weight
