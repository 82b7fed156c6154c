"""The number of parameters of a configuration, without allocating it."""

from __future__ import annotations

import torch

from firth.models.network import USUAL, ModelConfig, network


def parameters(
    config: ModelConfig,
    vocab: int,
    classes: int = 2,
    source_vocab: int | None = None,
    objective: str | None = None,
    dimensions: int = 1,
) -> int:
    """Number of trained weights; `classes` is for classifiers, `source_vocab` for translation (default: `vocab`), `dimensions`
    for regression."""
    with torch.device("meta"):
        model = network(
            config,
            vocab,
            objective or USUAL[config.family],
            classes=classes,
            source_vocab=vocab if source_vocab is None else source_vocab,
            dimensions=dimensions,
        )
    return sum(parameter.numel() for parameter in model.parameters())
