"""The number of parameters of a configuration, without allocating it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from firth.models.config import LanguageConfig
from firth.models.language import language_model


def size_of(build: Callable[[], nn.Module]) -> int:
    """The parameters of the module that `build` constructs, on the meta device."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build().parameters())


def parameters(config: LanguageConfig, vocab: int) -> int:
    """The parameters of a language model."""
    return size_of(lambda: language_model(config, vocab))
