"""The `[model]` table of a recipe."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from torch import nn

from firth.config import Notice, renamed
from firth.errors import ConfigError
from firth.layers.attention.mask import MaskKind
from firth.layers.attention.score import ScoreKind
from firth.layers.block import Parallel, Placement
from firth.layers.feedforward import Activation, default_hidden
from firth.layers.norm import EPS, NormKind, norm
from firth.layers.position import PositionKind, check_settings
from firth.layers.position.disentangled import Projections
from firth.layers.position.rotary_scaling import RotaryScaling
from firth.layers.position.sinusoidal import Order
from firth.layers.recurrent import CellKind, Reset, cell_class
from firth.layers.self_attention import Biases
from firth.layers.token_mixer import SelfAttentionKind

EmbeddingNorm = bool | Literal["replaces_first"]
_LARGEST = 1 << 24  # of the dimensions of a model, so that the bytes of a matrix can be counted in 64 bits
_MOST = {"depth": 10_000, "encoder_depth": 10_000, **dict.fromkeys(("context", "rotary_context", "span"), (1 << 31) - 1)}


class DropoutRates(NamedTuple):
    """The rates of a recurrent model, at its input, between layers, and before its output layer."""

    input: float
    hidden: float
    output: float


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """A recurrent language model."""

    family: Literal["language"] = "language"  # predicts each token from the tokens before it
    kind: CellKind  # recurrent network with this cell
    width: int = 256  # dimension of the hidden state
    depth: int = 1  # number of layers
    embedding: int | None = None  # dimension of the token embeddings; if not set, `width`
    dropout: float = 0.0  # dropout rate on the embedded tokens, between layers, and before the output layer
    dropout_input: float | None = None  # dropout rate on the embedded tokens; if not set, `dropout`
    dropout_hidden: float | None = None  # dropout rate between layers; if not set, `dropout`
    dropout_output: float | None = None  # dropout rate before the output layer; if not set, `dropout`
    # use one dropout mask for all positions of a window, instead of one per position
    dropout_locked: bool = renamed("locked", default=False)
    dropout_word: float = 0.0  # probability of dropping a word's input embedding everywhere in the batch
    dropout_weight: float = 0.0  # dropout rate of the hidden-to-hidden weight matrices U; not for mingru
    tied: bool = False  # use the embedding as the output layer, too, with a projection in between if the dimensions differ
    reset: Reset = "after"  # whether the reset gate acts after or before the product with U; only for gru
    vectors: str | None = None  # file of word vectors to initialise the embedding with; if not set, the embedding is random
    vectors_fixed: bool = False  # keep those vectors as they are instead of training them

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

    kind: Literal["transformer"]  # Transformer
    width: int = 256  # dimension of the embeddings and of every layer's output
    depth: int = 4  # number of layers
    heads: int = 4  # number of attention heads; must divide `width`, unless `head_width` is set
    head_width: int | None = None  # dimension of the queries, keys and values of a head; if not set, `width` / `heads`
    # number of key/value heads: fewer than `heads` is grouped-query attention, 1 is multi-query; if not set, `heads`
    kv_heads: int | None = None
    hidden: int | None = None  # inner width of the feed-forward networks; if not set, 4 · `width`, or ⅔ of that if gated
    context: int | None = None  # maximum length of a sequence, in tokens; if not set, as long as `training.context` needs
    score: ScoreKind = "scaled_dot"  # attention score: how well a key matches a query
    position: PositionKind = "rotary"  # position scheme: how the model represents the positions of tokens
    position_base: float = renamed("base", default=10_000.0)  # base of the wavelengths; only for sinusoidal and rotary positions
    # order of the sines and cosines: by turns, or all sines first; only for sinusoidal (if not set, "interleaved")
    position_order: Order | None = None
    # maximum relative distance; larger distances are treated as equal; only for shaw (if not set, 64), t5 and disentangled (if
    # not set, 128)
    max_distance: int | None = renamed("clip", "reach", default=None)
    # number of ranges of distance; only for t5 (if not set, 32) and disentangled (in each direction; if not set, every distance
    # is its own)
    distance_buckets: int | None = renamed("buckets", default=None)
    # matrices with which a layer projects the vectors of the distances: those of its queries and keys ("shared"), or two more;
    # only for disentangled (if not set, "shared")
    position_projections: Projections | None = None
    position_norm: bool | None = None  # LayerNorm on the vectors of the distances; only for disentangled (if not set, true)
    # method that stretches rotary positions of a trained model to a longer context; if not set, "none"
    rotary_scaling: RotaryScaling | None = None
    rotary_context: int | None = None  # context, in tokens, that the model was trained with; required by `rotary_scaling`
    # factor by which `rotary_scaling` stretches the positions; if not set, `context` / `rotary_context`
    rotary_factor: float | None = None
    # share of each head that rotary positions turn, pairs from the fastest on; if not set, all of it
    rotary_fraction: float | None = None
    norm: NormKind = "rms"  # normalisation: LayerNorm or RMSNorm
    norm_eps: float = EPS  # ε, added to the variance or mean square before the root
    qk_norm: bool = False  # normalise the queries and keys of each head, before positions turn them
    # where to normalise: before each sublayer, after its residual sum, or ("sandwich") before each sublayer and its output
    norm_placement: Placement = "pre"
    # compute attention and feed-forward network from the same input, and add both; "two_norms": with one norm for each, not one
    # for both; only for `norm_placement = "pre"`
    parallel_block: Parallel = False
    # activation of the feed-forward networks: plain, or gated (swiglu by SiLU, geglu by GELU); "tanh" is an approximation of GELU
    activation: Activation = "swiglu"
    bias: Biases = False  # add biases to linear layers and to LayerNorm; "qkv": only to queries, keys and values
    # add a bias to the output layer; if not set, as `bias` says, without one if `tied`; masked language models: true
    output_bias: bool | None = None
    # normalise the embedded tokens; "replaces_first": and leave out the norm before the first attention
    embedding_norm: EmbeddingNorm = False
    embedding_scale: bool | None = None  # multiply the token embeddings by √`width`; if not set, only for sinusoidal positions
    dropout: float = 0.0  # dropout rate on the embeddings and on the output of each sublayer
    tied: bool = True  # use the embedding as the output layer, too

    def __post_init__(self) -> None:
        at_least_one(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_width=self.head_width,
            hidden=self.hidden,
            context=self.context,
            rotary_context=self.rotary_context,
            max_distance=self.max_distance,
            distance_buckets=self.distance_buckets,
        )
        check_fraction("dropout", self.dropout)
        if not (math.isfinite(self.norm_eps) and self.norm_eps > 0):
            raise ConfigError(f"model.norm_eps is {self.norm_eps}; expected a small number above 0, such as 1e-5")
        if self.width % self.heads and self.head_width is None:
            near = min((n for n in range(1, self.width + 1) if self.width % n == 0), key=lambda n: abs(n - self.heads))
            raise ConfigError(f"model.heads = {self.heads} does not divide model.width = {self.width}; try model.heads = {near}")
        if self.heads % self.groups:
            raise ConfigError(
                f"model.kv_heads = {self.groups} does not divide model.heads = {self.heads}; choose a divisor of {self.heads}"
            )
        if self.parallel_block and self.norm_placement != "pre":
            raise ConfigError(
                f'model.parallel_block needs model.norm_placement = "pre"; given "{self.norm_placement}". Change one of them.'
            )
        if self.embedding_norm == "replaces_first" and self.norm_placement != "pre":
            raise ConfigError(
                'model.embedding_norm = "replaces_first" needs a norm before the first attention, and model.norm_placement is '
                f'"{self.norm_placement}". Set model.embedding_norm = true.'
            )
        if self.qk_norm and self.position == "disentangled":
            raise ConfigError(
                'model.qk_norm normalises queries and keys, but not those of the distances of model.position = "disentangled". '
                "Remove one of them."
            )
        check_settings(self.position, self)

    @property
    def groups(self) -> int:
        return self.kv_heads or self.heads

    @property
    def per_head(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def inner(self) -> int:
        return self.hidden or default_hidden(self.width, self.activation)

    @property
    def biased_output(self) -> bool:
        """Whether the output layer of a decoder has a bias."""
        return (self.bias is True and not self.tied) if self.output_bias is None else self.output_bias

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.width

    def is_local(self, layer: int) -> bool:
        """Whether this layer attends to a window."""
        return False

    def in_windows(self) -> TransformerSettings | None:
        """The settings of the positions of layers that attend to a window, if they differ."""
        return None

    def make_norm(self, width: int | None = None) -> nn.Module:
        """A norm over this width, or over that of the model."""
        return norm(self.norm, width or self.width, self.bias is True, self.norm_eps)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TransformerSettings):
    """A Transformer decoder."""

    family: Literal["language"] = "language"  # predicts each token from the tokens before it
    # self-attention: with a softmax over all earlier tokens, or linear attention, whose time is linear in the length of the text
    # and whose state is of constant size: "linear", "gated_linear" (GLA), "based" (Taylor features and windows by turns)
    attention: SelfAttentionKind = "softmax"
    mask: MaskKind = "causal"  # attention mask; a language model accepts "causal", "strictly_causal" and "window"
    # number of tokens in the window, the current one included; required by `mask = "window"`; for `attention = "based"`, if not
    # set, 64; only for these
    span: int | None = None
    # layers that attend to the window: "L" (local) or "G" (global) for each, repeated over all layers, as "LLLLLG"; only for
    # `mask = "window"`; if not set, all
    window_pattern: str | None = None
    # base of the wavelengths of rotary positions in the layers that attend to a window; if not set, `position_base`
    position_base_local: float | None = None
    score_scale: float | None = None  # factor of the attention scores; if not set, 1/√(width of a head) for "scaled_dot", else 1
    score_cap: float | None = None  # bound c of the attention scores, c tanh(s / c); if not set, none
    logit_cap: float | None = None  # bound c of the logits, c tanh(logit / c); if not set, none
    # dimension of queries and keys in the Taylor layers of `attention = "based"` (if not set, 16), and only for it
    feature_width: int | None = None
    vectors: str | None = None  # file of word vectors to initialise the embedding with; if not set, the embedding is random
    vectors_fixed: bool = False  # keep those vectors as they are instead of training them

    def __post_init__(self) -> None:
        at_least_one(span=self.span, feature_width=self.feature_width)
        check_vectors(self.vectors, self.vectors_fixed)
        for name in ("score_scale", "score_cap", "logit_cap"):
            check_positive(name, getattr(self, name))
        self._check_mask()
        check_windows(
            self.mask == "window", 'model.mask = "window"', self.window_pattern, self.position_base_local, self.position
        )
        super().__post_init__()
        self._check_attention()

    def is_local(self, layer: int) -> bool:
        return self.mask == "window" and in_pattern(self.window_pattern, layer)

    def in_windows(self) -> TransformerConfig | None:
        return with_local_base(self, self.position_base_local)

    def _check_attention(self) -> None:
        """Refuse settings that this kind of attention has no place for."""
        kind = self.attention
        if self.feature_width is not None and kind != "based":
            raise ConfigError(f'model.feature_width only applies to model.attention = "based"; given "{kind}". Remove it.')
        if kind == "softmax":
            return
        if self.mask != "causal":
            raise ConfigError(f'model.attention = "{kind}" is causal, and model.mask is "{self.mask}". Remove model.mask.')
        if self.score != "scaled_dot":
            raise ConfigError(f'model.attention = "{kind}" has a score of its own; given "{self.score}". Remove model.score.')
        if self.kv_heads not in (None, self.heads):
            raise ConfigError(
                f'model.attention = "{kind}" shares no keys and values between heads, and model.kv_heads is {self.kv_heads}. '
                "Remove model.kv_heads."
            )
        for name, given in (
            ("head_width", self.head_width is not None),
            ("bias", self.bias == "qkv"),
            ("qk_norm", self.qk_norm),
            ("score_scale", self.score_scale is not None),
            ("score_cap", self.score_cap is not None),
        ):
            if given:
                raise ConfigError(
                    f'model.{name} = {json.dumps(getattr(self, name))} only applies to model.attention = "softmax"; given '
                    f'"{kind}". Remove model.{name}.'
                )
        places = ("none", "learned", "sinusoidal", *(("rotary",) if kind == "based" else ()))
        if self.position not in places:
            raise ConfigError(
                f'model.position = "{self.position}" acts on the scores of a softmax, and model.attention is "{kind}". '
                f'Set model.position to "none" or one of: {", ".join(places[1:])}.'
            )
        if kind == "based" and self.depth < 2:
            raise ConfigError('model.attention = "based" alternates two kinds of layers; model.depth is 1. Set at least 2.')
        if kind == "gated_linear" and self.width % (2 * self.heads):
            raise ConfigError(
                f'with model.attention = "gated_linear", keys have half the width of values: model.width = {self.width} must be '
                f"a multiple of 2 · model.heads = {2 * self.heads}"
            )

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
            case _ if self.span is not None and self.mask != "window" and self.attention != "based":
                raise ConfigError(
                    f'model.span = {self.span} only applies to model.mask = "window"; given "{self.mask}". '
                    "Remove model.span, or change the mask"
                )
            case _:
                pass


LanguageConfig = RecurrentConfig | TransformerConfig
Settings = TypeVar("Settings", bound=TransformerSettings)


def in_pattern(pattern: str | None, layer: int) -> bool:
    """Whether a pattern such as "LLG" makes this layer local."""
    return pattern is None or pattern[layer % len(pattern)] == "L"


def with_local_base(config: Settings, base: float | None) -> Settings | None:
    """The settings of positions in windows: they need no stretching, because no distance is longer than the window."""
    if base is None:
        return None
    local: dict[str, Any] = dict.fromkeys(("position_base_local", "rotary_scaling", "rotary_context", "rotary_factor"))
    return dataclasses.replace(config, **local | {"position_base": base})


def check_windows(has: bool, needed: str, pattern: str | None, base: float | None, position: PositionKind) -> None:
    """Refuse a pattern or a base without windows."""
    for name, given in (("window_pattern", pattern), ("position_base_local", base)):
        if given is not None and not has:
            raise ConfigError(f"model.{name} = {json.dumps(given)} needs {needed}. Remove one, or set the other.")
    if pattern is not None and (not pattern or set(pattern) - set("LG")):
        raise ConfigError(f'model.window_pattern is "{pattern}"; expected "L" (local) and "G" (global), such as "LLG"')
    if base is not None and position != "rotary":
        raise ConfigError(f'model.position_base_local only applies to model.position = "rotary"; given "{position}". Remove it.')


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
    if "model.width" in named and "model.hidden" not in named and after.get("hidden") is not None:
        notice(
            f"model.hidden is still {after['hidden']}, which was chosen for model.width = {before.get('width')}; now "
            f"model.width = {after['width']}. Set model.hidden, too."
        )


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


def check_positive(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise ConfigError(f"model.{name} is {value}; expected a number above 0")


def check_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"model.{name} is {value}; expected 0 ≤ {name} < 1")
