"""What is read from an encoder's vectors: the class of the text.

Each holds its `encoder`, so that what one learned is the beginning of another. Letters: B batch, T time, d width, C classes.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.pool import Pool, PoolKind
from firth.models.encoder import Encoder, encoder
from firth.models.encoder_config import AverageConfig, EncoderConfig


class Readout(nn.Module):
    """An encoder and what stands on it."""

    carries = False

    def __init__(self, encoder: Encoder, vocab: int) -> None:
        super().__init__()
        self.encoder, self.vocab = encoder, vocab

    @property
    def context(self) -> int | None:
        return self.encoder.context

    @property
    def embedding(self) -> nn.Embedding:
        return self.encoder.embedding

    @property
    def embedding_std(self) -> float:
        return self.encoder.embedding_std

    @property
    def embedding_setting(self) -> str:
        return self.encoder.embedding_setting


class Classifier(Readout):
    """p(class | text) = softmax(W dropout(pool(x)) + b)."""

    def __init__(self, encoder: Encoder, vocab: int, classes: int, dropout: float, pool: PoolKind = "mean") -> None:
        super().__init__(encoder, vocab)
        self.classes, self.dropout = classes, dropout
        self.pool = Pool(pool, encoder.width)
        self.output = nn.Linear(encoder.width, classes)

    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor:
        x_Bd = self.pool(self.encoder(token_BT, length_B), length_B)
        logits_BC: Tensor = self.output(F.dropout(x_Bd, self.dropout, self.training) if self.dropout else x_Bd)
        return logits_BC


def classifier(config: EncoderConfig, vocab: int, classes: int) -> Classifier:
    """The module, with weights not yet drawn; see models/initialise.py."""
    pool = "mean" if isinstance(config, AverageConfig) else config.pool
    return Classifier(encoder(config, vocab), vocab, classes, config.dropout, pool)
