"""What training needs to know of an objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from firth.api.recipe import Recipe
from firth.models import Network
from firth.text import Progress, Tokenizer
from firth.training.feed import Batches
from firth.training.loop import Loss


class _Data(Protocol):
    """What a recipe's data have, whatever they are."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def valid(self) -> object | None: ...


D = TypeVar("D", bound=_Data)


@dataclass(frozen=True)
class OfData(Generic[D]):
    """What all tasks are made of."""

    recipe: Recipe
    data: D

    @property
    def tokenizer(self) -> Tokenizer:
        return self.data.tokenizer

    @property
    def has_valid(self) -> bool:
        return self.data.valid is not None


class Task(Protocol):
    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def has_valid(self) -> bool:
        """Whether something was held out to validate on."""
        ...

    def network(self) -> Network:
        """The module, with weights not yet drawn."""
        ...

    def batches(self) -> Batches: ...

    def validate(self, network: Network, progress: Progress) -> dict[str, Any]:
        """Metrics on what was held out; "loss", in nats, is among them and chooses the weights that are kept."""
        ...
