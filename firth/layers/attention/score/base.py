"""A score a(q, k): how well a key matches a query. Softmax turns scores into attention weights.

Letters: B batch, H query heads, G key/value heads, J = H / G, Q queries, K keys, D query width, C key width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.ideas import Idea

Shape = tuple[int, ...]


class Score(ABC):
    """The function of q and k that attend() computes: `reduced` does everything that concerns q or k alone, `between` compares
    the results."""

    @abstractmethod
    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        """a(q, k) for all pairs: B,G,J,Q,K. The keys may also differ by query: B,G,J,Q,K,D."""

    def explained(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        """The same as `between`, in the operations that pictures show."""
        return self.between(q_BGJQD, k_BGJKD)

    def default_scale(self, width: int) -> float:
        return 1.0

    def check(self, H: int, G: int, D: int, C: int) -> None:
        """Raise if queries of width D and keys of width C do not fit."""
        if D != C:
            raise ConfigError(
                f"q has width {D} and k has width {C}; this score needs equal widths. Use score.bilinear(M) for different ones"
            )

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        return self, q_BHQD, k_BGKC

    def of_heads(self, head_H: Tensor) -> Score:
        """The score for some of the query heads, after `reduced`."""
        return self


class ScoreExample(NamedTuple):
    """A parameter that the playground draws: normal, with variance 1 / fan_in."""

    shape: Shape
    fan_in: int = 1


class ScoreLayer(Idea, ABC):
    """A score inside an attention layer of H heads of width D, with its parameters and their initialisation.

    The parameters are registered on the layer itself or on its `Attend`, because checkpoints know them by those names:
    `blocks.0.attention.M_HDD`, `blocks.0.attention.attend.w_HA`. A score that changes q or k alone (`reduces`) does so before
    positions turn them and before keys are cached."""

    reduces: ClassVar[bool] = False
    # Whether attention of a state to a memory of another width projects the query and the keys for this score:
    projects_query: ClassVar[bool] = False
    projects_key: ClassVar[bool] = False

    def __init__(self, heads: int, width: int) -> None:
        self.heads, self.width = heads, width

    @property
    def scale(self) -> float:
        return 1.0

    def layer_parameters(self) -> dict[str, Shape]:
        """Parameters registered on the layer that projects q and k."""
        return {}

    def attend_parameters(self) -> dict[str, Shape]:
        """Parameters registered on the layer's Attend."""
        return {}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        """Draw the initial values of the parameter `name` in place."""
        raise NotImplementedError(f"{type(self).__name__} has no parameter {name}")

    def reduce_query(self, q_BHTD: Tensor, layer: Any) -> Tensor:
        return q_BHTD

    def reduce_key(self, k_BGTD: Tensor, layer: Any) -> Tensor:
        return k_BGTD

    @abstractmethod
    def score(self, attend: Any) -> Score:
        """The Score for the kernels. `attend.reduced` says whether q and k arrive reduced."""

    # For the playground, which calls attend() without a layer:

    @classmethod
    def equation(cls, shift: str = "") -> str:
        """a(q, k) as text, if its operations do not say it best; a position may add `shift` to the reduced key, such as
        " + a_K[k − q]"."""
        return ""

    def examples(self) -> dict[str, ScoreExample]:
        return {name: ScoreExample(shape) for name, shape in (self.layer_parameters() | self.attend_parameters()).items()}

    def of_examples(self, parameters: dict[str, Tensor]) -> Score:
        on = SimpleNamespace(**parameters, reduced=self.reduces)
        on.attend = on
        return LayerScore(self, on) if self.reduces else self.score(on)


@dataclass(frozen=True, eq=False)
class LayerScore(Score):
    """The score of a layer that changes q or k alone."""

    layer: ScoreLayer
    parameters: Any

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        q_BHQD, k_BGKC = self.layer.reduce_query(q_BHQD, self.parameters), self.layer.reduce_key(k_BGKC, self.parameters)
        return self.layer.score(self.parameters), q_BHQD, k_BGKC

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        raise NotImplementedError("this score is reduced before it is computed")


def check_shape(name: str, given: Tensor, per_head: Shape) -> None:
    if tuple(given.shape) not in (per_head, per_head[1:]):
        raise ConfigError(
            f"{name} has shape {tuple(given.shape)}; expected {per_head} (one per head) or {per_head[1:]} (one for all)"
        )


def shifted_key(shift: str) -> str:
    return f"(k{shift})" if shift else "k"
