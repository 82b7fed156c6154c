"""The Transformer block: the residual equation, twice, or once for both layers. Letters: B batch, T time, d width."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.block_config import BlockConfig
from firth.layers.cross_attention import CrossAttention, Source
from firth.layers.feedforward import FeedForward
from firth.layers.hook_free import Direct
from firth.layers.kernels.cpu import row_block
from firth.layers.kernels.triton import one_row
from firth.layers.known import unknown_setting
from firth.layers.position import LayerPosition
from firth.layers.state import FixedKeyValue, LayerState
from firth.layers.token_mixer import token_mixer


class Block(Direct):
    """pre:       x ← x + A(N(x)), x ← x + F(N(x))      (Xiong et al. 2020)
    post:      x ← N(x + A(x)), x ← N(x + F(x))      (as published in 2017)
    sandwich:  x ← x + N'(A(N(x))), x ← x + N'(F(N(x)))   (Ding et al. 2021, §3.2)
    after:     x ← x + N'(A(x)), x ← x + N'(F(x))    (Liu et al. 2022; OLMo et al. 2024)
    parallel:  x ← x + A(N(x)) + F(N(x))             with one norm (Wang and Komatsuzaki 2021; Chowdhery et al. 2022, §2),
                                                     or with two different ones (Black et al. 2022, §2.1).

    With `cross`, attention to a source stands between the two, in the same form; a parallel block has none."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config, self.dropout = config, config.dropout
        self.placement, self.parallel_residual = config.norm.placement, config.feedforward.parallel
        self.why_not_one_row, self.why_not_row_block = (
            unknown_setting(config, one_row.KNOWS),
            unknown_setting(config, row_block.KNOWS),
        )
        self.attention = token_mixer(config)
        self.feedforward = FeedForward(config)
        before, around, cross = self.placement != "after", self.placement in ("sandwich", "after"), config.cross
        self.attention_norm = config.make_norm() if before else nn.Identity()
        self.feedforward_norm = config.make_norm() if before and self.parallel_residual is not True else nn.Identity()
        self.attention_post_norm = config.make_norm() if around else None
        self.feedforward_post_norm = config.make_norm() if around else None
        self.cross_post_norm = config.make_norm() if around and cross else None
        self.cross = CrossAttention(config) if cross else None
        self.cross_norm = config.make_norm() if cross and before else nn.Identity()

    def forward(
        self,
        x_BTd: Tensor,
        allowed: mask.Mask,
        position: LayerPosition = None,
        past: LayerState | None = None,
        source: Source | None = None,
    ) -> tuple[Tensor, LayerState | None]:
        if (
            self.why_not_one_row is None
            and isinstance(past, FixedKeyValue)
            and one_row.why_not(self, x_BTd, position, past) is None
        ):
            return one_row.run(self, x_BTd, allowed, position, past)
        alone = self.why_not_row_block is None and past is not None and x_BTd.is_cpu and x_BTd.shape[0] * x_BTd.shape[1] == 1
        if alone and (computed := row_block.run(self, x_BTd, allowed, position, past)) is not None:
            return computed
        match self.placement:
            case "pre" if self.parallel_residual:
                n_BTd = self.attention_norm(x_BTd)
                a_BTd, past = self.attention(n_BTd, allowed, position, past)
                if self.parallel_residual == "two_norms":
                    n_BTd = self.feedforward_norm(x_BTd)
                x_BTd = x_BTd + self._drop(a_BTd) + self._drop(self.feedforward(n_BTd))
            case "pre" | "sandwich" | "after":
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
