"""The feed-forward network of a block. Letters: B batch, T time, d width, h hidden width, n any leading axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from firth.config import SubTable, renamed
from firth.layers.activation import ACTIVATIONS, ActivationKind
from firth.layers.hook_free import Direct, Linear

if TYPE_CHECKING:
    from firth.layers.block_config import BlockConfig

ParallelResidual = bool | Literal["two_norms"]


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig(SubTable):
    """The feed-forward networks of a Transformer."""

    short: ClassVar[str | None] = None

    hidden: int | None = renamed(".hidden", default=None)  # inner width; if not set, 4 · `width`, or ⅔ of that if gated
    # activation: plain, or gated (swiglu by SiLU, geglu by GELU); "tanh" is an approximation of GELU
    activation: ActivationKind = renamed(".activation", default="swiglu")
    # compute attention and feed-forward network from the same input, and add both; "two_norms": with one norm for each, not one
    # for both; only for `norm.placement = "pre"`
    parallel: ParallelResidual = renamed(".parallel_block", default=False)

    def inner(self, width: int) -> int:
        return self.hidden or default_hidden(width, self.activation)


class FeedForward(Direct):
    """W_2 φ(W_1 x), or gated, W_2 (φ(W_g x) ⊙ W_1 x); φ is one of ACTIVATIONS."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        hidden, self.activation = config.feedforward.inner(config.width), config.feedforward.activation
        self.phi = ACTIVATIONS[self.activation]
        # One product gives both the gate and the value: rows 0…h−1 are W_g, rows h…2h−1 are W_1.
        self.up = Linear(config.width, 2 * hidden if self.phi.gated else hidden, bias=config.biased)
        self.down = Linear(hidden, config.width, bias=config.biased)

    def forward(self, x_BTd: Tensor) -> Tensor:
        down_BTd: Tensor = self.down(self.phi.apply(self.up(x_BTd)))
        return down_BTd


def default_hidden(width: int, activation: ActivationKind) -> int:
    """4d as published; gated networks have three matrices where others have two, so ⅔ of that, rounded up to a multiple of 16."""
    return 4 * width if not ACTIVATIONS[activation].gated else -(-8 * width // 3 // 16) * 16
