"""Attention with projections: Concat(head_1 … head_H) W^O. Letters as in attention/call.py; d model width, N = H + 2G."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from firth.layers import attention, manual_backward
from firth.layers.attention import mask, score
from firth.layers.attention.call import Call
from firth.layers.hook_free import Direct, Linear
from firth.layers.position import Relative, Turn, rotate, shaw
from firth.layers.state import KeyValue

Where = Turn | Relative | None  # what a model's position scheme hands to every layer


class Attend(Direct):
    """attend() with the parameters that its score and Shaw's positions have. It is a module of its own so that there is a named
    place to look in: a hook on it sees the q, k and v of the layer (see tap.py)."""

    def __init__(self, heads: int, head_width: int, kind: score.ScoreKind, clip: int | None, both: bool) -> None:
        super().__init__()
        self.kind, self.clip, self.both = kind, clip, both
        self.scale = score.SCALED_DOT.default_scale(head_width) if kind == "scaled_dot" else 1.0
        if kind == "additive":
            self.w_HA = nn.Parameter(torch.empty(heads, head_width))
        if clip is not None:
            rows = 2 * clip + 1 if both else clip + 1
            self.key_RD = nn.Parameter(torch.empty(rows, head_width))
            self.value_RE = nn.Parameter(torch.empty(rows, head_width))

    def forward(
        self, q_BHTD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, allowed: mask.Mask, where: Relative | None, start: int
    ) -> Tensor:
        return attention.run(self.call(q_BHTD, k_BGKD, v_BGKD, allowed, where, start))

    def call(
        self, q_BHTD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, allowed: mask.Mask, where: Relative | None, start: int
    ) -> Call:
        if self.clip is not None:
            where = shaw(self.key_RD, self.value_RE, both=self.both)
        return Call(q_BHTD, k_BGKD, v_BGKD, self.scale, self.score(), allowed, where, start)

    def score(self) -> score.Score:
        match self.kind:
            case "scaled_dot":
                return score.SCALED_DOT
            case "dot" | "bilinear":  # M has met q already, see SelfAttention.split
                return score.DOT
            case "gaussian":
                return score.GAUSSIAN
            case "additive":
                return score.additive(self.w_HA)  # W_q and W_k are the projections of the layer


class SelfAttention(Direct):
    """q = x W^Q, k = x W^K, v = x W^V, o = Concat(attend(q, k, v)) W^O (Vaswani et al. 2017, §3.2.2).

    G = H is multi-head, G = 1 multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023)."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        bias: bool,
        kind: score.ScoreKind = "scaled_dot",
        clip: int | None = None,  # of Shaw's positions, where those are used
        both: bool = False,  # whether they look to both sides
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = heads, kv_heads, width // heads
        # One product for all three: the rows of the weight are W^Q (H·D), W^K (G·D), W^V (G·D).
        self.qkv = Linear(width, (heads + 2 * kv_heads) * self.head_width, bias=bias)
        self.out = Linear(heads * self.head_width, width, bias=bias)
        self.M_HDD = nn.Parameter(torch.empty(heads, self.head_width, self.head_width)) if kind == "bilinear" else None
        self.attend = Attend(heads, self.head_width, kind, clip, both)

    def forward(self, x_BTd: Tensor, allowed: mask.Mask, where: Where, past: KeyValue | None) -> tuple[Tensor, KeyValue | None]:
        turn, relative = (where, None) if isinstance(where, Turn) else (None, where)
        # Keys are stored turned: rotary positions are absolute, and turning the past again in each step would be waste.
        q_BHTD, k_BGTD, v_BGTD = self.split(self.qkv(x_BTd), turn)
        start = 0
        if past is not None:
            start = past.length
            k_BGTD, v_BGTD, past = past.extend(k_BGTD, v_BGTD)
        o_BHTD = self.attend(q_BHTD, k_BGTD, v_BGTD, allowed, relative, start)
        return self.out(o_BHTD.transpose(1, 2).flatten(2)), past

    def split(self, qkv_BTn: Tensor, turn: Turn | None) -> tuple[Tensor, Tensor, Tensor]:
        """The fused projection as queries, keys and values, the first two turned to where they stand."""
        B, T, _ = qkv_BTn.shape
        qkv_BNTD = qkv_BTn.view(B, T, -1, self.head_width).transpose(1, 2)
        if self.M_HDD is not None:
            # M comes before the turn: (R_t Mᵀq)·(R_s k) depends on s − t alone, (R_t q)ᵀ M (R_s k) does not.
            q_BHTD, k_BGTD, v_BGTD = _plain_split(qkv_BNTD, None, self.heads)
            q_BHTD = q_BHTD @ self.M_HDD
            return (q_BHTD, k_BGTD, v_BGTD) if turn is None else (rotate(q_BHTD, turn), rotate(k_BGTD, turn), v_BGTD)
        if turn is not None and manual_backward.by_hand(qkv_BTn):
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
