"""Activations of feed-forward networks, plain or gated. To add one, write a class with `apply` and add it to ACTIVATIONS.

Letters: h hidden width, n any leading axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.ideas import Idea, Ideas
from firth.layers.gelu import gelu
from firth.layers.kernels import manual_backward

Plain = Literal["relu", "gelu", "gelu_tanh", "silu"]  # those of layers besides feed-forward networks


class Activation(Idea, ABC):
    """φ of W_2 φ(W_1 x) or, if `gated`, of W_2 (φ(W_g x) ⊙ W_1 x). `apply` then gets both as halves of the last axis."""

    gated: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def apply(up_nh: Tensor) -> Tensor: ...


class ReLU(Activation):
    kind = "relu"
    label = "ReLU"
    about = "Positive numbers as they are, 0 for others (Vaswani et al. 2017, eq. 2)."
    latex = r"\max(0, x)"

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return F.relu(up_nh)


class GELU(Activation):
    kind = "gelu"
    label = "GELU"
    about = "x times the probability of a normal number below it (Hendrycks & Gimpel 2016)."
    latex = r"x \, \Phi(x)"

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return gelu(up_nh)


class GELUTanh(Activation):
    kind = "gelu_tanh"
    label = "GELU, by tanh"
    about = "GELU's approximation, with which GPT-2, Gemma and T5 1.1 were trained."
    latex = r"\tfrac{1}{2} x \left( 1 + \tanh \left( \sqrt{2 / \pi} \, (x + 0.044715 x^3) \right) \right)"

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return gelu_tanh(up_nh)


class SiLU(Activation):
    kind = "silu"
    label = "SiLU"
    about = "x times its sigmoid."
    latex = r"x \, \sigma(x)"

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return F.silu(up_nh)


class SwiGLU(Activation):
    kind = "swiglu"
    label = "SwiGLU"
    about = "Gated by SiLU (Shazeer 2020)."
    latex = r"\mathrm{SiLU}(W_g x) \odot W_1 x"
    gated = True

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return swiglu(up_nh)


class GEGLU(Activation):
    kind = "geglu"
    label = "GEGLU"
    about = "Gated by GELU (Shazeer 2020)."
    latex = r"\mathrm{GELU}(W_g x) \odot W_1 x"
    gated = True

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return gated(gelu, up_nh)


class GEGLUTanh(Activation):
    kind = "geglu_tanh"
    label = "GEGLU, by tanh"
    about = "Gated by GELU's approximation, as in Gemma and T5 1.1."
    latex = r"\mathrm{GELU}_{\tanh}(W_g x) \odot W_1 x"
    gated = True

    @staticmethod
    def apply(up_nh: Tensor) -> Tensor:
        return gated(gelu_tanh, up_nh)


ACTIVATIONS: Ideas[type[Activation]] = Ideas("activation", Activation, (ReLU, GELU, GELUTanh, SiLU, SwiGLU, GEGLU, GEGLUTanh))
ActivationKind = Annotated[str, ACTIVATIONS]


def is_gated(kind: ActivationKind | None) -> bool:
    return kind is not None and ACTIVATIONS[kind].gated


def plain(activation: Plain, x: Tensor) -> Tensor:
    """An activation that acts on each number alone."""
    return ACTIVATIONS[activation].apply(x)


def swiglu(up_n2h: Tensor) -> Tensor:
    """silu(gate) ⊙ value, where silu(x) = x σ(x) and gate and value are the halves of the last axis."""
    if manual_backward.by_hand(up_n2h):
        inner_nh: Tensor = _SwiGLU.apply(up_n2h)  # type: ignore[no-untyped-call]
        return inner_nh
    return _plain_swiglu(up_n2h)


def _plain_swiglu(up_n2h: Tensor) -> Tensor:
    return gated(F.silu, up_n2h)


def gated(activation: Callable[[Tensor], Tensor], up_n2h: Tensor) -> Tensor:
    """φ(gate) ⊙ value, where gate and value are the halves of the last axis."""
    gate_nh, value_nh = up_n2h.chunk(2, dim=-1)
    return activation(gate_nh) * value_nh


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


class _SwiGLU(torch.autograd.Function):
    """Autograd would compute the gradient of each half and copy both into one tensor; here they are written there directly."""

    @staticmethod
    def forward(ctx: Any, up_n2h: Tensor) -> Tensor:
        gate_nh, value_nh = up_n2h.chunk(2, dim=-1)
        silu_nh = F.silu(gate_nh)
        ctx.save_for_backward(up_n2h, silu_nh)
        return silu_nh * value_nh

    @staticmethod
    def backward(ctx: Any, *dy: Tensor) -> tuple[Tensor | None, ...]:
        up_n2h, silu_nh = ctx.saved_tensors
        if torch.is_grad_enabled():
            return manual_backward.of_plain(_plain_swiglu, (up_n2h,), *dy)
        gate_nh, value_nh = up_n2h.chunk(2, dim=-1)
        dup_n2h = torch.empty_like(up_n2h)
        dgate_nh, dvalue_nh = dup_n2h.chunk(2, dim=-1)
        torch.mul(dy[0], silu_nh, out=dvalue_nh)
        torch.ops.aten.silu_backward.grad_input(dy[0] * value_nh, gate_nh, grad_input=dgate_nh)
        return (dup_n2h,)
