"""−log p(y_t | y_<t, x). Letters: B batch, S source, T target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firth.errors import ConfigError
from firth.layers.cross_entropy import cross_entropy
from firth.models.seq2seq import Seq2Seq


@dataclass(frozen=True)
class TranslationConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["translation"] = "translation"
    smoothing: float = 0.0  # share of each target that is spread over the whole vocabulary
    rouge: bool = False  # the targets are summaries: measured by ROUGE, too

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"objective.smoothing is {self.smoothing}; expected 0 ≤ smoothing < 1")


def translation(
    model: Seq2Seq,
    source_BS: Tensor,
    source_length_B: Tensor,
    input_BT: Tensor,
    target_BT: Tensor,
    target_length_B: Tensor,
    state: None = None,
    smoothing: float = 0.0,
) -> tuple[Tensor, None]:
    """Mean negative log-likelihood in nats per token of the targets, padding left out. The softmax is in float32."""
    x_BTd = model.teach(input_BT, model.encode(source_BS, source_length_B))
    return cross_entropy(x_BTd, *model.output_layer(), target_BT, padded=True, smoothing=smoothing), None
