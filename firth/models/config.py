"""The `[model]` table of a recipe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeVar

from firth.config import Notice, SubTable, build, nested, renamed, with_old_names
from firth.errors import ConfigError
from firth.layers.attention.config import AttentionConfig, CausalConfig, WindowedConfig
from firth.layers.block_config import Biases, BlockConfig
from firth.layers.feedforward import FeedForwardConfig
from firth.layers.norm import NormConfig
from firth.layers.position import SCHEMES, AnyPosition, PositionScheme, RotaryConfig
from firth.layers.recurrent import CELLS, CellKind, Reset
from firth.layers.token_mixer import MIXERS, TokenMixer
from firth.models.embedding_config import SizedEmbeddingConfig, TransformerEmbeddingConfig
from firth.models.parametrization import STANDARD, ParametrizationConfig, attention_of, check_parametrization

_LARGEST = 1 << 24  # of the dimensions of a model, so that the bytes of a matrix can be counted in 64 bits
_MOST = {
    "depth": 10_000,
    "encoder_depth": 10_000,
    **dict.fromkeys(("context", "position.context", "attention.span"), (1 << 31) - 1),
}


class DropoutRates(NamedTuple):
    """The rates of a recurrent model, at its input, between layers, and before its output layer."""

    input: float
    hidden: float
    output: float


class ModelSettings:
    """The questions that every [model] table answers."""

    @property
    def longest(self) -> int | None:
        """The longest text that the positions reach, or that can be read beside others; None: any length."""
        return None

    @property
    def longest_side(self) -> int | None:
        """The same of each side, where source and target may stand in one row."""
        return self.longest

    @property
    def one_vocabulary(self) -> str | None:
        """The setting for which source and target need one vocabulary."""
        return None

    def positions(self, tokens: int) -> int | None:
        """The number of positions that a model needs for training.context = `tokens`; None: it needs none."""
        return None

    def with_room(self, tokens: int) -> Self:
        """The same table, with a context for that many tokens where none is set."""
        return self

    def expect_room(self, tokens: int) -> None:
        """Refuse a context without room for that many tokens."""


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelSettings):
    """A recurrent language model."""

    family: Literal["language"] = "language"  # predicts each token from the tokens before it
    kind: CellKind  # recurrent network with this cell
    width: int = 256  # dimension of the hidden state
    depth: int = 1  # number of layers
    embedding: SizedEmbeddingConfig = SizedEmbeddingConfig()  # token embeddings
    dropout: float = 0.0  # dropout rate on the embedded tokens, between layers, and before the output layer
    dropout_input: float | None = None  # dropout rate on the embedded tokens; if not set, `dropout`
    dropout_hidden: float | None = None  # dropout rate between layers; if not set, `dropout`
    dropout_output: float | None = None  # dropout rate before the output layer; if not set, `dropout`
    # use one dropout mask for all positions of a window, instead of one per position
    dropout_locked: bool = renamed("locked", default=False)
    dropout_word: float = 0.0  # probability of dropping a word's input embedding everywhere in the batch
    dropout_weight: float = 0.0  # dropout rate of the hidden-to-hidden weight matrices U; only for cells that have them
    tied: bool = False  # use the embedding as the output layer, too, with a projection in between if the dimensions differ
    reset: Reset = "after"  # whether the reset gate acts after or before the product with U; only for gru

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth)
        check_sizes(self)
        for name in ("dropout", "dropout_input", "dropout_hidden", "dropout_output", "dropout_word", "dropout_weight"):
            check_fraction(name, getattr(self, name) or 0.0)
        if self.dropout_hidden and self.depth == 1:
            raise ConfigError(
                f"model.dropout_hidden = {self.dropout_hidden} acts between layers, and model.depth is 1; "
                "remove it, or increase model.depth"
            )
        check_cell(self.kind, reset=self.reset == "before", dropout_weight=self.dropout_weight > 0)

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.embedding.width or self.width

    @property
    def rates(self) -> DropoutRates:
        given = self.dropout_input, self.dropout_hidden, self.dropout_output
        return DropoutRates(*(self.dropout if rate is None else rate for rate in given))


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(ModelSettings):
    """The settings of every Transformer: decoders, encoders, and encoder–decoders."""

    kind: Literal["transformer"]  # Transformer
    width: int = 256  # dimension of the embeddings and of every layer's output
    depth: int = 4  # number of layers
    context: int | None = None  # maximum length of a sequence, in tokens; if not set, as long as `training.context` needs
    attention: AttentionConfig = AttentionConfig()  # heads, and how they attend
    position: AnyPosition = RotaryConfig()  # position scheme: how the model represents the positions of tokens
    norm: NormConfig = NormConfig()  # normalisation
    feedforward: FeedForwardConfig = FeedForwardConfig()  # feed-forward networks
    embedding: TransformerEmbeddingConfig = TransformerEmbeddingConfig()  # token embeddings
    bias: Biases = False  # add biases to linear layers and to LayerNorm; "qkv": only to queries, keys and values
    # add a bias to the output layer; if not set, as `bias` says, without one if `tied`; masked language models: true
    output_bias: bool | None = None
    dropout: float = 0.0  # dropout rate on the embeddings and on the output of each sublayer
    tied: bool = True  # use the embedding as the output layer, too
    parametrization: ParametrizationConfig = STANDARD  # how initial weights, learning rates and scores depend on the width

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth, context=self.context)
        check_sizes(self)
        check_fraction("dropout", self.dropout)
        width, heads, groups = self.width, self.attention.heads, self.attention.groups
        if width % heads and self.attention.head_width is None:
            near = min((n for n in range(1, width + 1) if width % n == 0), key=lambda n: abs(n - heads))
            raise ConfigError(
                f"model.attention.heads = {heads} does not divide model.width = {width}; try model.attention.heads = {near}"
            )
        if heads % groups:
            raise ConfigError(
                f"model.attention.kv_heads = {groups} does not divide model.attention.heads = {heads}; choose one that does"
            )
        if not self.attention.key_bias and not self.bias:
            raise ConfigError(
                "model.attention.key_bias = false removes the bias of the keys, but model.bias = false has removed all of them. "
                'Remove model.attention.key_bias, or set model.bias to true or "qkv".'
            )
        self._check_norms()
        self._check_windows()
        SCHEMES[self.position.kind].check(self)
        check_parametrization(self)
        family = getattr(self, "family", None)
        if self.position.steady is not None and family != "language":
            raise ConfigError(
                f'model.position.scaling = "dynamic" only applies to language models; given "{family}". Choose "yarn".'
            )

    def _check_norms(self) -> None:
        placement = self.norm.placement
        if self.feedforward.parallel and placement != "pre":
            raise ConfigError(
                f'model.feedforward.parallel needs model.norm.placement = "pre"; given "{placement}". Change one of them.'
            )
        if self.embedding.norm == "replaces_first" and placement != "pre":
            raise ConfigError(
                'model.embedding.norm = "replaces_first" needs a norm before the first attention, and model.norm.placement is '
                f'"{placement}". Set model.embedding.norm = true.'
            )

    def _check_windows(self) -> None:
        base, attention = getattr(self.position, "base_local", None), self.attention
        if base is not None and not (isinstance(attention, WindowedConfig) and attention.has_windows):
            raise ConfigError(
                f"model.position.base_local = {base} only applies to layers with a window; this model has none. Remove it."
            )

    @property
    def per_head(self) -> int:
        return self.attention.per_head(self.width)

    @property
    def inner(self) -> int:
        return self.feedforward.inner(self.width)

    @property
    def biased_output(self) -> bool:
        """True if the output layer of a decoder has a bias."""
        return (self.bias is True and not self.tied) if self.output_bias is None else self.output_bias

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.width

    def positions(self, tokens: int) -> int:
        return tokens

    def with_room(self, tokens: int) -> Self:
        return self if self.context is not None else dataclasses.replace(self, context=self.positions(tokens))

    def expect_room(self, tokens: int) -> None:
        needed = self.positions(tokens)
        if self.context is not None and self.context < needed:
            ends = "" if needed == tokens else ", <eos> included"
            raise ConfigError(
                f"training.context = {tokens} needs {needed} positions{ends}, but model.context = {self.context}. Raise "
                "model.context, or lower training.context."
            )

    @property
    def longest(self) -> int | None:
        return self.context if SCHEMES[self.position.kind].ends else self.position.steady

    def block(self, **more: Any) -> BlockConfig:
        """The settings of a block; `more` has those that differ between layers."""
        shared = {name: getattr(self, name) for name in ("width", "feedforward", "norm", "bias", "dropout")}
        return BlockConfig(attention=attention_of(self), **shared, **more)


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TransformerSettings):
    """A Transformer decoder."""

    family: Literal["language"] = "language"  # predicts each token from the tokens before it
    attention: CausalConfig = CausalConfig()  # heads, and how they attend
    logit_cap: float | None = None  # bound c of the logits, c tanh(logit / c); if not set, none

    def __post_init__(self) -> None:
        check_positive("logit_cap", self.logit_cap)
        super().__post_init__()
        self._check_attention()

    def _check_attention(self) -> None:
        """Refuse settings of other tables that this kind of attention has no place for."""
        kind = self.attention.kind
        if kind == "softmax":
            return
        if self.bias == "qkv":
            raise ConfigError(
                f'model.bias = "qkv" only applies to model.attention.kind = "softmax"; given "{kind}". Remove model.bias.'
            )
        mixers = [MIXERS[self.attention.in_layer(layer)] for layer in range(2)]
        if not _fits(SCHEMES[self.position.kind], mixers):
            places = [one.kind for one in SCHEMES if _fits(one, mixers)]
            raise ConfigError(
                f'model.position = "{self.position.kind}" needs softmax attention, but model.attention.kind is "{kind}". '
                f'Set model.position to "none" or one of: {", ".join(places[1:])}.'
            )
        if kind == "based" and self.depth < 2:
            raise ConfigError('model.attention.kind = "based" alternates two kinds of layers; model.depth is 1. Set at least 2.')
        for mixer in mixers:
            mixer.check(self)


def _fits(scheme: type[PositionScheme], mixers: Iterable[type[TokenMixer]]) -> bool:
    """True if a position scheme has a place to act in these layers: on all scores, or on some q and k."""
    takes_bias, takes_turn = all(one.takes_bias for one in mixers), any(one.takes_turn for one in mixers)
    return (takes_bias or not scheme.acts_on_scores) and (takes_turn or not scheme.turns)


LanguageConfig = RecurrentConfig | TransformerConfig
Settings = TypeVar("Settings", bound=TransformerSettings)


def transformer(config: type[Settings], settings: Mapping[str, Any]) -> Settings:
    """The [model] of a Transformer with these settings, such as "attention.heads"; None means that one is not set."""
    return build(config, {"kind": "transformer", **nested(settings)}, "model")


def check_sizes(config: Any) -> None:
    """Refuse whole numbers below 1 in the sub-tables of [model], but for those that count from 0."""
    for table in dataclasses.fields(config):
        sub = getattr(config, table.name)
        if isinstance(sub, SubTable):
            sizes = [one.name for one in dataclasses.fields(type(sub)) if one.default != 0]  # type: ignore[arg-type]
            at_least_one(**{f"{table.name}.{name}": value for name in sizes if type(value := getattr(sub, name)) is int})


def at_least_one(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ConfigError(f"model.{name} is {value}; expected at least 1")
        at_most(name, value or 0)


def at_most(name: str, value: int) -> None:
    """Refuse a size that no computer has room for, before torch tries."""
    most = _MOST.get(name, _LARGEST)
    if value > most:
        raise ConfigError(f"model.{name} is {value:,}; expected at most {most:,}")


def note_kept_hidden(before: Mapping[str, Any], after: Mapping[str, Any], named: Sequence[str], notice: Notice) -> None:
    """Say that a [model] table whose width was changed still has the inner width that was chosen for the old one."""
    hidden = "model.feedforward.hidden"
    chosen = after.get("feedforward", {}).get("hidden")
    if "model.width" in named and not {hidden, "model.hidden"} & set(named) and chosen is not None:
        notice(
            f"{hidden} is still {chosen}, which was chosen for model.width = {before.get('width')}; now "
            f"model.width = {after['width']}. Set {hidden}, too."
        )


def check_cell(kind: CellKind, *, reset: bool, dropout_weight: bool = False) -> None:
    """Refuse settings that the cell has no place for."""
    cell = CELLS[kind]
    if reset and not cell.has_reset:
        raise ConfigError(f'model.reset only applies to the GRU; model.kind is "{kind}". Remove it.')
    if dropout_weight and not cell.has_hidden_weights:
        raise ConfigError(
            f'model.dropout_weight acts on the weights between hidden states, and model.kind = "{kind}" has none. Remove it.'
        )


def check_positive(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise ConfigError(f"model.{name} is {value}; expected a number above 0")


def check_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"model.{name} is {value}; expected 0 ≤ {name} < 1")
