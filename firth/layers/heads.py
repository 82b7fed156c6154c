"""Attention with projections: Concat(head_1 … head_H) W^O. Letters as in attention/call.py; d model width, N = H + 2G."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firth.layers import derivative
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
        q_BHTD, k_BGTD, v_BGTD = self.split(self.qkv(x_BTd), turn)
        start = 0
        if past is not None:
            start = past.length
            k_BGTD, v_BGTD, past = past.extend(k_BGTD, v_BGTD)
        o_BHTD = attend(q_BHTD, k_BGTD, v_BGTD, mask=allowed, q_start=start)
        return self.out(o_BHTD.transpose(1, 2).flatten(2)), past

    def split(self, qkv_BTn: Tensor, turn: Turn | None) -> tuple[Tensor, Tensor, Tensor]:
        """The fused projection as queries, keys and values, the first two turned to where they stand."""
        B, T, _ = qkv_BTn.shape
        qkv_BNTD = qkv_BTn.view(B, T, -1, self.head_width).transpose(1, 2)
        if turn is not None and derivative.by_hand(qkv_BTn):
            q_BHTD, k_BGTD, v_BGTD = _TurnedSplit.apply(qkv_BNTD, turn.cos_TD, turn.sin_TD, self.heads)  # type: ignore[no-untyped-call]
            return q_BHTD, k_BGTD, v_BGTD
        return _plain_split(qkv_BNTD, turn, self.heads)


def _plain_split(qkv_BNTD: Tensor, turn: Turn | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    groups = (qkv_BNTD.shape[1] - heads) // 2
    qk_BNTD, v_BGTD = qkv_BNTD.split_with_sizes((heads + groups, groups), dim=1)
    if turn is not None:
        qk_BNTD = rotate(qk_BNTD, turn)
    q_BHTD, k_BGTD = qk_BNTD.split_with_sizes((heads, groups), dim=1)
    return q_BHTD, k_BGTD, v_BGTD


class _TurnedSplit(torch.autograd.Function):
    """The derivative of a rotation is the rotation back. Those of q, k and v are made where the projection reads them."""

    @staticmethod
    def forward(ctx: Any, qkv_BNTD: Tensor, cos_TD: Tensor, sin_TD: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cos_TD, sin_TD)
        return _plain_split(qkv_BNTD, Turn(cos_TD, sin_TD), heads)

    @staticmethod
    def backward(ctx: Any, *dqkv: Tensor) -> tuple[Tensor | None, ...]:
        back = Turn(*ctx.saved_tensors).back()
        dq_BHTD, dk_BGTD, dv_BGTD = dqkv
        if torch.is_grad_enabled():  # a graph of the backward pass is wanted: only operations that autograd can follow
            return torch.cat((rotate(dq_BHTD, back), rotate(dk_BGTD, back), dv_BGTD), dim=1), None, None, None
        (B, H, T, D), G = dq_BHTD.shape, dk_BGTD.shape[1]
        dqkv_BNTD = dq_BHTD.new_empty(B, T, H + 2 * G, D).transpose(1, 2)
        rotate(dq_BHTD, back, out=dqkv_BNTD[:, :H])
        rotate(dk_BGTD, back, out=dqkv_BNTD[:, H : H + G])
        dqkv_BNTD[:, H + G :].copy_(dv_BGTD)
        return dqkv_BNTD, None, None, None
