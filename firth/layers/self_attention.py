"""Attention with projections: Concat(head_1 … head_H) W^O. Letters as in attention/call.py; d model width, N = H + 2G."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers import attention
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attention.config import BASED_SPAN, AttentionConfig, WindowedConfig
from firth.layers.attention.score import SCORES
from firth.layers.block_config import BlockConfig
from firth.layers.hook_free import Direct, Linear
from firth.layers.kernels import manual_backward
from firth.layers.kernels.cpu import cached_attention
from firth.layers.known import unknown_setting
from firth.layers.position import LayerPosition, LayerTables, Relative, RotaryTurn, Unprojected, rotate
from firth.layers.state import FixedKeyValue, KeyValue, LayerState, RecentKeyValue
from firth.layers.token_mixer import TokenMixer

CachedKeyValue = KeyValue | RecentKeyValue | FixedKeyValue


class Tapped(Direct, ABC):
    """A module that receives the q, k and v of a layer; tap.py records them there. It is that of `layers` consecutive layers if
    they share their weights."""

    layers = 1

    @abstractmethod
    def call(self, *args: Any) -> Call:
        """The arguments of `forward` as a call whose attention weights can be computed."""


class Attend(Tapped):
    """attend() with the parameters that its score and the position tables of its layer have. It is a module of its own so that it
    has a name: a hook on it sees the q, k and v of the layer (see tap.py).

    `reduced`: q and k arrive as the score's `reduce_query` and `reduce_key` leave them."""

    def __init__(
        self, config: AttentionConfig, head_width: int, tables: LayerTables | None = None, *, reduced: bool = True
    ) -> None:
        super().__init__()
        self.score_layer, self.tables, self.reduced = SCORES[config.score](config.heads, head_width), tables, reduced
        self.scale, self.cap = self.score_layer.scale if config.scale is None else config.scale, config.cap
        register(self, self.score_layer.attend_parameters())
        if tables is not None:
            register(self, tables.parameters(head_width))

    def forward(
        self, q_BHTD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, allowed: mask.Mask, relative: Relative | None, start: int | Tensor
    ) -> Tensor:
        return attention.run(self.call(q_BHTD, k_BGKD, v_BGKD, allowed, relative, start))

    def call(
        self, q_BHTD: Tensor, k_BGKD: Tensor, v_BGKD: Tensor, allowed: mask.Mask, relative: Relative | None, start: int | Tensor
    ) -> Call:
        if self.tables is not None:
            relative = self.tables.relative(self)
        score = self.score_layer.score(self)
        return Call(q_BHTD, k_BGKD, v_BGKD, self.scale, score, allowed, relative, start, cap=self.cap)

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        if name in self.score_layer.attend_parameters():
            self.score_layer.draw(name, parameter, generator)
        else:
            assert self.tables is not None
            self.tables.draw(name, parameter, generator)


class SelfAttention(TokenMixer):
    """q = x W^Q, k = x W^K, v = x W^V, o = Concat(attend(q, k, v)) W^O (Vaswani et al. 2017, §3.2.2).

    G = H is multi-head, G = 1 multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023). With `qk_norm`, q
    and k of each head are normalised first."""

    kind = "softmax"
    label = "softmax attention"
    about = "Every token weighs all tokens that it may see (Vaswani et al. 2017)."
    latex = r"\mathrm{softmax}(Q K^\top / \sqrt{D}) \, V"
    takes_bias = True
    takes_turn = True

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.heads, self.kv_heads, self.head_width = config.attention.heads, config.attention.groups, config.head_width
        wide, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        # One product for all three: the rows of the weight are W^Q (H·D), W^K (G·D), W^V (G·D).
        self.qkv = Linear(config.width, wide + 2 * keys, bias=config.key_biased)
        self.out = Linear(wide, config.width, bias=config.biased)
        self.query_norm, self.key_norm = config.head_norm(self.heads), config.head_norm(self.kv_heads)
        self.attend = Attend(config.attention, self.head_width, config.tables)
        self.attend.layers = config.layers
        self.score_layer = self.attend.score_layer
        self.why_not_cached = unknown_setting(config.attention, cached_attention.KNOWS)
        if self.local or config.tables is not None:
            self.why_not_cached = "a window, or tables of positions"
        register(self, self.score_layer.layer_parameters())
        own = config.position_projections
        self.position_query = Linear(config.width, wide, bias=bool(config.bias)) if own else None
        self.position_key = Linear(config.width, keys, bias=config.key_biased) if own else None
        without_keys = bool(config.bias) and not config.key_biased
        self.query_value_bias = nn.Parameter(torch.empty(wide + keys)) if without_keys else None

    def start(self) -> LayerState:
        return KeyValue()

    def narrowed(self, allowed: mask.Mask) -> mask.Mask:
        """The mask of the model as this layer narrows it."""
        return allowed

    def forward(
        self, x_BTd: Tensor, allowed: mask.Mask, position: LayerPosition, past: CachedKeyValue | None
    ) -> tuple[Tensor, CachedKeyValue | None]:
        if isinstance(position, Unprojected):
            position = self.projected(position)
        turn, relative = (position, None) if isinstance(position, RotaryTurn) else (None, position)
        # Keys are cached turned: rotary positions are absolute, and turning the past again in each step would be wasteful.
        q_BHTD, k_BGTD, v_BGTD = self.split(self.project(x_BTd), turn)
        start: int | Tensor = 0
        if past is not None:
            if allowed is mask.CAUSAL and self.in_one_call(q_BHTD, k_BGTD, v_BGTD, relative, past):
                o_BTd, past = cached_attention.attend(q_BHTD, k_BGTD, v_BGTD, past, self.attend.scale)  # type: ignore[arg-type]
                return self.out(o_BTd), past
            start = past.kept
            k_BGTD, v_BGTD, past = past.extend(k_BGTD, v_BGTD)
        o_BHTD = self.attend(q_BHTD, k_BGTD, v_BGTD, self.narrowed(allowed), relative, start)
        return self.out(o_BHTD.transpose(1, 2).flatten(2)), past

    def project(self, x_BTd: Tensor) -> Tensor:
        """q, k and v of all heads, side by side."""
        qkv_BTn: Tensor = self.qkv(x_BTd)
        if self.query_value_bias is None:
            return qkv_BTn
        bias_n = self.qkv_bias()
        assert bias_n is not None
        return qkv_BTn + bias_n.to(qkv_BTn.dtype)

    def qkv_bias(self) -> Tensor | None:
        """The biases of q, k and v; zeros for keys without any."""
        own_m = self.query_value_bias
        if own_m is None:
            return self.qkv.bias
        query_n, value_n = own_m.split_with_sizes((self.heads * self.head_width, self.kv_heads * self.head_width))
        return torch.cat((query_n, torch.zeros_like(value_n), value_n))

    def in_one_call(
        self, q_BHTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, relative: Relative | None, past: CachedKeyValue
    ) -> bool:
        """True if cached_attention.py can compute this step of causal attention. A hook on `attend` has to see its arguments."""
        if self.why_not_cached is not None or self.attend._forward_hooks or relative is not None:
            return False
        return cached_attention.why_not(q_BHTD, k_BGTD, v_BGTD, past) is None

    def projected(self, position: Unprojected) -> Relative:
        """The vectors of the distances as this layer's keys and queries."""
        x_Rd, wide = position.vector_Rd, self.heads * self.head_width
        if self.position_query is None or self.position_key is None:
            count = wide + self.kv_heads * self.head_width
            bias_n = self.qkv_bias()
            bias = None if bias_n is None else bias_n[:count]
            query_Rn, key_Rn = F.linear(x_Rd, self.qkv.matrix[:count], bias).split_with_sizes((wide, count - wide), dim=-1)
        else:
            query_Rn, key_Rn = self.position_query(x_Rd), self.position_key(x_Rd)
        query_HRD, key_GRD = (x_Rn.reshape(len(x_Rn), -1, self.head_width).transpose(0, 1) for x_Rn in (query_Rn, key_Rn))
        return position.projected(key_GRD.repeat_interleave(self.heads // self.kv_heads, 0), query_HRD)

    def split(self, qkv_BTn: Tensor, turn: RotaryTurn | None) -> tuple[Tensor, Tensor, Tensor]:
        """The fused projection as q, k and v; q and k normalised, reduced by the score, then turned by their positions."""
        B, T, _ = qkv_BTn.shape
        qkv_BNTD = qkv_BTn.view(B, T, -1, self.head_width).transpose(1, 2)
        if self.score_layer.reduces or self.query_norm is not None:
            q_BHTD, k_BGTD, v_BGTD = _plain_split(qkv_BNTD, None, self.heads)
            q_BHTD, k_BGTD = normalized(q_BHTD, self.query_norm), normalized(k_BGTD, self.key_norm)
            if self.score_layer.reduces:
                q_BHTD, k_BGTD = self.score_layer.reduce_query(q_BHTD, self), self.score_layer.reduce_key(k_BGTD, self)
            return (q_BHTD, k_BGTD, v_BGTD) if turn is None else (rotate(q_BHTD, turn), rotate(k_BGTD, turn), v_BGTD)
        if turn is not None and manual_backward.by_hand(qkv_BTn):
            q_BHTD, k_BGTD, v_BGTD = _TurnedSplit.apply(qkv_BNTD, turn.cos_TD, turn.sin_TD, self.heads)  # type: ignore[no-untyped-call]
            return q_BHTD, k_BGTD, v_BGTD
        return _plain_split(qkv_BNTD, turn, self.heads)

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        if parameter is self.query_value_bias:
            parameter.zero_()
        else:
            self.score_layer.draw(name, parameter, generator)


class WindowAttention(SelfAttention):
    """Self-attention to the last `span` tokens, with a cache of only those; bidirectional: `span` tokens around the current one.
    Positions must be relative, or act on embeddings, q and k."""

    kind = "window"
    label = "window attention"
    about = "Every token weighs the last tokens (Beltagy et al. 2020)."
    local = True

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        assert isinstance(config.attention, WindowedConfig)
        self.span = config.attention.span or BASED_SPAN
        self.window = mask.around(self.span) if config.bidirectional else mask.window(self.span)

    def start(self) -> LayerState:
        return RecentKeyValue(self.span)

    def narrowed(self, allowed: mask.Mask) -> mask.Mask:
        return self.window if allowed in (mask.CAUSAL, mask.FULL) else allowed & self.window


def normalized(x_BHTD: Tensor, norm: nn.Module | None) -> Tensor:
    """In the type of x: under autocast a norm gives float32, but q and k must have the type of v. A norm that is wider than a
    head is one over all heads together."""
    if norm is None:
        return x_BHTD
    width: Any = norm.normalized_shape
    if width == x_BHTD.shape[-1:]:
        y_BHTD: Tensor = norm(x_BHTD).to(x_BHTD.dtype)
        return y_BHTD
    x_BTHD = x_BHTD.transpose(1, 2)
    y_BTn: Tensor = norm(x_BTHD.flatten(2)).to(x_BHTD.dtype)
    return y_BTn.view(x_BTHD.shape).transpose(1, 2)


def register(module: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give `module` a parameter for each name."""
    for name, shape in shapes.items():
        module.register_parameter(name, nn.Parameter(torch.empty(shape)))


def _plain_split(qkv_BNTD: Tensor, turn: RotaryTurn | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    groups = (qkv_BNTD.shape[1] - heads) // 2
    qk_BNTD, v_BGTD = qkv_BNTD.split_with_sizes((heads + groups, groups), dim=1)
    if turn is not None:
        qk_BNTD = rotate(qk_BNTD, turn)
    q_BHTD, k_BGTD = qk_BNTD.split_with_sizes((heads, groups), dim=1)
    return q_BHTD, k_BGTD, v_BGTD


class _TurnedSplit(torch.autograd.Function):
    """The derivative of a rotation is the inverse rotation. The gradients of q, k and v are written into one tensor, which the
    gradient of the projection reads."""

    @staticmethod
    def forward(ctx: Any, qkv_BNTD: Tensor, cos_TD: Tensor, sin_TD: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cos_TD, sin_TD)
        return _plain_split(qkv_BNTD, RotaryTurn(cos_TD, sin_TD), heads)

    @staticmethod
    def backward(ctx: Any, *dqkv: Tensor) -> tuple[Tensor | None, ...]:
        back = RotaryTurn(*ctx.saved_tensors).back()
        dq_BHTD, dk_BGTD, dv_BGTD = dqkv
        if torch.is_grad_enabled():  # create_graph: only operations that autograd can follow
            return torch.cat((rotate(dq_BHTD, back), rotate(dk_BGTD, back), dv_BGTD), dim=1), None, None, None
        (B, H, T, D), G = dq_BHTD.shape, dk_BGTD.shape[1]
        dqkv_BNTD = dq_BHTD.new_empty(B, T, H + 2 * G, D).transpose(1, 2)
        rotate(dq_BHTD, back, out=dqkv_BNTD[:, :H])
        rotate(dk_BGTD, back, out=dqkv_BNTD[:, H : H + G])
        dqkv_BNTD[:, H + G :].copy_(dv_BGTD)
        return dqkv_BNTD, None, None, None
