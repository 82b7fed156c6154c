"""Encoders: a text in, a vector for each token out; and a classifier on top: p(class | text) = softmax(W pool(x) + b).

Letters: B batch, T time, V vocabulary, d width, C classes. Rows are padded to the longest; of row b, the first `length_B[b]`
tokens are read and what stands behind them changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.models.config import AverageConfig, EncoderConfig


class Encoder(nn.Module, ABC):
    """x_BTd = encoder(token_BT, length_B)."""

    width: int
    context: int | None  # the longest text it reads; None: any
    embedding: nn.Embedding
    embedding_std: float  # of the first embedding
    embedding_setting: str  # what a recipe sets to change its width

    @abstractmethod
    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor: ...


class WordEncoder(Encoder):
    """Each token its embedding, whatever stands around it."""

    context = None
    embedding_setting = "model.width"
    embedding_std = 0.1  # small beside what training adds, so that words seen once or twice say little

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab, width)

    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor:
        x_BTd: Tensor = self.embedding(token_BT)
        return x_BTd


class Classifier(nn.Module):
    """logits_BC = W dropout(mean over the tokens of x) + b."""

    carries = False

    def __init__(self, encoder: Encoder, vocab: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.vocab, self.classes, self.dropout = vocab, classes, dropout
        self.encoder = encoder
        self.output = nn.Linear(encoder.width, classes)

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

    def forward(self, token_BT: Tensor, length_B: Tensor) -> Tensor:
        x_Bd = mean(self.encoder(token_BT, length_B), length_B)
        logits_BC: Tensor = self.output(F.dropout(x_Bd, self.dropout, self.training) if self.dropout else x_Bd)
        return logits_BC


def mean(x_BTd: Tensor, length_B: Tensor) -> Tensor:
    """1/n_b Σ_{t < n_b} x_bt; zero where a row has no tokens."""
    read_BT = torch.arange(x_BTd.shape[1], device=x_BTd.device) < length_B[:, None]
    share_BT = (read_BT / length_B.clamp(min=1)[:, None]).to(x_BTd.dtype)
    return torch.einsum("bt,btd->bd", share_BT, x_BTd)


def classifier(config: EncoderConfig, vocab: int, classes: int) -> Classifier:
    """The module, with weights not yet drawn; see models/initialise.py."""
    match config:
        case AverageConfig():
            return Classifier(WordEncoder(vocab, config.width), vocab, classes, config.dropout)
