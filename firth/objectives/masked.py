"""−log p(x_m | x with the chosen places hidden), m among those. Letters: B batch, T time, M masked places, e embedding width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firth.errors import ConfigError
from firth.layers.cross_entropy import cross_entropy
from firth.models.readouts import MaskedLM


@dataclass(frozen=True)
class MaskedConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["masked"] = "masked"
    share: float = 0.15  # of the tokens, to be found again
    whole_words: bool = False  # all pieces of a word are masked, or none

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")


def masked(model: MaskedLM, token_BT: Tensor, place_BM: Tensor, target_BM: Tensor, state: None = None) -> tuple[Tensor, None]:
    """Mean negative log-likelihood in nats per masked token. Only those pass the output layer; its softmax is in float32."""
    x_BMe = model.hidden(token_BT, place_BM=place_BM)
    return cross_entropy(x_BMe, *model.output_layer(), target_BM, padded=True), None
