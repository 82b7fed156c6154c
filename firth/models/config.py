"""The `[model]` table of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.attention.mask import MaskKind
from firth.layers.attention.score import ScoreKind
from firth.layers.block import Placement
from firth.layers.feedforward import Activation, default_hidden
from firth.layers.norm import NormKind
from firth.layers.position import PositionKind
from firth.layers.recurrent import CellKind, Reset, cell_class

CLIP, BUCKETS, REACH = 64, 32, 128  # where a recipe says nothing of them


class DropoutRates(NamedTuple):
    """Of a recurrent model: on the embedded tokens, between layers, and before the output layer."""

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
            share(name, getattr(self, name) or 0.0)
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
    """What all Transformers have: decoders, encoders, and both together."""

    kind: Literal["transformer"]
    width: int = 256
    depth: int = 4
    heads: int = 4
    kv_heads: int | None = None  # fewer key/value heads than heads: grouped-query; 1: multi-query
    hidden: int | None = None  # inner width of the feed-forward network: 4·width, or ⅔ of that for swiglu
    context: int | None = None  # the longest text it reads at once; training.context where not given
    score: ScoreKind = "scaled_dot"
    position: PositionKind = "rotary"
    base: float = 10_000.0  # of the sinusoidal and rotary wavelengths
    clip: int | None = None  # the farthest distance that shaw tells apart; CLIP where not given
    buckets: int | None = None  # into which t5 sorts distances; BUCKETS where not given
    reach: int | None = None  # the distance at which t5's last bucket begins at the latest; REACH where not given
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
            clip=self.clip,
            buckets=self.buckets,
            reach=self.reach,
        )
        share("dropout", self.dropout)
        if self.width % self.heads:
            near = min((n for n in range(1, self.width + 1) if self.width % n == 0), key=lambda n: abs(n - self.heads))
            raise ConfigError(f"model.heads = {self.heads} does not divide model.width = {self.width}; try model.heads = {near}")
        if self.heads % self.groups:
            raise ConfigError(
                f"model.kv_heads = {self.groups} does not divide model.heads = {self.heads}; choose a divisor of {self.heads}"
            )
        self._check_position()

    def _check_position(self) -> None:
        if self.position == "rotary" and self.score == "additive":
            raise ConfigError(
                'model.position = "rotary" makes q·k depend on the distance alone; tanh(q + k) of turned vectors does not. '
                'With model.score = "additive" choose "t5", "alibi", "shaw", "sinusoidal", "learned" or "none"'
            )
        for name, value, owner in (("clip", self.clip, "shaw"), ("buckets", self.buckets, "t5"), ("reach", self.reach, "t5")):
            if value is not None and self.position != owner:
                raise ConfigError(
                    f'model.{name} = {value} belongs to model.position = "{owner}"; given "{self.position}". '
                    f"Leave model.{name} out, or change the position"
                )
        match self.position:
            case "rotary":
                _check_base(self.base)
                if (self.width // self.heads) % 2:
                    raise ConfigError(
                        f'model.position = "rotary" turns pairs, so model.width / model.heads must be even; given '
                        f"{self.width // self.heads}; change either, or the position"
                    )
            case "sinusoidal":
                _check_base(self.base)
                if self.width % 2:
                    raise ConfigError(
                        'model.position = "sinusoidal" pairs a sine with a cosine, so model.width must be even; given '
                        f"{self.width}; change it, or the position"
                    )
            case "t5":
                _check_buckets(self.buckets or BUCKETS, self.reach or REACH)
            case _:
                pass

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
    span: int | None = None  # how many tokens a window sees, its own included; mask = "window" only
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
                    f'model.mask = "{self.mask}" lets a position read the token that it has to predict; '
                    'for a language model choose "causal", "strictly_causal" or "window"'
                )
            case "prefix":
                raise ConfigError(
                    'model.mask = "prefix" needs to know how long the prefix of each text is, and a running text has none; '
                    'choose "causal", "strictly_causal" or "window"'
                )
            case "window" if self.span is None:
                raise ConfigError(
                    'model.mask = "window" needs to know how far it sees; give model.span, the number of tokens, its own included'
                )
            case _ if self.span is not None and self.mask != "window":
                raise ConfigError(
                    f'model.span = {self.span} belongs to model.mask = "window"; given "{self.mask}". '
                    "Leave model.span out, or change the mask"
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


def _check_base(base: float) -> None:
    if not (math.isfinite(base) and base > 0):
        raise ConfigError(f"model.base is {base}; the wavelengths are its powers, so expected a finite number above 0")


def _check_buckets(count: int, reach: int) -> None:
    if count < 2:
        raise ConfigError(f"model.buckets is {count}, which tells no two distances apart; expected at least 2")
    if reach <= count // 2:
        raise ConfigError(
            f"model.reach = {reach} leaves nothing to widen: half of model.buckets = {count} hold one distance each, "
            f"0 … {count // 2 - 1}, the others those up to the reach; choose model.reach > {count // 2} or fewer buckets"
        )


def share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"model.{name} is {value}; expected 0 ≤ {name} < 1")
