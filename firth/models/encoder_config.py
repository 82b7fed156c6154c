"""The `[model]` table of a recipe with family = "encoder"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.layers.pool import PoolerKind, PoolKind
from firth.layers.recurrent import CellKind
from firth.models.config import (
    TransformerSettings,
    at_least_one,
    at_most,
    check_fraction,
    check_vectors,
    check_windows,
    in_pattern,
    with_local_base,
)
from firth.models.tag_readouts import TagReadoutKind


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """The mean of a text's word vectors, as the input of a classifier."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    kind: Literal["average"]  # mean of the word vectors
    width: int = 100  # dimension of the word vectors
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    dropout: float = 0.0  # dropout rate on the mean of the word vectors
    vectors: str | None = None  # file of word vectors to initialise the embedding with; if not set, the embedding is random
    vectors_fixed: bool = False  # keep those vectors as they are instead of training them

    def __post_init__(self) -> None:
        at_least_one(width=self.width)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig:
    """A recurrent encoder, bidirectional by default."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    kind: CellKind  # recurrent network with this cell
    width: int = 128  # dimension of the hidden state, in each direction
    depth: int = 1  # number of layers
    embedding: int | None = None  # dimension of the token embeddings; if not set, `width`
    bidirectional: bool = True  # read the text in both directions
    # how the vectors of a text's tokens become one vector: the first, the last, their mean, their maximum, or learned attention
    pool: PoolKind = "max"
    characters: int = 0  # dimension of the byte embeddings that encode each word's spelling; 0: spelling is not used
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    dropout: float = 0.0  # dropout rate on the embedded tokens, between layers, and before the output layer
    vectors: str | None = None  # file of word vectors to initialise the embedding with; if not set, the embedding is random
    vectors_fixed: bool = False  # keep those vectors as they are instead of training them

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        _check_characters(self.characters)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(TransformerSettings):
    """A bidirectional Transformer encoder."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    # how the vectors of a text's tokens become one vector: the first, the last, their mean, their maximum, or learned attention
    pool: PoolKind = "mean"
    # activation of a linear layer between that vector and the classes, as BERT has it; if not set, there is no such layer
    pooler: PoolerKind | None = None
    embedding: int | None = None  # dimension of the token embeddings, with a projection to `width`; if not set, `width`
    # number of tokens in the window that a token attends to, itself in the middle; must be odd; if not set, the whole text
    span: int | None = None
    # layers that attend to the window: "L" (local) or "G" (global) for each, repeated over all layers, as "GLL"; if not set, all
    window_pattern: str | None = None
    # base of the wavelengths of rotary positions in the layers that attend to a window; if not set, `position_base`
    position_base_local: float | None = None
    segments: int = 0  # number of segment embeddings, such as one for the question and one for the passage; 0: none
    characters: int = 0  # dimension of the byte embeddings that encode each word's spelling; 0: spelling is not used
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    transform_bias: bool = True  # biases in the layer before the output layer of a masked language model
    vectors: str | None = None  # file of word vectors to initialise the embedding with; if not set, the embedding is random
    vectors_fixed: bool = False  # keep those vectors as they are instead of training them

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        _check_characters(self.characters)
        at_least_one(embedding=self.embedding, span=self.span)
        if self.span is not None and self.span % 2 == 0:
            raise ConfigError(f"model.span is {self.span}; expected an odd number, with the current token in the middle")
        check_windows(self.span is not None, "model.span", self.window_pattern, self.position_base_local, self.position)
        if self.segments < 0:
            raise ConfigError(f"model.segments is {self.segments}; expected 0 or more")
        at_most("segments", self.segments)
        super().__post_init__()

    @property
    def embedding_width(self) -> int:
        return self.embedding or self.width

    def is_local(self, layer: int) -> bool:
        return self.span is not None and in_pattern(self.window_pattern, layer)

    def in_windows(self) -> TransformerEncoderConfig | None:
        return with_local_base(self, self.position_base_local)


def _check_characters(characters: int) -> None:
    if characters < 0:
        raise ConfigError(f"model.characters is {characters}; expected 0 or more")
    at_most("characters", characters)


EncoderConfig = AverageConfig | RecurrentEncoderConfig | TransformerEncoderConfig
