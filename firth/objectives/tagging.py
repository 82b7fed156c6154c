"""−log p(tag of a word | sentence). Letters: B batch, T pieces, W words, K symbols of a spelling, C tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError
from firth.models.tagger import Tagger


@dataclass(frozen=True)
class TaggingConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["tagging"] = "tagging"
    unknown: float = 0.0  # share of the words that are read as <unk> in training; for tokenizers that have one

    def __post_init__(self) -> None:
        if not 0 <= self.unknown < 1:
            raise ConfigError(f"objective.unknown is {self.unknown}; expected 0 ≤ unknown < 1")


def tagging(
    model: Tagger,
    token_BT: Tensor,
    length_B: Tensor,
    first_BW: Tensor,
    symbol_BWK: Tensor,
    label_BW: Tensor,
    state: None = None,
) -> tuple[Tensor, None]:
    """Mean negative log-likelihood in nats per word, padding left out. The softmax is in float32."""
    logits_BWC = model(token_BT, length_B, first_BW, symbol_BWK)
    return F.cross_entropy(logits_BWC.float().flatten(0, 1), label_BW.flatten(), ignore_index=-1), None
