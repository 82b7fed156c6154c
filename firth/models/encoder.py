"""Encoders: a text in, a vector for each token out. readouts.py makes predictions from these vectors.

Letters: B batch, T time, V vocabulary, d width. Rows are padded to the longest: row b has `length_B[b]` tokens, and the padding
after them has no effect. Without lengths, every row is full.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.attention import mask
from firth.layers.recurrent import Recurrent
from firth.models.encoder_config import AverageConfig, EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.stack import Stack


class Encoder(nn.Module, ABC):
    """x_BTd = encoder(token_BT, length_B, segment_BT). Segments number the parts of a text, such as question and context; an
    encoder without `segments` ignores them, and without segment_BT all tokens belong to the first part."""

    width: int
    context: int | None  # the longest text it accepts; None: any length
    embedding: nn.Embedding
    embedding_std: float  # of the initial embedding
    embedding_setting: str  # the setting that changes its width

    @abstractmethod
    def forward(self, token_BT: Tensor, length_B: Tensor | None = None, segment_BT: Tensor | None = None) -> Tensor: ...


class EmbeddingEncoder(Encoder):
    """An encoder that also accepts embedded tokens: x_BTd = encoder.read(encoder.embedded(token_BT), length_B)."""

    def forward(self, token_BT: Tensor, length_B: Tensor | None = None, segment_BT: Tensor | None = None) -> Tensor:
        return self.read(self.embedded(token_BT, segment_BT), length_B)

    def embedded(self, token_BT: Tensor, segment_BT: Tensor | None = None) -> Tensor:
        x_BTe: Tensor = self.embedding(token_BT)
        return x_BTe

    @abstractmethod
    def read(self, x_BTe: Tensor, length_B: Tensor | None = None) -> Tensor: ...


class WordEncoder(EmbeddingEncoder):
    """Each token's embedding, without context."""

    context = None
    embedding_setting = "model.width"
    embedding_std = 0.1  # small compared with what training adds, so that rare words have little influence

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab, width)

    def read(self, x_BTe: Tensor, length_B: Tensor | None = None) -> Tensor:
        return x_BTe


class RecurrentEncoder(EmbeddingEncoder):
    """Recurrent layers over the embedded tokens; if bidirectional, the outputs of both directions side by side."""

    context = None
    embedding_setting = "model.embedding.width"
    embedding_std = 1.0  # large enough to move a tanh

    def __init__(self, config: RecurrentEncoderConfig, vocab: int) -> None:
        super().__init__()
        inputs = config.embedding_width + config.spelling.beside
        self.dropout = config.dropout
        self.embedding = nn.Embedding(vocab, config.embedding_width)
        self.recurrent = Recurrent(
            config.kind, inputs, config.width, config.depth, dropout=config.dropout, bidirectional=config.bidirectional
        )
        self.width = config.width * self.recurrent.directions

    def read(self, x_BTe: Tensor, length_B: Tensor | None = None) -> Tensor:
        x_BTe = F.dropout(x_BTe, self.dropout, self.training)
        x_BTd: Tensor = self.recurrent(x_BTe, length_B=length_B)[0]
        return x_BTd


class TransformerEncoder(EmbeddingEncoder):
    """A stack of bidirectional blocks (Devlin et al. 2019)."""

    def __init__(self, config: TransformerEncoderConfig, vocab: int) -> None:
        super().__init__()
        self.width, self.context = config.width, config.longest
        inputs = config.embedding_width
        self.embedding_setting = "model.width" if config.embedding.width is None else "model.embedding.width"
        self.embedding_std = inputs**-0.5
        self.embedding = nn.Embedding(vocab, inputs)
        self.segment = nn.Embedding(config.segments, inputs) if config.segments else None
        self.stack = Stack(config, config.depth, bidirectional=True, groups=config.layer_groups)

    def embedded(self, token_BT: Tensor, segment_BT: Tensor | None = None) -> Tensor:
        x_BTd: Tensor = self.embedding(token_BT)
        if self.segment is not None:
            x_BTd = x_BTd + (self.segment.weight[0] if segment_BT is None else self.segment(segment_BT))
        return x_BTd

    def read(self, x_BTe: Tensor, length_B: Tensor | None = None) -> Tensor:
        allowed = mask.FULL if length_B is None else mask.lengths(length_B)
        x_BTd, _ = self.stack.run_blocks(self.stack.embed_positions(x_BTe, 0), allowed)
        return x_BTd


def encoder(config: EncoderConfig, vocab: int) -> EmbeddingEncoder:
    """The module; models/initialise.py draws its initial weights."""
    match config:
        case AverageConfig():
            return WordEncoder(vocab, config.width)
        case RecurrentEncoderConfig():
            return RecurrentEncoder(config, vocab)
        case TransformerEncoderConfig():
            return TransformerEncoder(config, vocab)
