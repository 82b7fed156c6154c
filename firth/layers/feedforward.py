"""The feed-forward network of a block. Letters: B batch, T time, d width, h hidden width, n any leading axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.config import SubTable, renamed
from firth.layers.gelu import gelu
from firth.layers.hook_free import Direct, Linear
from firth.layers.kernels import manual_backward

if TYPE_CHECKING:
    from firth.layers.block_config import BlockConfig

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]
Plain = Literal["relu", "gelu", "gelu_tanh", "silu"]
GATED: tuple[Activation, ...] = ("swiglu", "geglu", "geglu_tanh")
Parallel = bool | Literal["two_norms"]


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig(SubTable):
    """The feed-forward networks of a Transformer."""

    short: ClassVar[str | None] = None

    hidden: int | None = renamed(".hidden", default=None)  # inner width; if not set, 4 · `width`, or ⅔ of that if gated
    # activation: plain, or gated (swiglu by SiLU, geglu by GELU); "tanh" is an approximation of GELU
    activation: Activation = renamed(".activation", default="swiglu")
    # compute attention and feed-forward network from the same input, and add both; "two_norms": with one norm for each, not one
    # for both; only for `norm.placement = "pre"`
    parallel: Parallel = renamed(".parallel_block", default=False)

    def inner(self, width: int) -> int:
        return self.hidden or default_hidden(width, self.activation)


class FeedForward(Direct):
    """W_2 φ(W_1 x), φ = ReLU (Vaswani et al. 2017, eq. 2), GELU, SiLU; or gated, W_2 (φ(W_g x) ⊙ W_1 x), φ = SiLU in SwiGLU and
    GELU in GEGLU (Shazeer 2020). "tanh" is GELU's approximation ½x(1 + tanh(√(2/π)(x + 0.044715x³))): GPT-2, Gemma and T5 1.1
    were trained with it."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        hidden, self.activation = config.feedforward.inner(config.width), config.feedforward.activation
        # One product gives both the gate and the value: rows 0…h−1 are W_g, rows h…2h−1 are W_1.
        self.up = Linear(config.width, 2 * hidden if self.activation in GATED else hidden, bias=config.biased)
        self.down = Linear(hidden, config.width, bias=config.biased)

    def forward(self, x_BTd: Tensor) -> Tensor:
        down_BTd: Tensor = self.down(self.activated(self.up(x_BTd)))
        return down_BTd

    def activated(self, up_BTh: Tensor) -> Tensor:
        match self.activation:
            case "swiglu":
                return swiglu(up_BTh)
            case "geglu":
                return gated(gelu, up_BTh)
            case "geglu_tanh":
                return gated(gelu_tanh, up_BTh)
            case activation:
                return plain(activation, up_BTh)


def plain(activation: Plain, x: Tensor) -> Tensor:
    """An activation that acts on each number alone."""
    match activation:
        case "relu":
            return F.relu(x)
        case "gelu":
            return gelu(x)
        case "gelu_tanh":
            return gelu_tanh(x)
        case "silu":
            return F.silu(x)


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


def default_hidden(width: int, activation: Activation) -> int:
    """4d as published; gated networks have three matrices where others have two, so ⅔ of that, rounded up to a multiple of 16."""
    return 4 * width if activation not in GATED else -(-8 * width // 3 // 16) * 16
