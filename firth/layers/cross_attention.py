"""Cross-attention: q from one sequence, k and v from another, the source (Vaswani et al. 2017, §3.2.3).

Letters as in self_attention.py; S length of the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.block_config import BlockConfig
from firth.layers.hook_free import Direct, Linear
from firth.layers.kernels.cpu import source_attention
from firth.layers.known import unknown_setting
from firth.layers.self_attention import Attend, normalized, register
from firth.layers.state import roomy


@dataclass(frozen=True, eq=False)
class Source:
    """Keys and values of a source in one layer, or of the memory of a recurrent decoder, computed once; row b has length_B[b] of
    them. One row may serve several adjacent rows of the decoder: the hypotheses of a beam."""

    k_BGSD: Tensor
    v_BGSD: Tensor
    length_B: Tensor

    def select(self, rows: Tensor) -> Source:
        return Source(self.k_BGSD[rows], self.v_BGSD[rows], self.length_B[rows])

    def fixed(self) -> Source:
        return Source(roomy(self.k_BGSD), roomy(self.v_BGSD), self.length_B)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.k_BGSD, self.v_BGSD, self.length_B

    def of(self, tensors: Iterable[Tensor]) -> Source:
        return Source(*tensors)


class CrossAttention(Direct):
    """q = x W^Q, k = y W^K, v = y W^V, o = Concat(attend(q, k, v)) W^O. No positions: those of x and y are not comparable."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        attention, width, self.head_width = config.attention, config.width, config.head_width
        self.query = Linear(width, attention.heads * self.head_width, bias=bool(config.bias))
        keys = attention.groups * self.head_width
        self.kv = Linear(width, 2 * keys, bias=config.key_biased)
        self.value_bias = nn.Parameter(torch.empty(keys)) if config.bias and not config.key_biased else None
        self.out = Linear(attention.heads * self.head_width, width, bias=config.biased)
        self.query_norm, self.key_norm = config.head_norm(attention.heads), config.head_norm(attention.groups)
        self.attend = Attend(attention, self.head_width)
        self.score_layer = self.attend.score_layer
        self.why_not_plain = unknown_setting(config.attention, source_attention.KNOWS)
        register(self, self.score_layer.layer_parameters())

    def remember(self, y_BSd: Tensor, length_B: Tensor) -> Source:
        k_BGSD, v_BGSD = self._heads(self.project_source(y_BSd)).chunk(2, dim=1)
        k_BGSD = normalized(k_BGSD, self.key_norm)
        if self.score_layer.reduces:
            k_BGSD = self.score_layer.reduce_key(k_BGSD, self)
        return Source(k_BGSD, v_BGSD, length_B)

    def project_source(self, y_BSd: Tensor) -> Tensor:
        """k and v of all heads, side by side."""
        kv_BSn: Tensor = self.kv(y_BSd)
        if self.value_bias is None:
            return kv_BSn
        bias_n = self.kv_bias()
        assert bias_n is not None
        return kv_BSn + bias_n.to(kv_BSn.dtype)

    def kv_bias(self) -> Tensor | None:
        """The biases of k and v; zeros for keys without any."""
        own_m = self.value_bias
        return self.kv.bias if own_m is None else torch.cat((torch.zeros_like(own_m), own_m))

    def forward(self, x_BTd: Tensor, source: Source) -> Tensor:
        B, T, d = x_BTd.shape
        if T == 1 and self._plain() and source_attention.why_not(x_BTd, source.k_BGSD, source.v_BGSD) is None:
            q_BTn, scale = self.query(x_BTd), self.attend.scale
            o_BTn = source_attention.attend(q_BTn, source.k_BGSD, source.v_BGSD, source.length_B, scale)
            in_one_call_BTd: Tensor = self.out(o_BTn)
            return in_one_call_BTd
        texts = source.length_B.shape[0]  # not len(): while a model is exported, sizes are symbols
        if torch.compiler.is_exporting():
            texts = B
        x_BTd = x_BTd.reshape(texts, B // max(1, texts) * T, d)  # rows that share a source are more queries of one row
        q_BHTD = normalized(self._heads(self.query(x_BTd)), self.query_norm)
        if self.score_layer.reduces:
            q_BHTD = self.score_layer.reduce_query(q_BHTD, self)
        o_BHTD = self.attend(q_BHTD, source.k_BGSD, source.v_BGSD, mask.lengths(source.length_B), None, 0)
        o_BTd: Tensor = self.out(o_BHTD.transpose(1, 2).flatten(2))
        return o_BTd.view(B, T, d)

    def _plain(self) -> bool:
        """True if source_attention.py may compute this. A hook on `attend` has to see its arguments."""
        return self.why_not_plain is None and not self.attend._forward_hooks

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        if parameter is self.value_bias:
            parameter.zero_()
        else:
            self.score_layer.draw(name, parameter, generator)

    def _heads(self, x_BTn: Tensor) -> Tensor:
        B, T, _ = x_BTn.shape
        return x_BTn.view(B, T, -1, self.head_width).transpose(1, 2)
