"""The `[model]` table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.attention.mask import MaskKind
from firth.layers.attention.score import ScoreKind
from firth.layers.block import Placement
from firth.layers.feedforward import Activation, default_hidden
from firth.layers.norm import NormKind
from firth.layers.position import PositionKind, check_settings
from firth.layers.position.rotary_scaling import RotaryScaling
from firth.layers.recurrent import CellKind, Reset, cell_class


class DropoutRates(NamedTuple):
    """The rates of a recurrent model, at its input, between layers, and before its output layer."""

    input: float
    hidden: float
    output: float


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """A recurrent language model."""

    family: Literal["language"] = "language"
    kind: CellKind
    width: int = 256
    depth: int = 1
    embedding: int | None = None  # width of the input vectors; default: width
    dropout: float = 0.0  # at three places; each can have its own rate:
    dropout_input: float | None = None  # on the embedded tokens
    dropout_hidden: float | None = None  # between layers
    dropout_output: float | None = None  # before the output layer
    dropout_locked: bool = renamed("locked", default=False)  # one mask for all positions of a window, at the three places
    dropout_word: float = 0.0  # of whole words, the same in the whole batch; the output layer keeps them
    dropout_weight: float = 0.0  # of the matrices U from hidden state to hidden state
    tied: bool = False  # the output layer reuses the embedding, with a projection in between if their widths differ
    reset: Reset = "after"  # gru only
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        for name in ("dropout", "dropout_input", "dropout_hidden", "dropout_output", "dropout_word", "dropout_weight"):
            check_fraction(name, getattr(self, name) or 0.0)
        if self.dropout_hidden and self.depth == 1:
            raise ConfigError(
                f"model.dropout_hidden = {self.dropout_hidden} acts between layers, and model.depth is 1; "
                "remove it, or increase model.depth"
            )
        check_vectors(self.vectors, self.vectors_fixed)
        check_cell(self.kind, reset=self.reset == "before", dropout_weight=self.dropout_weight > 0)

    @property
    def rates(self) -> DropoutRates:
        given = self.dropout_input, self.dropout_hidden, self.dropout_output
        return DropoutRates(*(self.dropout if rate is None else rate for rate in given))


@dataclass(frozen=True, kw_only=True)
class TransformerSettings:
    """The settings of every Transformer: decoders, encoders, and encoder–decoders."""

    kind: Literal["transformer"]
    width: int = 256
    depth: int = 4
    heads: int = 4
    kv_heads: int | None = None  # fewer key/value heads than heads: grouped-query; 1: multi-query
    hidden: int | None = None  # inner width of the feed-forward network; 4·width by default, ⅔ of that for swiglu
    context: int | None = None  # the longest text it processes at once; training.context by default
    score: ScoreKind = "scaled_dot"
    position: PositionKind = "rotary"
    position_base: float = renamed("base", default=10_000.0)  # of the sinusoidal and rotary wavelengths
    max_distance: int | None = renamed("clip", "reach", default=None)  # shaw, t5: all distances from here on are one
    distance_buckets: int | None = renamed("buckets", default=None)  # t5: the number of ranges of distance
    rotary_scaling: RotaryScaling | None = None  # rotary: stretch the positions of a trained model to a longer context
    rotary_context: int | None = None  # the context that model was trained with
    norm: NormKind = "rms"
    norm_placement: Placement = "pre"
    activation: Activation = "swiglu"
    bias: bool = False
    dropout: float = 0.0
    tied: bool = True

    def __post_init__(self) -> None:
        at_least_one(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            kv_heads=self.kv_heads,
            hidden=self.hidden,
            context=self.context,
            rotary_context=self.rotary_context,
            max_distance=self.max_distance,
            distance_buckets=self.distance_buckets,
        )
        check_fraction("dropout", self.dropout)
        if self.width % self.heads:
            near = min((n for n in range(1, self.width + 1) if self.width % n == 0), key=lambda n: abs(n - self.heads))
            raise ConfigError(f"model.heads = {self.heads} does not divide model.width = {self.width}; try model.heads = {near}")
        if self.heads % self.groups:
            raise ConfigError(
                f"model.kv_heads = {self.groups} does not divide model.heads = {self.heads}; choose a divisor of {self.heads}"
            )
        check_settings(self.position, self)

    @property
    def groups(self) -> int:
        return self.kv_heads or self.heads

    @property
    def inner(self) -> int:
        return self.hidden or default_hidden(self.width, self.activation)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TransformerSettings):
    """A Transformer decoder."""

    family: Literal["language"] = "language"
    mask: MaskKind = "causal"
    span: int | None = None  # tokens in a window, the current one included; mask = "window" only
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        at_least_one(span=self.span)
        check_vectors(self.vectors, self.vectors_fixed)
        self._check_mask()
        super().__post_init__()

    def _check_mask(self) -> None:
        match self.mask:
            case "full" | "all_but_self":
                raise ConfigError(
                    f'model.mask = "{self.mask}" lets a position see the token that it has to predict; '
                    'for a language model choose "causal", "strictly_causal" or "window"'
                )
            case "prefix":
                raise ConfigError(
                    'model.mask = "prefix" needs the length of each text\'s prefix, and running text has none; '
                    'choose "causal", "strictly_causal" or "window"'
                )
            case "window" if self.span is None:
                raise ConfigError(
                    'model.mask = "window" needs model.span, the number of tokens in the window, the current one included'
                )
            case _ if self.span is not None and self.mask != "window":
                raise ConfigError(
                    f'model.span = {self.span} only applies to model.mask = "window"; given "{self.mask}". '
                    "Remove model.span, or change the mask"
                )
            case _:
                pass


LanguageConfig = RecurrentConfig | TransformerConfig


def at_least_one(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ConfigError(f"model.{name} is {value}; expected at least 1")


def check_cell(kind: CellKind, *, reset: bool, dropout_weight: bool = False) -> None:
    """Refuse settings that the cell has no place for."""
    cell = cell_class(kind)
    if reset and not cell.has_reset:
        raise ConfigError(f'model.reset only applies to the GRU; model.kind is "{kind}". Remove it.')
    if dropout_weight and not cell.has_hidden_weights:
        raise ConfigError(
            f'model.dropout_weight acts on the weights between hidden states, and model.kind = "{kind}" has none. Remove it.'
        )


def check_vectors(vectors: str | None, fixed: bool) -> None:
    if fixed and vectors is None:
        raise ConfigError(
            "model.vectors_fixed keeps the vectors of model.vectors, which is missing; give a file, or leave it out"
        )


def check_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"model.{name} is {value}; expected 0 ≤ {name} < 1")
