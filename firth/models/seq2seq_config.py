"""The `[model]` table of a recipe with family = "seq2seq"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.attention.score import ScoreKind
from firth.layers.recurrent import CellKind, Reset, cell_class
from firth.models.config import TransformerSettings, at_least_one, check_cell, check_fraction, check_vectors

AttentionKind = Literal["none"] | ScoreKind


@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig:
    """A recurrent encoder and a recurrent decoder."""

    family: Literal["seq2seq"] = "seq2seq"
    kind: CellKind
    attention: AttentionKind = "additive"  # the score; none: the decoder gets one fixed vector instead
    width: int = 256  # of the decoder, and of the encoder in each direction
    depth: int = 1  # layers of each
    embedding: int | None = None  # width of the input vectors; default: width
    bidirectional: bool | None = None  # the encoder; default: yes with attention, no without
    reverse: bool = False  # encode the source last token first; without attention only
    feed_context: bool = renamed("feed", default=False)  # the fixed vector in every step and the output; without attention only
    reset: Reset | None = None  # of the decoder, gru only; default: "before" with attention, as published, else "after"
    dropout: float = 0.0  # on embeddings, between layers, and before the output layer
    tied: bool = False  # the output layer reuses the target's embedding, with a projection in between
    shared: bool = False  # source and target share one embedding; needs tokenizer.joint
    vectors: str | None = None  # a file of word vectors to initialise the source embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        check_fraction("dropout", self.dropout)
        if self.attention != "none":
            for name in ("reverse", "feed_context"):
                if getattr(self, name):
                    raise ConfigError(
                        f'model.{name} only applies without attention, and model.attention is "{self.attention}"; '
                        f'remove model.{name}, or set model.attention = "none"'
                    )
            if self.attention not in ("additive", "bilinear") and self.encoder_bidirectional:
                raise ConfigError(
                    f'model.attention = "{self.attention}" needs a state and a memory of the same width, and a bidirectional '
                    'encoder doubles the memory; choose "additive" or "bilinear", or set model.bidirectional = false'
                )
        elif self.encoder_bidirectional:
            raise ConfigError(
                'with model.attention = "none" the decoder starts from the encoder\'s last state, and a bidirectional encoder '
                "has two; remove model.bidirectional, or choose an attention"
            )
        check_cell(self.kind, reset=self.reset is not None)

    @property
    def encoder_bidirectional(self) -> bool:
        return self.attention != "none" if self.bidirectional is None else self.bidirectional

    @property
    def decoder_reset(self) -> Reset:
        return self.reset or ("before" if cell_class(self.kind).has_reset and self.attention != "none" else "after")


@dataclass(frozen=True, kw_only=True)
class TransformerSeq2SeqConfig(TransformerSettings):
    """A Transformer encoder and decoder, `depth` layers each unless `encoder_depth` is set."""

    family: Literal["seq2seq"] = "seq2seq"
    encoder_depth: int | None = None
    shared: bool = False  # source and target share one embedding; needs tokenizer.joint
    vectors: str | None = None  # a file of word vectors to initialise the source embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        at_least_one(encoder_depth=self.encoder_depth)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class PrefixConfig(TransformerSettings):
    """One Transformer that encodes the source bidirectionally and continues it; needs tokenizer.joint. `context` counts both."""

    family: Literal["seq2seq"] = "seq2seq"
    kind: Literal["prefix"]  # type: ignore[assignment]  # distinguishes it from the others
    vectors: str | None = None  # a file of word vectors to initialise the embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        super().__post_init__()


Seq2SeqConfig = RecurrentSeq2SeqConfig | TransformerSeq2SeqConfig | PrefixConfig
