"""Token mixers: the layer of a block in which tokens see each other, one of several kinds. To add one, write a TokenMixer and
list it in mixers.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from torch import Tensor, nn

from firth.ideas import Idea, Ideas
from firth.layers.hook_free import Direct, Linear
from firth.layers.weight_group import WeightGroup


class TokenMixer(Idea, Direct, ABC):
    """y_BTd, state = mixer(x_BTd, allowed, position, past). `uses` names the settings of [model.attention] that it has."""

    uses: ClassVar[tuple[str, ...]] = ("heads",)
    takes_bias: ClassVar[bool] = False  # whether positions can act on its scores
    takes_turn: ClassVar[bool] = False  # whether positions can turn its q and k
    local: ClassVar[bool] = False  # whether a token only sees some around it, so that their positions may be others
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

    # For `firth describe`:

    def parts(self) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
        """Its weights by their roles. Those that it does not name are counted as "other"."""
        yield self.out.weight, [WeightGroup("output of attention", tuple(self.out.weight.shape), 1)]

    def state_numbers(self) -> int:
        """Numbers in the state of one text, whatever its length."""
        return 0

    def kept(self) -> int:
        """Numbers per token that the backward pass needs: the results of its products, and what `out` is multiplied with."""
        products = (module for module in self.modules() if isinstance(module, nn.Linear) and module is not self.out)
        return sum(len(product.weight) for product in products) + self.out.weight.shape[1]


MIXERS: Ideas[type[TokenMixer]] = Ideas("kind of self-attention", TokenMixer, listed_in="firth.layers.mixers")
SelfAttentionKind = Annotated[str, MIXERS]  # what model.attention.kind may be


def token_mixer(config: Any) -> TokenMixer:
    """The mixer of a block with this BlockConfig."""
    return MIXERS[config.mixer](config)
