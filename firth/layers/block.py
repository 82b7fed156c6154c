"""The Transformer block: the residual equation, twice, or once for both layers. Letters: B batch, T time, d width."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.attention.score import ScoreKind
from firth.layers.cross_attention import CrossAttention, Source
from firth.layers.feedforward import Activation, FeedForward
from firth.layers.hook_free import Direct
from firth.layers.kernels.cpu import row_block
from firth.layers.kernels.triton import one_row
from firth.layers.norm import EPS, NormKind, norm
from firth.layers.position import LayerPosition, LayerTables
from firth.layers.self_attention import Biases, HeadNorm
from firth.layers.state import FixedKeyValue, LayerState
from firth.layers.token_mixer import MixerKind, token_mixer

Placement = Literal["pre", "post", "sandwich"]
Parallel = bool | Literal["two_norms"]


class Block(Direct):
    """pre:       x ← x + A(N(x)), x ← x + F(N(x))      (Xiong et al. 2020)
    post:      x ← N(x + A(x)), x ← N(x + F(x))      (as published in 2017)
    sandwich:  x ← x + N'(A(N(x))), x ← x + N'(F(N(x)))   (Ding et al. 2021, §3.2)
    parallel:  x ← x + A(N(x)) + F(N(x))             with one norm (Wang and Komatsuzaki 2021; Chowdhery et al. 2022, §2),
                                                     or with two different ones (Black et al. 2022, §2.1).

    With `cross`, attention to a source stands between the two, in the same form; a parallel block has none."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        hidden: int,
        *,
        activation: Activation,
        norm_kind: NormKind,
        placement: Placement,
        bias: Biases,
        dropout: float,
        norm_eps: float = EPS,
        head_width: int | None = None,  # if not given, width / heads
        qk_norm: bool = False,
        score: ScoreKind = "scaled_dot",
        score_scale: float | None = None,  # instead of the score's own
        score_cap: float | None = None,  # bound of the scores
        tables: LayerTables | None = None,
        position_projections: bool = False,
        cross: bool = False,
        parallel: Parallel = False,  # only with placement "pre"
        attention: MixerKind = "softmax",
        span: int | None = None,  # of a window
        around: bool = False,  # whether the window also reaches to later tokens
        key_width: int | None = None,  # of Taylor features
    ) -> None:
        super().__init__()
        self.placement, self.dropout, self.parallel = placement, dropout, parallel
        of_heads = HeadNorm(norm_kind, bias is True, norm_eps) if qk_norm else None
        self.attention = token_mixer(
            attention,
            width,
            heads,
            kv_heads,
            bias,
            head_width=head_width,
            qk_norm=of_heads,
            score=score,
            score_scale=score_scale,
            score_cap=score_cap,
            tables=tables,
            position_projections=position_projections,
            span=span,
            around=around,
            key_width=key_width,
        )
        self.feedforward = FeedForward(width, hidden, activation, bias is True)
        self.attention_norm = norm(norm_kind, width, bias is True, norm_eps)
        self.feedforward_norm = nn.Identity() if parallel is True else norm(norm_kind, width, bias is True, norm_eps)
        around_layers = placement == "sandwich"
        self.attention_post_norm = norm(norm_kind, width, bias is True, norm_eps) if around_layers else None
        self.feedforward_post_norm = norm(norm_kind, width, bias is True, norm_eps) if around_layers else None
        self.cross_post_norm = norm(norm_kind, width, bias is True, norm_eps) if around_layers and cross else None
        self.cross = None
        if cross:
            self.cross = CrossAttention(width, heads, kv_heads, bias, score, head_width=head_width, qk_norm=of_heads)
        self.cross_norm = norm(norm_kind, width, bias is True, norm_eps) if cross else nn.Identity()

    def forward(
        self,
        x_BTd: Tensor,
        allowed: mask.Mask,
        position: LayerPosition = None,
        past: LayerState | None = None,
        source: Source | None = None,
    ) -> tuple[Tensor, LayerState | None]:
        if isinstance(past, FixedKeyValue) and one_row.why_not(self, x_BTd, position, past) is None:
            return one_row.run(self, x_BTd, allowed, position, past)
        alone = past is not None and x_BTd.is_cpu and x_BTd.shape[0] * x_BTd.shape[1] == 1
        if alone and (found := row_block.run(self, x_BTd, allowed, position, past)) is not None:
            return found
        match self.placement:
            case "pre" if self.parallel:
                n_BTd = self.attention_norm(x_BTd)
                a_BTd, past = self.attention(n_BTd, allowed, position, past)
                if self.parallel == "two_norms":
                    n_BTd = self.feedforward_norm(x_BTd)
                x_BTd = x_BTd + self._drop(a_BTd) + self._drop(self.feedforward(n_BTd))
            case "pre" | "sandwich":
                a_BTd, past = self.attention(self.attention_norm(x_BTd), allowed, position, past)
                x_BTd = x_BTd + self._drop(_after(self.attention_post_norm, a_BTd))
                if self.cross is not None:
                    c_BTd = self.cross(self.cross_norm(x_BTd), source)
                    x_BTd = x_BTd + self._drop(_after(self.cross_post_norm, c_BTd))
                f_BTd = self.feedforward(self.feedforward_norm(x_BTd))
                x_BTd = x_BTd + self._drop(_after(self.feedforward_post_norm, f_BTd))
            case "post":
                a_BTd, past = self.attention(x_BTd, allowed, position, past)
                x_BTd = self.attention_norm(x_BTd + self._drop(a_BTd))
                if self.cross is not None:
                    x_BTd = self.cross_norm(x_BTd + self._drop(self.cross(x_BTd, source)))
                x_BTd = self.feedforward_norm(x_BTd + self._drop(self.feedforward(x_BTd)))
        return x_BTd, past

    def _drop(self, x_BTd: Tensor) -> Tensor:
        return F.dropout(x_BTd, self.dropout) if self.dropout and self.training else x_BTd


def _after(post_norm: nn.Module | None, y_BTd: Tensor) -> Tensor:
    if post_norm is None:
        return y_BTd
    normed_BTd: Tensor = post_norm(y_BTd)
    return normed_BTd
