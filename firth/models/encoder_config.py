"""The `[model]` table of a recipe with family = "encoder"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.layers.pool import PoolKind
from firth.layers.recurrent import CellKind
from firth.models.config import TransformerSettings, at_least_one, check_fraction, check_vectors


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """A classifier that reads the mean of a text's word vectors."""

    family: Literal["encoder"] = "encoder"
    kind: Literal["average"]
    width: int = 100  # of the word vectors
    dropout: float = 0.0  # on their mean
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        at_least_one(width=self.width)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig:
    """An RNN, LSTM or GRU that reads a text, both ways unless told otherwise."""

    family: Literal["encoder"] = "encoder"
    kind: CellKind
    width: int = 128  # in each direction
    depth: int = 1
    embedding: int | None = None  # width of the input vectors; as wide as the model where not given
    bidirectional: bool = True
    pool: PoolKind = "max"  # how a text becomes one vector
    characters: int = 0  # tagging: width of the vectors of bytes, from which the spelling of a word is read; 0: it is not
    dropout: float = 0.0  # on the embedded tokens, between levels, and on the vector of the text
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth, embedding=self.embedding)
        _check_characters(self.characters)
        check_fraction("dropout", self.dropout)
        check_vectors(self.vectors, self.vectors_fixed)


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(TransformerSettings):
    """A Transformer that reads a text both ways."""

    family: Literal["encoder"] = "encoder"
    pool: PoolKind = "mean"  # how a text becomes one vector
    segments: int = 0  # parts of a text that are told apart, such as question and context; 0: none are
    characters: int = 0  # tagging: width of the vectors of bytes, from which the spelling of a word is read; 0: it is not
    vectors: str | None = None  # a file of word vectors that the embedding starts from
    vectors_fixed: bool = False  # and keeps

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
