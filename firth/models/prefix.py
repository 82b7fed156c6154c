"""Prefix language model: one Transformer decoder for source and target, with a prefix mask (Raffel et al. 2020, §3.2.1).

The source is the beginning of the text, and attention within it is bidirectional. The target continues it; each of its tokens
sees the source and the target before it:

    allowed(q, k) = k ≤ q or k < n        n tokens of source, position n + t for token t of the target

Sources of a batch differ in length, so they are right-aligned: all targets begin in the same column, and the padding before a
row is masked. A token's position is counted from the beginning of its source.

Letters: B batch, S source, T target, N = S + T, V vocabulary, d width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.attention.key_ranges import Span, Whole
from firth.layers.attention.mask import Mask
from firth.layers.state import AttentionState
from firth.models.conditional import ConditionalDecoder
from firth.models.decoder import vocabulary_output
from firth.models.seq2seq_config import PrefixConfig
from firth.models.stack import Stack


class RightAligned(NamedTuple):
    """Right-aligned sources of a batch."""

    token_BS: Tensor
    before_B: Tensor  # padding before each


@dataclass(frozen=True, eq=False)
class Begins(Mask):
    """Row b begins at `before_B[b]`; everything before is padding."""

    before_B: Tensor

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k >= self.before_B.to(b.device)[b]

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        return None if b is None else Span(self.before_B.to(b.device)[b], K)

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.before_B,)


@dataclass(frozen=True, eq=False)
class Continued:
    """The source and the target so far."""

    own: AttentionState
    before_B: Tensor
    source: int  # number of columns of the sources

    def select(self, rows: Tensor) -> Continued:
        return Continued(self.own.select(rows), self.before_B[rows], self.source)

    def fixed(self, capacity: int) -> Continued:
        """With room for `capacity` tokens of target."""
        return Continued(self.own.fixed(self.source + capacity), self.before_B, self.source)

    @property
    def constants(self) -> tuple[int, ...]:
        return (self.source,)

    def tensors(self) -> tuple[Tensor, ...]:
        return *self.own.tensors(), self.before_B

    def of(self, tensors: Iterable[Tensor]) -> Continued:
        *own, before_B = tensors
        return Continued(self.own.of(own), before_B, self.source)


class PrefixDecoder(ConditionalDecoder):
    """Source and target share all parameters. Training is one pass over both; for generation, the source is encoded once and
    its keys and values are cached together with those of the target."""

    embedding_setting = "model.width"
    reads_text = True

    def __init__(self, config: PrefixConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab, self.context, self.own_embedding = config, vocab, config.context, None
        self.embedding_std = config.width**-0.5
        self.embedding = nn.Embedding(vocab, config.width)
        self.stack = Stack(config, config.depth, bidirectional=True)  # within the source a query sees later keys
        self.output, self.output_bias = vocabulary_output(config, vocab)

    @property
    def readout_norm(self) -> nn.Module | None:
        return self.stack.norm if self.output is None else None

    def encode(self, source_BS: Tensor, length_B: Tensor) -> RightAligned:  # type: ignore[override]
        """Nothing is computed yet: the decoder itself encodes the source, in `start`."""
        S = source_BS.shape[1]
        before_B = S - length_B
        place_BS = torch.arange(S, device=source_BS.device) - before_B[:, None]
        return RightAligned(source_BS.gather(1, place_BS.clamp(min=0)), before_B)

    def start(self, memory: RightAligned) -> Continued:
        S = memory.token_BS.shape[1]
        x_BSd = self.stack.embed_positions(self.embedding(memory.token_BS), 0, memory.before_B)
        empty = AttentionState.empty(self.config.depth)
        _, own = self.stack.run_blocks(x_BSd, _allowed(memory.before_B, S), empty)
        assert own is not None
        return Continued(own, memory.before_B, S)

    def teacher_forced(self, token_BT: Tensor, memory: RightAligned) -> Tensor:
        S = memory.token_BS.shape[1]
        token_BN = torch.cat((memory.token_BS, token_BT), dim=1)
        x_BNd = self.stack.embed_positions(self.embedding(token_BN), 0, memory.before_B)
        x_BNd, _ = self.stack.run_blocks(x_BNd, _allowed(memory.before_B, S))
        return x_BNd[:, S:].contiguous()

    def hidden(self, token_BT: Tensor, state: Continued) -> tuple[Tensor, Continued]:  # type: ignore[override]
        x_BTd = self.stack.embed_positions(self.embedding(token_BT), state.own.length, state.before_B)
        x_BTd, own = self.stack.run_blocks(x_BTd, _allowed(state.before_B, state.source), state.own)
        assert own is not None
        return x_BTd, Continued(own, state.before_B, state.source)


def _allowed(before_B: Tensor, source: int) -> Mask:
    return mask.prefix(torch.full_like(before_B, source)) & Begins(before_B)
