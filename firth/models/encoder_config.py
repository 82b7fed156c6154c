"""The `[model]` table of a recipe with family = "encoder"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.layers.pool import PoolKind
from firth.layers.recurrent import CellKind
from firth.models.config import TransformerSettings, at_least_one, check_fraction, check_vectors
from firth.models.tag_readouts import TagReadoutKind


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """The mean of a text's word vectors, as the input of a classifier."""

    family: Literal["encoder"] = "encoder"
    kind: Literal["average"]
    width: int = 100  # of the word vectors
    readout: TagReadoutKind = "softmax"  # tagging: how scores become tags
    dropout: float = 0.0  # on their mean
    vectors: str | None = None  # a file of word vectors to initialise the embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        at_least_one(width=self.width)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig:
    """A recurrent encoder, bidirectional by default."""

    family: Literal["encoder"] = "encoder"
    kind: CellKind
    width: int = 128  # in each direction
    depth: int = 1
    embedding: int | None = None  # width of the input vectors; default: width
    bidirectional: bool = True
    pool: PoolKind = "max"  # how the vectors of a text become one
    characters: int = 0  # tagging: width of the byte vectors that encode a word's spelling; 0: no spelling
    readout: TagReadoutKind = "softmax"  # tagging: how scores become tags
    dropout: float = 0.0  # on the embedded tokens, between layers, and on the vector of the text
    vectors: str | None = None  # a file of word vectors to initialise the embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        _check_characters(self.characters)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(TransformerSettings):
    """A bidirectional Transformer encoder."""

    family: Literal["encoder"] = "encoder"
    pool: PoolKind = "mean"  # how the vectors of a text become one
    segments: int = 0  # parts of a text with their own embedding, such as question and context; 0: none
    characters: int = 0  # tagging: width of the byte vectors that encode a word's spelling; 0: no spelling
    readout: TagReadoutKind = "softmax"  # tagging: how scores become tags
    vectors: str | None = None  # a file of word vectors to initialise the embedding with
    vectors_fixed: bool = False  # do not train them

    def __post_init__(self) -> None:
        check_vectors(self.vectors, self.vectors_fixed)
        _check_characters(self.characters)
        if self.segments < 0:
            raise ConfigError(f"model.segments is {self.segments}; expected 0 or more")
        super().__post_init__()


def _check_characters(characters: int) -> None:
    if characters < 0:
        raise ConfigError(f"model.characters is {characters}; expected 0 or more")


EncoderConfig = AverageConfig | RecurrentEncoderConfig | TransformerEncoderConfig
