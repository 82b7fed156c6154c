"""Token mixers: the layer of a block in which tokens see each other, one of several kinds. To add one, write a TokenMixer and
list it in mixers.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar

from firth.ideas import Idea, Ideas
from firth.layers.hook_free import Direct, Linear


class TokenMixer(Idea, Direct, ABC):
    """y_BTd, state = mixer(x_BTd, allowed, position, past). `uses` names the settings of [model.attention] that it has."""

    uses: ClassVar[tuple[str, ...]] = ("heads",)
    takes_bias: ClassVar[bool] = False  # whether positions can act on its scores
    takes_turn: ClassVar[bool] = False  # whether positions can turn its q and k
    forgets: ClassVar[bool] = False  # whether its state lets a text go on for ever

    heads: int
    head_width: int  # of v
    out: Linear

    @abstractmethod
    def __init__(self, config: Any) -> None:
        """`config` is a BlockConfig."""
        super().__init__()

    @classmethod
    def check(cls, model: Any) -> None:  # most mixers fit every model
        """Raise if the settings of a model do not fit the mixer."""

    @abstractmethod
    def start(self) -> Any:
        """The LayerState before the first token."""


MIXERS: Ideas[type[TokenMixer]] = Ideas("kind of self-attention", TokenMixer, listed_in="firth.layers.mixers")
SelfAttentionKind = Annotated[str, MIXERS]  # what model.attention.kind may be


def token_mixer(config: Any) -> TokenMixer:
    """The mixer of a block with this BlockConfig."""
    return MIXERS[config.mixer](config)
