"""Normalisation over the last axis. Letters: n stands for any leading axes, d for the last."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.layers.direct import Direct

NormKind = Literal["layer", "rms"]


def norm(kind: NormKind, width: int, bias: bool) -> nn.Module:
    """LayerNorm  (x − E[x]) / √(Var[x] + ε) · γ + β  with the biased variance and ε inside the root, or
    RMSNorm   x / √(E[x²] + ε) · γ  (Zhang & Sennrich 2019)."""
    match kind:
        case "layer":
            return nn.LayerNorm(width, eps=1e-5, bias=bias)
        case "rms":
            return RMSNorm(width, eps=1e-5)


class RMSNorm(Direct, nn.RMSNorm):
    """torch's RMSNorm, which is fused on a GPU but a chain of ten small operations on a CPU, and there one of ours."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps)
        # As tensors of each type: a Python number would be copied to one in every call, a buffer be rounded by a cast.
        self.eps_of = {dtype: torch.tensor(eps, dtype=dtype, device="cpu") for dtype in (torch.float32, torch.float64)}

    def forward(self, x: Tensor) -> Tensor:
        eps_1 = self.eps_of.get(x.dtype)
        if x.device.type != "cpu" or eps_1 is None or torch.compiler.is_compiling():
            return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
        if torch.is_grad_enabled():
            y: Tensor = _RMSNorm.apply(x, self.weight, eps_1)  # type: ignore[no-untyped-call]
            return y
        return (x * _inverse_rms(x, eps_1)).mul_(self.weight)


class _RMSNorm(torch.autograd.Function):
    """y = x̂ ⊙ γ with x̂ = r x and r = (E[x²] + ε)^−½, so ∂x̂/∂x = r (I − x̂ x̂ᵀ / d)."""

    @staticmethod
    def forward(ctx: Any, x_nd: Tensor, gain_d: Tensor, eps_1: Tensor) -> Tensor:
        r_n1 = _inverse_rms(x_nd, eps_1)
        unit_nd = x_nd * r_n1
        ctx.save_for_backward(unit_nd, r_n1, gain_d)
        y_nd: Tensor = unit_nd * gain_d
        return y_nd

    @staticmethod
    @once_differentiable  # x̂ and r are kept as numbers, so a second derivative would be wrong: let it be an error
    def backward(ctx: Any, *dy: Tensor) -> tuple[Tensor, Tensor, None]:
        unit_nd, r_n1, gain_d = ctx.saved_tensors
        dgain_d = (dy[0] * unit_nd).reshape(-1, len(gain_d)).sum(0)
        dunit_nd = dy[0] * gain_d
        along_n1 = torch.linalg.vecdot(dunit_nd, unit_nd).unsqueeze(-1).div_(unit_nd.shape[-1])
        return dunit_nd.addcmul_(unit_nd, along_n1, value=-1).mul_(r_n1), dgain_d, None


def _inverse_rms(x_nd: Tensor, eps_1: Tensor) -> Tensor:
    """r = (ε + ‖x‖² / d)^−½, in three operations."""
    norm_n1: Tensor = torch.linalg.vector_norm(x_nd, dim=-1, keepdim=True)
    return torch.addcmul(eps_1, norm_n1, norm_n1, value=1.0 / x_nd.shape[-1]).rsqrt_()
