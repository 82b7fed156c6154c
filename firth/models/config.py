"""The `[model]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.layers.block import Placement
from firth.layers.feedforward import Activation, default_hidden
from firth.layers.norm import NormKind
from firth.layers.position import PositionKind
from firth.layers.recurrent import CellKind, Reset


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """An RNN, LSTM or GRU language model."""

    family: Literal["language"] = "language"
    kind: CellKind
    width: int = 256
    depth: int = 1
    embedding: int | None = None  # width of the input vectors; as wide as the model where not given
    dropout: float = 0.0  # on the embedding, between levels and before the output layer
    tied: bool = False  # the output layer reuses the embedding
    reset: Reset = "after"  # gru only

    def __post_init__(self) -> None:
        _at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        _share("dropout", self.dropout)
        if self.reset == "before" and self.kind != "gru":
            raise ConfigError(f'model.reset = "before" is a form of the GRU; leave it out for model.kind = "{self.kind}"')
        if self.tied and self.embedding not in (None, self.width):
            raise ConfigError(
                f"model.tied shares one matrix, so model.embedding = {self.embedding} must equal model.width = {self.width}; "
                "leave model.embedding out"
            )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """A Transformer decoder."""

    family: Literal["language"] = "language"
    kind: Literal["transformer"]
    width: int = 256
    depth: int = 4
    heads: int = 4
    kv_heads: int | None = None  # fewer key/value heads than heads: grouped-query; 1: multi-query
    hidden: int | None = None  # inner width of the feed-forward network: 4·width, or ⅔ of that for swiglu
    context: int | None = None  # the longest text it reads at once; training.context where not given
    position: PositionKind = "rotary"
    base: float = 10_000.0  # of the sinusoidal and rotary wavelengths
    norm: NormKind = "rms"
    norm_placement: Placement = "pre"
    activation: Activation = "swiglu"
    bias: bool = False
    dropout: float = 0.0
    tied: bool = True

    def __post_init__(self) -> None:
        _at_least_one(
            width=self.width, depth=self.depth, heads=self.heads, kv_heads=self.kv_heads, hidden=self.hidden, context=self.context
        )
        _share("dropout", self.dropout)
        if self.width % self.heads:
            near = min((n for n in range(1, self.width + 1) if self.width % n == 0), key=lambda n: abs(n - self.heads))
            raise ConfigError(f"model.heads = {self.heads} does not divide model.width = {self.width}; try model.heads = {near}")
        if self.heads % self.groups:
            raise ConfigError(
                f"model.kv_heads = {self.groups} does not divide model.heads = {self.heads}; choose a divisor of {self.heads}"
            )

    @property
    def groups(self) -> int:
        return self.kv_heads or self.heads

    @property
    def inner(self) -> int:
        return self.hidden or default_hidden(self.width, self.activation)


ModelConfig = RecurrentConfig | TransformerConfig


def _at_least_one(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ConfigError(f"model.{name} is {value}; expected at least 1")


def _share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"model.{name} is {value}; expected 0 ≤ {name} < 1")
