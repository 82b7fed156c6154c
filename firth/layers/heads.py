"""Attention with projections: Concat(head_1 … head_H) W^O. Letters as in attention/call.py; d model width, N = H + 2G."""

from __future__ import annotations

from torch import Tensor

from firth.layers.attention import attend, mask
from firth.layers.direct import Direct, Linear
from firth.layers.position import Turn, rotate
from firth.layers.state import KeyValue


class SelfAttention(Direct):
    """q = x W^Q, k = x W^K, v = x W^V, o = Concat(attend(q, k, v)) W^O (Vaswani et al. 2017, §3.2.2).

    G = H is multi-head, G = 1 multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023)."""

    def __init__(self, width: int, heads: int, kv_heads: int, bias: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = heads, kv_heads, width // heads
        # One product for all three: the rows of the weight are W^Q (H·D), W^K (G·D), W^V (G·D).
        self.qkv = Linear(width, (heads + 2 * kv_heads) * self.head_width, bias=bias)
        self.out = Linear(heads * self.head_width, width, bias=bias)

    def forward(
        self, x_BTd: Tensor, allowed: mask.Mask, turn: Turn | None, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue | None]:
        B, T, _ = x_BTd.shape
        qkv_BNTD = self.qkv(x_BTd).view(B, T, -1, self.head_width).transpose(1, 2)
        qk_BNTD, v_BGTD = qkv_BNTD.split_with_sizes((self.heads + self.kv_heads, self.kv_heads), dim=1)
        if turn is not None:
            qk_BNTD = rotate(qk_BNTD, turn)
        q_BHTD, k_BGTD = qk_BNTD.split_with_sizes((self.heads, self.kv_heads), dim=1)
        start = 0
        if past is not None:
            start = past.length
            k_BGTD, v_BGTD, past = past.extend(k_BGTD, v_BGTD)
        o_BHTD = attend(q_BHTD, k_BGTD, v_BGTD, mask=allowed, q_start=start)
        return self.out(o_BHTD.transpose(1, 2).flatten(2)), past
