"""Linear layers whose weights are int8 or int4: y = x Wᵀ + b with W ≈ s · (q − z), see rounding.py.

Decoding reads every weight once per token, and that is what a step costs: fewer bytes are fewer seconds. Activations, biases and
sums stay in floating point. Each product has a fast kernel (`cpu`, `gpu`) and a plain form, `reference`, that dequantises W.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.hook_free import Direct
from firth.layers.kernels.cpu import quantised as cpu
from firth.layers.kernels.triton import quantised as gpu
from firth.layers.quantised import rounding

Quantisation = Literal["int8", "int4"]
GROUP = 32  # columns that share a scale in int4

__all__ = ["GROUP", "Int4Linear", "Int8Linear", "Quantisation", "QuantisedLinear", "quantised", "quantised_matrix"]


class QuantisedLinear(Direct):
    """In place of a Linear. It belongs to the device of the weights that it was made of, and has no gradient."""

    in_features: int
    out_features: int
    bias: nn.Parameter | None
    group = 0  # columns that share a scale; 0 for a whole row

    def __init__(self, weight_nd: Tensor, bias_n: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight_nd.shape
        self.bias = None if bias_n is None else nn.Parameter(bias_n.detach(), requires_grad=False)
        self.dtype = weight_nd.dtype

    def forward(self, x_BTd: Tensor) -> Tensor:
        if x_BTd.requires_grad and torch.is_grad_enabled():
            raise ConfigError("quantised weights have no gradient. Load the run without quantise.")
        x_Md = x_BTd.reshape(-1, x_BTd.shape[-1])
        return self.product(x_Md).view(*x_BTd.shape[:-1], self.out_features)

    def product(self, x_Md: Tensor) -> Tensor:
        """x Wᵀ + b, by the fastest kernel there is."""
        if gpu.why_not(x_Md) is None:
            return gpu.linear(x_Md, *self.on_gpu(), self.bias, self.group)
        return self.on_cpu(x_Md) if x_Md.device.type == "cpu" and x_Md.dtype != torch.float64 else self.reference(x_Md)

    def on_cpu(self, x_Md: Tensor) -> Tensor:
        """x Wᵀ + b, by torch's kernels if they can."""
        raise NotImplementedError

    def one_row(self, x_11d: Tensor, **around: Any) -> Tensor:
        """r + φ(W N(x) + b) for one row on a GPU; `around` has those of `norm`, `activation` and `residual` that exist."""
        return gpu.one_row(x_11d.view(1, -1), *self.on_gpu(), self.bias, self.group, **around).view(1, 1, -1)

    def on_gpu(self) -> tuple[Tensor, Tensor]:
        """The weights and their scales, as the kernels for GPUs take them."""
        raise NotImplementedError

    def reference(self, x_Md: Tensor) -> Tensor:
        """The same, with W in the type of x."""
        return F.linear(x_Md, self.dequantised(x_Md.dtype), None if self.bias is None else self.bias.to(x_Md.dtype))

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        """s · (q − z)."""
        raise NotImplementedError

    @property
    def matrix(self) -> Tensor:
        return self.dequantised(self.dtype)

    @property
    def weight(self) -> Tensor:
        """As Linear's: what looks at the weights sees those that are multiplied."""
        return self.matrix

    def bytes(self) -> int:
        """The bytes of the weights with their scales, and of the bias."""
        kept = [*self.buffers(), *self.parameters()]
        return sum(tensor.numel() * tensor.element_size() for tensor in kept)

    def plus_bias(self, y_Mn: Tensor) -> Tensor:
        return y_Mn if self.bias is None else y_Mn + self.bias.to(y_Mn.dtype)

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        raise ConfigError("a quantised model cannot be moved or converted. Load it with the device and dtype that you want.")


class Int8Linear(QuantisedLinear):
    def __init__(self, weight_nd: Tensor, bias_n: Tensor | None) -> None:
        super().__init__(weight_nd, bias_n)
        q_nd, scale_n = rounding.to_int8(weight_nd.detach())
        self.register_buffer("q_nd", q_nd)
        self.register_buffer("scale_n", scale_n)

    def on_gpu(self) -> tuple[Tensor, Tensor]:
        return self.get_buffer("q_nd"), self.get_buffer("scale_n")

    def on_cpu(self, x_Md: Tensor) -> Tensor:
        return self.plus_bias(cpu.int8_linear(x_Md, self.get_buffer("q_nd"), self.get_buffer("scale_n")))

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        return rounding.from_int8(self.get_buffer("q_nd"), self.get_buffer("scale_n"), dtype)


class Int4Linear(QuantisedLinear):
    """`ordered`: the weights are packed as torch's kernel for CPUs takes them."""

    def __init__(self, weight_nd: Tensor, bias_n: Tensor | None, group: int = GROUP) -> None:
        super().__init__(weight_nd, bias_n)
        self.group = group
        q_nd, scale_nc, m_nc = rounding.to_int4(weight_nd.detach(), group)
        on_cpu = weight_nd.device.type == "cpu" and not gpu._INTERPRETED
        self.ordered = on_cpu and cpu.why_not_int4(self.out_features, self.in_features, group) is None
        if self.ordered:
            packed, both = cpu.in_kernel_order(q_nd, scale_nc, m_nc)
            self.register_buffer("scale_and_m_cn2", both)
        else:
            packed, both = rounding.pack(q_nd, scale_nc, m_nc)
            self.register_buffer("scale_and_m_nc2", both)
        self.register_buffer("packed", packed)

    def on_gpu(self) -> tuple[Tensor, Tensor]:
        return self.get_buffer("packed"), self.get_buffer("scale_and_m_nc2")

    def on_cpu(self, x_Md: Tensor) -> Tensor:
        if not self.ordered:
            return self.reference(x_Md)
        packed, both_cn2 = self.get_buffer("packed"), self.get_buffer("scale_and_m_cn2")
        return self.plus_bias(cpu.int4_linear(x_Md, packed, both_cn2, self.group))

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        packed = self.get_buffer("packed")
        if self.ordered:
            both_cn2 = self.get_buffer("scale_and_m_cn2")
            scale_nc, m_nc = both_cn2.permute(2, 1, 0).unbind()
            return rounding.from_int4(cpu.in_plain_order(packed, both_cn2, self.group), scale_nc, m_nc, self.in_features, dtype)
        scale_nc, m_nc = self.get_buffer("scale_and_m_nc2").unbind(-1)
        return rounding.from_int4(rounding.unpack(packed), scale_nc, m_nc, self.in_features, dtype)


def quantised(linear: nn.Linear, kind: Quantisation) -> QuantisedLinear:
    """A Linear's weights in another form."""
    return quantised_matrix(linear.weight, linear.bias, kind)


def quantised_matrix(weight_nd: Tensor, bias_n: Tensor | None, kind: Quantisation) -> QuantisedLinear:
    return Int8Linear(weight_nd, bias_n) if kind == "int8" else Int4Linear(weight_nd, bias_n)
