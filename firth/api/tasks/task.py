"""What training needs to know of an objective."""

from __future__ import annotations

from typing import Any, Protocol

from firth.models import Network
from firth.text import Progress, Tokenizer
from firth.training.feed import Batches
from firth.training.loop import Loss


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
