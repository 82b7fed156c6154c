"""The `[model]` table of a recipe with family = "seq2seq"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.layers.attention.score import ScoreKind
from firth.layers.recurrent import CellKind, Reset
from firth.models.config import TransformerSettings, at_least_one, check_fraction, check_vectors

AttentionKind = Literal["none"] | ScoreKind


@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig:
    """An RNN, LSTM or GRU that reads, and one that writes."""

    family: Literal["seq2seq"] = "seq2seq"
    kind: CellKind
    attention: AttentionKind = "additive"  # none: the decoder is given a fixed vector; otherwise the score
    width: int = 256  # of the decoder, and of the encoder in each direction
    depth: int = 1  # levels of each
    embedding: int | None = None  # width of the input vectors; as wide as the model where not given
    bidirectional: bool | None = None  # of the encoder; where not given, it is with attention
    reverse: bool = False  # read the source last token first; without attention only
    feed: bool = False  # the fixed vector in every step and before the output layer; without attention only
    reset: Reset | None = None  # of the decoder, gru only; where not given, "before" with attention, as published
    dropout: float = 0.0  # on embeddings, between levels, and before the output layer
    tied: bool = False  # the output layer reuses the target's embedding, with one matrix between
    shared: bool = False  # source and target have one embedding; needs tokenizer.joint
    vectors: str | None = None  # a file of word vectors that the embedding of the source starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        check_fraction("dropout", self.dropout)
        if self.attention != "none":
            for name in ("reverse", "feed"):
                if getattr(self, name):
                    raise ConfigError(
                        f'model.{name} is for a decoder that is given a fixed vector, and model.attention is "{self.attention}"; '
                        f'leave model.{name} out, or set model.attention = "none"'
                    )
            if self.attention not in ("additive", "bilinear") and self.both_ways:
                raise ConfigError(
                    f'model.attention = "{self.attention}" compares numbers one by one, and a bidirectional encoder leaves '
                    'twice as many as the decoder has; choose "additive" or "bilinear", or model.bidirectional = false'
                )
        elif self.both_ways:
            raise ConfigError(
                'with model.attention = "none" the decoder starts from the encoder\'s last state, which a bidirectional one has '
                "two of; leave model.bidirectional out, or choose an attention"
            )
        if self.reset is not None and self.kind != "gru":
            raise ConfigError(f'model.reset is of the GRU; leave it out for model.kind = "{self.kind}"')

    @property
    def both_ways(self) -> bool:
        return self.attention != "none" if self.bidirectional is None else self.bidirectional

    @property
    def decoder_reset(self) -> Reset:
        return self.reset or ("before" if self.kind == "gru" and self.attention != "none" else "after")


@dataclass(frozen=True, kw_only=True)
class TransformerSeq2SeqConfig(TransformerSettings):
    """A Transformer that reads, and one that writes. `depth` levels each, unless `encoder_depth` says otherwise."""

    family: Literal["seq2seq"] = "seq2seq"
    encoder_depth: int | None = None
    shared: bool = False  # source and target have one embedding; needs tokenizer.joint
    vectors: str | None = None  # a file of word vectors that the embedding of the source starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        at_least_one(encoder_depth=self.encoder_depth)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class PrefixConfig(TransformerSettings):
    """One Transformer that reads the source both ways and goes on from it; needs tokenizer.joint. Its `context` holds both."""

    family: Literal["seq2seq"] = "seq2seq"
    kind: Literal["prefix"]  # type: ignore[assignment]  # what tells it apart
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        super().__post_init__()


Seq2SeqConfig = RecurrentSeq2SeqConfig | TransformerSeq2SeqConfig | PrefixConfig
