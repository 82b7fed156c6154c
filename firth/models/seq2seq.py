"""Sequence to sequence: p(y | x) = Π p(y_t | y_<t, x), x a text.

The interface is `encode(source_BS, length_B) → memory`, then `teacher_forced` or `start` and `step` of the decoder that attends
to it (conditional.py). Source and target end with <eos>; padding after the source's length has no effect.

Letters: B batch, S source, T target, V vocabulary, e embedding width, m width of the memory, d width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.cross_attention import Source
from firth.layers.recurrent import Recurrent
from firth.layers.state import RecurrentState
from firth.models.conditional import ConditionalDecoder, Encoded, RecurrentDecoder, TransformerDecoder
from firth.models.decoder import vocabulary_output
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig
from firth.models.stack import Stack


class Seq2Seq(ConditionalDecoder):
    """A decoder whose memory is a text."""

    source_vocab: int
    own_embedding: nn.Embedding | None  # of the source; None if it shares the target's

    @property
    def source_embedding(self) -> nn.Embedding:
        return self.embedding if self.own_embedding is None else self.own_embedding

    @abstractmethod
    def encode(self, source_BS: Tensor, length_B: Tensor) -> Any:
        """Everything the decoder will know about the source."""

    def forward(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """logits_BTV after each token of the target so far."""
        return self.readout(self.teacher_forced(token_BT, self.encode(source_BS, length_B)))


class RecurrentSeq2Seq(RecurrentDecoder, Seq2Seq):
    """A recurrent encoder and a recurrent decoder. With attention, h_0 = tanh(W_s ←h_1); the memory is all of the encoder's
    outputs (Bahdanau et al. 2015). Without, the decoder starts from the encoder's last state (Sutskever et al. 2014)."""

    config: RecurrentSeq2SeqConfig

    def __init__(self, config: RecurrentSeq2SeqConfig, source_vocab: int, vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.vocab = config, source_vocab, vocab
        inputs, width = config.embedding_width, config.width
        self.embedding_std = inputs**-0.5 if config.tied else 1.0
        self.embedding = nn.Embedding(vocab, inputs)
        self.own_embedding = None if config.shared else nn.Embedding(source_vocab, inputs)
        self.encoder = Recurrent(
            config.kind, inputs, width, config.depth, dropout=config.dropout, bidirectional=config.encoder_bidirectional
        )  # a GRU with torch's reset: only the decoder's was published with the other
        self.first = nn.Linear(width, config.depth * width) if config.attention != "none" else None
        self._add_decoder(width * self.encoder.directions)

    def encode(self, source_BS: Tensor, length_B: Tensor) -> Encoded:
        if self.config.reverse:
            source_BS = reversed_rows(source_BS, length_B)
        x_BSe = self._drop(self.source_embedding(source_BS))
        memory_BSm, last = self.encoder(x_BSe, length_B=length_B)
        last_Bm = last.h_LBd[-self.encoder.directions :].transpose(0, 1).flatten(1)
        return Encoded(memory_BSm, length_B, self._first(last), last_Bm)

    def alignment(self, source_BS: Tensor, length_B: Tensor, token_BT: Tensor) -> Tensor:
        """α_BTS: the attention weights of each step, computed before it predicts."""
        return self.alignment_to(self.encode(source_BS, length_B), token_BT)

    def _first(self, last: RecurrentState) -> RecurrentState:
        if self.first is None:
            return last
        h_LBd = torch.stack(torch.tanh(self.first(last.h_LBd[-1])).chunk(self.config.depth, dim=-1))
        return RecurrentState(h_LBd, *(torch.zeros_like(h_LBd) for _ in last.parts[1:]))


class TransformerSeq2Seq(TransformerDecoder, Seq2Seq):
    """A bidirectional encoder, and a causal decoder that also attends to the encoder's outputs (Vaswani et al. 2017)."""

    config: TransformerSeq2SeqConfig

    def __init__(self, config: TransformerSeq2SeqConfig, source_vocab: int, vocab: int) -> None:
        super().__init__()
        self.config, self.source_vocab, self.vocab, self.context = config, source_vocab, vocab, config.context
        self.embedding_std = config.width**-0.5
        self.embedding = nn.Embedding(vocab, config.width)
        self.own_embedding = None if config.shared else nn.Embedding(source_vocab, config.width)
        self.encoder = Stack(config, config.encoder_depth or config.depth, bidirectional=True)
        self.decoder = Stack(config, config.depth, cross=True)
        self.output, self.output_bias = vocabulary_output(config, vocab)

    def encode(self, source_BS: Tensor, length_B: Tensor) -> tuple[Source, ...]:
        """Keys and values for each layer of the decoder."""
        x_BSd, _ = self.encoder.run_blocks(
            self.encoder.embed_positions(self.source_embedding(source_BS), 0), mask.lengths(length_B)
        )
        return self.remember(x_BSd, length_B)


def seq2seq(config: Seq2SeqConfig, source_vocab: int, vocab: int) -> Seq2Seq:
    """The module; models/initialise.py draws its initial weights."""
    match config:
        case RecurrentSeq2SeqConfig():
            return RecurrentSeq2Seq(config, source_vocab, vocab)
        case TransformerSeq2SeqConfig():
            return TransformerSeq2Seq(config, source_vocab, vocab)
        case PrefixConfig():
            from firth.models.prefix import PrefixDecoder  # prefix.py imports this module

            return PrefixDecoder(config, vocab)


def reversed_rows(token_BS: Tensor, length_B: Tensor) -> Tensor:
    """Reverse the first length_B[b] tokens of each row and leave the padding (Sutskever et al. 2014, §3.3)."""
    place_S = torch.arange(token_BS.shape[1], device=token_BS.device)
    back_BS = length_B[:, None] - 1 - place_S
    return token_BS.gather(1, torch.where(back_BS >= 0, back_BS, place_S))
