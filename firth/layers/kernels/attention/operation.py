"""A forward and a backward function as one differentiable operation.

In eager mode it is a plain autograd function; under torch.compile it is a custom operator, which the compiler treats as opaque. A
custom operator would do for both, but its dispatch takes half a millisecond per call in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from firth.errors import ConfigError


def differentiable(
    operator: Any,  # torch.library.custom_op of the same two functions
    backward_operator: Any,
    run: Callable[..., Any],
    run_backward: Callable[..., Any],
    setup: Callable[[Any, tuple[Any, ...], Any], None],
    derive: Callable[..., tuple[Tensor | None, ...]],
) -> Callable[..., Any]:
    """`setup(ctx, inputs, outputs)` saves what `derive(ctx, backward, *gradients)` needs, which calls `backward`."""

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            return run_backward(*args)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return _no_second_derivative()

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            outputs = run(*args)
            setup(ctx, args, outputs)
            return outputs

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return derive(ctx, Backward.apply if torch.is_grad_enabled() else run_backward, *gradients)

    def derive_compiled(ctx: Any, *gradients: Any) -> Any:
        return derive(ctx, backward_operator, *gradients)

    operator.register_autograd(derive_compiled, setup_context=setup)
    backward_operator.register_autograd(lambda ctx, *gradients: _no_second_derivative())

    def call(*args: Any) -> Any:
        if torch.compiler.is_compiling():
            return operator(*args)
        return Forward.apply(*args)  # type: ignore[no-untyped-call]

    return call


def _no_second_derivative() -> Any:
    raise ConfigError('the fused kernels have no second derivative; kernel="reference" has one')
