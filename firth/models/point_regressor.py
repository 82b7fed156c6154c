"""In-context regression: a language model over points instead of tokens. Letters: B batch, E points, D dimensions, T
time, d width."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.cross_entropy import at_least_float32
from firth.models.config import LanguageConfig
from firth.models.language import language_model
from firth.models.network import Network


class PointRegressor(Network):
    """ŷ_k = √D · (a·h_k + b), h_k the hidden state of a language model over W[x_1, 0], W[0, y_1 / √D], …, W[x_k, 0]  (Garg et
    al. 2022).

    An x and its y are two tokens; ŷ_k is predicted at x_k, and y_k follows. With x and w of variance 1, y has variance
    D: divided by √D, all inputs and outputs are of order 1.
    """

    carries = False
    vocab = 2  # two kinds of token: x and y
    embedding_std = 1.0  # of learned positions: as large as the inputs they are added to
    embedding_setting = "model.width"

    def __init__(self, config: LanguageConfig, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.decoder = language_model(config, self.vocab)
        width, inputs = self.decoder.output_layer()[0].shape[1], self.decoder.embedding.embedding_dim
        for part in ("output", "output_bias"):  # unused weights would be saved for nothing
            if hasattr(self.decoder, part):
                setattr(self.decoder, part, None)
        setattr(self.decoder, "embedding", nn.Linear(dimensions + 1, inputs))  # noqa: B010 (mypy expects one of tokens)
        self.output = nn.Linear(width, 1)

    @property
    def context(self) -> int | None:  # type: ignore[override]
        return self.decoder.context

    @property
    def embedding(self) -> nn.Embedding:  # type: ignore[override]
        raise ConfigError("this model reads numbers, which have no embedding. Remove model.embedding.vectors.")

    def forward(self, x_BED: Tensor, y_BE: Tensor) -> Tensor:
        """ŷ_BE, each from the points before it."""
        h_BTd, _ = self.decoder.hidden(self.tokens(x_BED, y_BE))
        y_BE1: Tensor = self.output(h_BTd[:, ::2])
        return at_least_float32(y_BE1).squeeze(-1) * math.sqrt(self.dimensions)

    def tokens(self, x_BED: Tensor, y_BE: Tensor) -> Tensor:
        """[x_1, 0], [0, y_1 / √D], …, [x_E, 0]: nothing is predicted after the last y."""
        x_BEn = F.pad(x_BED, (0, 1))
        y_BEn = F.pad(y_BE.unsqueeze(-1) / math.sqrt(self.dimensions), (self.dimensions, 0))
        return torch.stack((x_BEn, y_BEn), dim=2).flatten(1, 2)[:, :-1].to(self.output.weight.dtype)


def point_regressor(config: LanguageConfig, dimensions: int) -> PointRegressor:
    """The module, with weights not yet drawn; see models/initialise.py."""
    return PointRegressor(config, dimensions)
