"""How large a configuration is, without allocating it."""

from __future__ import annotations

import torch

from firth.models.config import ModelConfig
from firth.models.language import language_model


def parameters(config: ModelConfig, vocab: int) -> int:
    """Number of trained weights."""
    with torch.device("meta"):
        model = language_model(config, vocab)
    return sum(parameter.numel() for parameter in model.parameters())
