"""Normalisation over the last axis. To add a norm, write a class with `make` and add it to NORMS.

Letters: n stands for any leading axes, d for the last."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.config import SubTable, renamed
from firth.errors import ConfigError
from firth.ideas import Idea, Ideas
from firth.layers.hook_free import Direct
from firth.layers.kernels import manual_backward

Placement = Literal["pre", "post", "sandwich", "after"]
EPS = 1e-5  # if a recipe gives none


class Norm(Idea, ABC):
    """A kind of norm, which makes the modules that a model has in many places."""

    has_bias: ClassVar[bool] = False
    kept: ClassVar[int] = 2  # how many vectors it keeps for the backward pass: x and the normalised x
    module: ClassVar[type[nn.Module] | None] = None  # of what `make` returns, if `explained` knows it

    @staticmethod
    @abstractmethod
    def make(width: int, bias: bool, eps: float) -> nn.Module:
        """A norm of vectors of this width; `bias` only where the kind has one."""

    @staticmethod
    def explained(norm: Any, x_nd: Tensor) -> Tensor:
        """norm(x), in the operations that pictures show."""
        y_nd: Tensor = norm(x_nd)
        return y_nd


class LayerNorm(Norm):
    """(x − E[x]) / √(Var[x] + ε) · γ + β  with the biased variance and ε inside the root (Ba et al. 2016)."""

    kind = "layer"
    label = "LayerNorm"
    about = "Subtracts the mean and divides by the standard deviation (Ba et al. 2016)."
    latex = r"\frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \odot \gamma + \beta"
    has_bias = True
    module = nn.LayerNorm

    @staticmethod
    def make(width: int, bias: bool, eps: float) -> nn.Module:
        return nn.LayerNorm(width, eps=eps, bias=bias)

    @staticmethod
    def explained(norm: nn.LayerNorm, x_nd: Tensor) -> Tensor:
        away_nd = x_nd - x_nd.mean(-1, keepdim=True)
        return scaled(norm, away_nd / (away_nd.square().mean(-1, keepdim=True) + norm.eps).sqrt())


class RootMeanSquare(Norm):
    """x / √(E[x²] + ε) · γ  (Zhang & Sennrich 2019)."""

    kind = "rms"
    label = "RMSNorm"
    about = "Divides by the root of the mean square (Zhang & Sennrich 2019)."
    latex = r"\frac{x}{\sqrt{\mathrm{E}[x^2] + \epsilon}} \odot \gamma"
    module = nn.RMSNorm
    kept = 3  # x, x over its length, and that times the gains

    @staticmethod
    def make(width: int, bias: bool, eps: float) -> nn.Module:
        return RMSNorm(width, eps=eps)

    @staticmethod
    def explained(norm: nn.RMSNorm, x_nd: Tensor) -> Tensor:
        return scaled(norm, x_nd / (x_nd.square().mean(-1, keepdim=True) + (norm.eps or 0.0)).sqrt())


def scaled(norm: Any, unit_nd: Tensor) -> Tensor:
    """x̂ ⊙ γ + β, with the parameters that the norm has."""
    y_nd = unit_nd if norm.weight is None else unit_nd * norm.weight
    return y_nd if getattr(norm, "bias", None) is None else y_nd + norm.bias


NORMS: Ideas[type[Norm]] = Ideas("norm", Norm, (LayerNorm, RootMeanSquare))
NormKind = Annotated[str, NORMS]


def kind_of(module: nn.Module) -> type[Norm] | None:
    """The kind of a norm that says which modules it makes."""
    return next((one for one in NORMS if one.module is not None and isinstance(module, one.module)), None)


def norm(kind: NormKind, width: int, bias: bool, eps: float = EPS) -> nn.Module:
    return NORMS[kind].make(width, bias, eps)


@dataclass(frozen=True, kw_only=True)
class NormConfig(SubTable):
    """The norms of a Transformer."""

    kind: NormKind = "rms"  # normalisation: LayerNorm or RMSNorm
    eps: float = renamed(".norm_eps", default=EPS)  # ε, added to the variance or mean square before the root
    # where to normalise: the input of each sublayer ("pre"), the sum of its input and output ("post"), its output ("after"), or
    # its input and its output ("sandwich")
    placement: Placement = renamed(".norm_placement", default="pre")
    bias: bool | None = None  # add a bias to each LayerNorm; if not set, as `bias` of the model says; RMSNorm has none

    def __post_init__(self) -> None:
        if self.bias is not None and not NORMS[self.kind].has_bias:
            kinds = " or ".join(f'"{one.kind}"' for one in NORMS if one.has_bias)
            raise ConfigError(f'model.norm.bias only applies to model.norm.kind = {kinds}; given "{self.kind}". Remove it.')
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise ConfigError(f"model.norm.eps is {self.eps}; expected a small number above 0, such as 1e-5")


class RMSNorm(Direct, nn.RMSNorm):
    """torch's RMSNorm on a GPU, where it is fused; our own on a CPU, where torch's is a chain of ten small operations."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__(width, eps)
        # A tensor for each type: a Python number would be converted in every call, and a buffer would be rounded by a cast.
        self.eps_of = {dtype: torch.tensor(eps, dtype=dtype, device="cpu") for dtype in (torch.float32, torch.float64)}

    def forward(self, x: Tensor) -> Tensor:
        eps_1 = self.eps_of.get(x.dtype)
        if eps_1 is None and x.dtype != self.weight.dtype:  # bfloat16 under autocast: in float32, as in LayerNorm
            return self.forward(x.to(self.weight.dtype))
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
        ctx.save_for_backward(x_nd, gain_d, eps_1, unit_nd, r_n1)
        y_nd: Tensor = unit_nd * gain_d
        return y_nd

    @staticmethod
    def backward(ctx: Any, *dy: Tensor) -> tuple[Tensor | None, ...]:
        x_nd, gain_d, eps_1, unit_nd, r_n1 = ctx.saved_tensors
        if torch.is_grad_enabled():
            return manual_backward.of_plain(_plain_rms_norm, (x_nd, gain_d, eps_1), *dy)
        both_nd = dy[0] * unit_nd
        along_n1 = (both_nd @ gain_d).unsqueeze(-1)
        dx_nd = (dy[0] * gain_d).addcmul_(unit_nd, along_n1, value=-1 / len(gain_d)).mul_(r_n1)
        return dx_nd, both_nd.reshape(-1, len(gain_d)).sum(0), None


def _plain_rms_norm(x_nd: Tensor, gain_d: Tensor, eps_1: Tensor) -> Tensor:
    return x_nd * torch.rsqrt(x_nd.square().mean(-1, keepdim=True) + eps_1) * gain_d


def _inverse_rms(x_nd: Tensor, eps_1: Tensor) -> Tensor:
    """r = (ε + ‖x‖² / d)^−½, in three operations."""
    norm_n1: Tensor = torch.linalg.vector_norm(x_nd, dim=-1, keepdim=True)
    return torch.addcmul(eps_1, norm_n1, norm_n1, value=1.0 / x_nd.shape[-1]).rsqrt_()
