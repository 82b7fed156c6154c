"""One request for attention: what every kernel is handed, checked once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.mask import Mask


@dataclass(frozen=True, eq=False)
class Call:
    """B batch, H query heads, G key/value heads, Q queries, K keys, D head width, E value width."""

    q_BHQD: Tensor
    k_BGKD: Tensor
    v_BGKE: Tensor
    mask: Mask
    scale: float
    q_start: int | Tensor  # absolute position of the first query: one for all rows, or one per row

    def __post_init__(self) -> None:
        q, k, v = self.q_BHQD, self.k_BGKD, self.v_BGKE
        if not (q.ndim == k.ndim == v.ndim == 4):
            raise ConfigError(f"attend() takes q_BHQD, k_BGKD and v_BGKE, four axes each; given {self._shapes()}")
        (B, H, _, D), (B_k, G, K, D_k), (B_v, G_v, K_v, _) = q.shape, k.shape, v.shape
        if not B == B_k == B_v:
            raise ConfigError(f"q, k and v must have the same batch; given {self._shapes()}")
        if (G_v, K_v) != (G, K) or D_k != D:
            raise ConfigError(f"k and v must have the same heads and length, q and k the same width; given {self._shapes()}")
        if H % G:
            raise ConfigError(f"{G} key/value heads do not divide {H} query heads; kv_heads must be a divisor of heads")
        if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
            kinds = ", ".join(f"{name} {t.dtype} on {t.device}" for name, t in (("q", q), ("k", k), ("v", v)))
            raise ConfigError(f"q, k and v must share one dtype and one device; given {kinds}")
        if isinstance(self.q_start, Tensor) and self.q_start.numel() not in (1, q.shape[0]):
            raise ConfigError(
                f"q_start has {self.q_start.numel()} starts for a batch of {q.shape[0]}; give one int, or one per row"
            )

    def _shapes(self) -> str:
        return ", ".join(f"{name} {tuple(t.shape)}" for name, t in (("q", self.q_BHQD), ("k", self.k_BGKD), ("v", self.v_BGKE)))

    @property
    def heads_per_group(self) -> int:
        return self.q_BHQD.shape[1] // self.k_BGKD.shape[1]

    @property
    def starts_at_zero(self) -> bool:
        return isinstance(self.q_start, int) and self.q_start == 0

    def allowed_BHQK(self) -> Tensor:
        """The mask as a boolean tensor; axes on which it does not depend stay 1."""
        B, H, Q, _ = self.q_BHQD.shape
        K, device = self.k_BGKD.shape[2], self.q_BHQD.device
        start = self.q_start.to(device).view(-1, 1, 1, 1) if isinstance(self.q_start, Tensor) else self.q_start
        return self.mask.allowed(
            torch.arange(B, device=device).view(B, 1, 1, 1),
            torch.arange(H, device=device).view(1, H, 1, 1),
            torch.arange(Q, device=device).view(1, 1, Q, 1) + start,
            torch.arange(K, device=device).view(1, 1, 1, K),
        )
