"""How large a configuration is, without allocating it."""

from __future__ import annotations

import torch

from firth.models.config import ModelConfig
from firth.models.network import network


def parameters(config: ModelConfig, vocab: int, classes: int = 2) -> int:
    """Number of trained weights; `classes` of a classifier."""
    with torch.device("meta"):
        model = network(config, vocab, classes)
    return sum(parameter.numel() for parameter in model.parameters())
