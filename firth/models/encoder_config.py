"""The `[model]` table of a recipe with family = "encoder"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.config import with_old_names
from firth.errors import ConfigError
from firth.layers.activation import Plain
from firth.layers.attention.config import WindowedConfig
from firth.layers.pool import PoolerKind, PoolKind
from firth.layers.recurrent import CellKind
from firth.models.config import ModelSettings, TransformerSettings, at_least_one, at_most, check_fraction, check_sizes
from firth.models.embedding_config import EncoderEmbeddingConfig, SizedEmbeddingConfig, TokenEmbeddingConfig
from firth.models.spelling import JoinedSpellingConfig, SpellingConfig
from firth.models.tag_readouts import TagReadoutKind


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class AverageConfig(ModelSettings):
    """The mean of a text's word vectors, as the input of a classifier."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    kind: Literal["average"]  # mean of the word vectors
    width: int = 100  # dimension of the word vectors
    embedding: TokenEmbeddingConfig = TokenEmbeddingConfig()  # word vectors
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    dropout: float = 0.0  # dropout rate on the mean of the word vectors

    def __post_init__(self) -> None:
        at_least_one(width=self.width)
        check_fraction("dropout", self.dropout)


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig(ModelSettings):
    """A recurrent encoder, bidirectional by default."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    kind: CellKind  # recurrent network with this cell
    width: int = 128  # dimension of the hidden state, in each direction
    depth: int = 1  # number of layers
    embedding: SizedEmbeddingConfig = SizedEmbeddingConfig()  # token embeddings
    bidirectional: bool = True  # read the text in both directions
    # how the vectors of a text's tokens become one vector: the first, the last, their mean, their maximum, or learned attention
    pool: PoolKind = "max"
    spelling: JoinedSpellingConfig = JoinedSpellingConfig()  # use of each word's spelling, for taggers
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    dropout: float = 0.0  # dropout rate on the embedded tokens, between layers, and before the output layer

    def __post_init__(self) -> None:
        at_least_one(width=self.width, depth=self.depth)
        check_sizes(self)
        check_fraction("dropout", self.dropout)

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.embedding.width or self.width


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(TransformerSettings):
    """A bidirectional Transformer encoder."""

    family: Literal["encoder"] = "encoder"  # turns a text into vectors
    # how the vectors of a text's tokens become one vector: the first, the last, their mean, their maximum, or learned attention
    pool: PoolKind = "mean"
    # activation of a linear layer between that vector and the classes, as BERT has it; if not set, there is no such layer
    pooler: PoolerKind | None = None
    attention: WindowedConfig = WindowedConfig()  # heads, and how they attend
    embedding: EncoderEmbeddingConfig = EncoderEmbeddingConfig()  # token embeddings
    # number of groups of consecutive layers that share their weights, as in ALBERT: 1 for all layers; must divide `depth`; if not
    # set, every layer has its own
    layer_groups: int | None = None
    segments: int = 0  # number of segment embeddings, such as one for the question and one for the passage; 0: none
    spelling: SpellingConfig = SpellingConfig()  # use of each word's spelling, for taggers
    # how scores become tags: the best tag of each word (softmax), or the best sequence of tags (crf)
    readout: TagReadoutKind = "softmax"
    # a layer norm(φ(W x + c)) before the output layer of a classifier, tagger or question answerer, as in ModernBERT; masked
    # language models always have one
    transform: bool = False
    transform_bias: bool = True  # biases in that layer
    transform_activation: Plain = "gelu"  # activation φ of that layer

    def __post_init__(self) -> None:
        if self.segments < 0:
            raise ConfigError(f"model.segments is {self.segments}; expected 0 or more")
        at_most("segments", self.segments)
        if self.transform and self.pooler is not None:
            raise ConfigError(
                f'model.transform = true and model.pooler = "{self.pooler}" both add a layer before the classes. Remove one.'
            )
        super().__post_init__()
        self._check_groups()

    def _check_groups(self) -> None:
        """Refuse layers that share their weights but differ."""
        at_least_one(layer_groups=self.layer_groups)
        groups = self.layer_groups or self.depth
        if self.depth % groups:
            raise ConfigError(f"model.layer_groups = {groups} does not divide model.depth = {self.depth}; choose one that does")
        shared = self.depth // groups
        if shared > 1 and self.embedding.norm == "replaces_first":
            raise ConfigError(
                'model.embedding.norm = "replaces_first" removes a norm from the first layer only, but model.layer_groups = '
                f"{groups} shares its weights with other layers. Set model.embedding.norm = true."
            )
        mixers = [self.attention.in_layer(layer) for layer in range(self.depth)]
        if any(mixer != mixers[n - n % shared] for n, mixer in enumerate(mixers)):
            raise ConfigError(
                f"model.layer_groups = {groups} shares weights among layers that model.attention.window_pattern = "
                f'"{self.attention.window_pattern}" makes different. Remove one of them.'
            )

    @property
    def embedding_width(self) -> int:
        return self.embedding.width or self.width


EncoderConfig = AverageConfig | RecurrentEncoderConfig | TransformerEncoderConfig
