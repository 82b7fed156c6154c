"""The `[model]` table of a recipe with family = "seq2seq"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.config import renamed, with_old_names
from firth.errors import ConfigError
from firth.layers.attention.score import SCORES, ScoreKind, kinds_for_any_widths
from firth.layers.recurrent import CELLS, CellKind, Reset
from firth.models.config import ModelSettings, TransformerSettings, at_least_one, check_cell, check_fraction, check_sizes
from firth.models.embedding_config import SizedEmbeddingConfig

AttentionKind = Literal["none"] | ScoreKind
DecoderKind = Literal["bahdanau", "luong"]


@dataclass(frozen=True, kw_only=True)
class RecurrentDecoderConfig(ModelSettings):
    """The settings of every recurrent decoder with an encoder."""

    kind: CellKind  # recurrent network with this cell
    attention: AttentionKind = "additive"  # attention score; "none": the decoder receives one fixed vector instead
    # which state of the decoder attends: "bahdanau": the previous one, before each step; "luong": the current one, after the step
    decoder: DecoderKind = "bahdanau"
    input_feeding: bool = False  # feed what attention found to the next step of the decoder; only for `decoder = "luong"`
    width: int = 256  # dimension of the hidden state of the decoder, and of a recurrent encoder in each direction
    depth: int = 1  # number of layers of the decoder, and of a recurrent encoder
    embedding: SizedEmbeddingConfig = SizedEmbeddingConfig()  # token embeddings
    # whether the decoder's reset gate acts after or before the product with U; only for gru; if not set, "before", or "after" for
    # `attention = "none"` and `decoder = "luong"`
    reset: Reset | None = None
    # dropout rate on the embeddings or the cells of the image, between layers, and before the output layer
    dropout: float = 0.0
    tied: bool = False  # use the target embedding as the output layer, too, with a projection in between

    def check(self) -> None:
        at_least_one(width=self.width, depth=self.depth)
        check_sizes(self)
        check_fraction("dropout", self.dropout)
        if self.input_feeding and self.decoder != "luong":
            raise ConfigError(
                f'model.input_feeding only applies to model.decoder = "luong", and it is "{self.decoder}"; remove '
                "model.input_feeding, or change model.decoder"
            )
        check_cell(self.kind, reset=self.reset is not None)

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.embedding.width or self.width

    @property
    def feeds_context(self) -> bool:
        """True if the source as one vector enters every step."""
        return False

    @property
    def decoder_reset(self) -> Reset:
        published = self.attention != "none" and self.decoder == "bahdanau"
        return self.reset or ("before" if CELLS[self.kind].has_reset and published else "after")


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(RecurrentDecoderConfig):
    """A recurrent encoder and a recurrent decoder, with or without attention."""

    family: Literal["seq2seq"] = "seq2seq"  # generates a target text from a source text
    bidirectional: bool | None = None  # encode the source in both directions; if not set, true, or false for `attention = "none"`
    reverse: bool = False  # encode the source from its last token to its first; only for `attention = "none"`
    # feed the fixed vector to every step of the decoder and to the output layer; only for `attention = "none"`
    feed_context: bool = renamed("feed", default=False)
    shared: bool = False  # use one embedding for source and target; needs `tokenizer.joint`

    def __post_init__(self) -> None:
        self.check()
        if self.decoder == "luong" and self.attention == "none":
            raise ConfigError('model.decoder = "luong" needs attention, and model.attention is "none"; remove one of them')
        if self.attention != "none":
            for name in ("reverse", "feed_context"):
                if getattr(self, name):
                    raise ConfigError(
                        f'model.{name} only applies without attention, and model.attention is "{self.attention}"; '
                        f'remove model.{name}, or set model.attention = "none"'
                    )
            if not SCORES[self.attention].projects_query and self.encoder_bidirectional:
                raise ConfigError(
                    f'model.attention = "{self.attention}" needs a state and a memory of the same width, and a bidirectional '
                    f"encoder doubles the memory; choose {kinds_for_any_widths()}, or set model.bidirectional = false"
                )
        elif self.encoder_bidirectional:
            raise ConfigError(
                'with model.attention = "none" the decoder starts from the encoder\'s last state, and a bidirectional encoder '
                "has two; remove model.bidirectional, or choose an attention"
            )

    @property
    def feeds_context(self) -> bool:
        return self.feed_context

    @property
    def one_vocabulary(self) -> str | None:
        return "model.shared" if self.shared else None

    @property
    def encoder_bidirectional(self) -> bool:
        return self.attention != "none" if self.bidirectional is None else self.bidirectional


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class TransformerSeq2SeqConfig(TransformerSettings):
    """A Transformer encoder and decoder, `depth` layers each unless `encoder_depth` is set."""

    family: Literal["seq2seq"] = "seq2seq"  # generates a target text from a source text
    encoder_depth: int | None = None  # number of layers of the encoder; if not set, `depth`
    shared: bool = False  # use one embedding for source and target; needs `tokenizer.joint`
    output_scale: bool = False  # divide the input of the output layer by √`width`, as T5 does where it is tied

    def __post_init__(self) -> None:
        at_least_one(encoder_depth=self.encoder_depth)
        if self.feedforward.parallel:
            raise ConfigError(
                "model.feedforward.parallel does not apply to a decoder that attends to a source. Remove it, or choose "
                'model.kind = "prefix".'
            )
        super().__post_init__()

    @property
    def one_vocabulary(self) -> str | None:
        return "model.shared" if self.shared else None

    def positions(self, tokens: int) -> int:
        return tokens + 1  # <eos>


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class PrefixConfig(TransformerSettings):
    """One Transformer that reads the source bidirectionally and continues it with the target; needs `tokenizer.joint`. `context`
    counts both sides."""

    family: Literal["seq2seq"] = "seq2seq"  # generates a target text from a source text
    # one Transformer for source and target
    kind: Literal["prefix"]  # type: ignore[assignment]

    @property
    def longest_side(self) -> int | None:
        return None if self.longest is None else self.longest // 2

    @property
    def one_vocabulary(self) -> str:
        return 'model.kind = "prefix"'

    def positions(self, tokens: int) -> int:
        return 2 * (tokens + 1)  # both sides, each with <eos>


Seq2SeqConfig = RecurrentSeq2SeqConfig | TransformerSeq2SeqConfig | PrefixConfig
