"""Cross-attention: q from one sequence, k and v from another, the source (Vaswani et al. 2017, §3.2.3).

Letters as in self_attention.py; S length of the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from firth.layers.attention import mask
from firth.layers.attention.score import Dot, ScoreKind
from firth.layers.hook_free import Direct, Linear
from firth.layers.kernels.cpu import source_attention
from firth.layers.self_attention import Attend, Biases, HeadNorm, normalised, register
from firth.layers.state import roomy


@dataclass(frozen=True, eq=False)
class Source:
    """Keys and values of a source in one layer, computed once; row b has length_B[b] of them. One row may serve several adjacent
    rows of the decoder: the hypotheses of a beam."""

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

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        bias: Biases,
        kind: ScoreKind = "scaled_dot",
        *,
        head_width: int | None = None,
        qk_norm: HeadNorm | None = None,
    ) -> None:
        super().__init__()
        self.head_width = head_width or width // heads
        self.query = Linear(width, heads * self.head_width, bias=bool(bias))
        self.kv = Linear(width, 2 * kv_heads * self.head_width, bias=bool(bias))
        self.out = Linear(heads * self.head_width, width, bias=bias is True)
        self.query_norm = None if qk_norm is None else qk_norm.over(self.head_width)
        self.key_norm = None if qk_norm is None else qk_norm.over(self.head_width)
        self.attend = Attend(heads, self.head_width, kind, reduced=True)
        self.score_layer = self.attend.score_layer
        register(self, self.score_layer.layer_parameters())

    def remember(self, y_BSd: Tensor, length_B: Tensor) -> Source:
        k_BGSD, v_BGSD = self._heads(self.kv(y_BSd)).chunk(2, dim=1)
        k_BGSD = normalised(k_BGSD, self.key_norm)
        if self.score_layer.reduces:
            k_BGSD = self.score_layer.reduce_key(k_BGSD, self)
        return Source(k_BGSD, v_BGSD, length_B)

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
        q_BHTD = normalised(self._heads(self.query(x_BTd)), self.query_norm)
        if self.score_layer.reduces:
            q_BHTD = self.score_layer.reduce_query(q_BHTD, self)
        o_BHTD = self.attend(q_BHTD, source.k_BGSD, source.v_BGSD, mask.lengths(source.length_B), None, 0)
        o_BTd: Tensor = self.out(o_BHTD.transpose(1, 2).flatten(2))
        return o_BTd.view(B, T, d)

    def _plain(self) -> bool:
        """Whether source_attention.py may compute this. A hook on `attend` has to see its arguments."""
        attend = self.attend
        if self.query_norm is not None or self.score_layer.reduces or attend.cap is not None or attend._forward_hooks:
            return False
        return type(attend.score_layer.score(attend)) is Dot

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        self.score_layer.draw(name, parameter, generator)

    def _heads(self, x_BTn: Tensor) -> Tensor:
        B, T, _ = x_BTn.shape
        return x_BTn.view(B, T, -1, self.head_width).transpose(1, 2)
