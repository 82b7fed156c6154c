"""A new task in each prompt, told by its examples: −log p(answer | what stands before it), and (ŷ − y)² / D.

Letters: B prompts, T time, E points, D dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firth.layers.cross_entropy import cross_entropy
from firth.models.language import LanguageModel
from firth.models.point_reader import PointReader


@dataclass(frozen=True)
class InContextConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["in-context"] = "in-context"


@dataclass(frozen=True)
class InContextRegressionConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["in-context-regression"] = "in-context-regression"


def in_context(model: LanguageModel, token_BT: Tensor, target_BT: Tensor, state: None = None) -> tuple[Tensor, None]:
    """Mean negative log-likelihood in nats per character of the answers; what is asked is drawn, and cannot be learned."""
    x_BTd, _ = model.hidden(token_BT)
    return cross_entropy(x_BTd, *model.output_layer(), target_BT, padded=True), None


def in_context_regression(model: PointReader, x_BED: Tensor, y_BE: Tensor, state: None = None) -> tuple[Tensor, None]:
    """The mean of (ŷ − y)² / D, so that who always says 0 has 1, whatever D is (Garg et al. 2022, §3)."""
    return (model(x_BED, y_BE) - y_BE).square().mean() / model.dimensions, None
