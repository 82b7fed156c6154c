"""The table [model.embedding] of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from firth.config import SubTable, renamed
from firth.errors import ConfigError

EmbeddingNorm = bool | Literal["replaces_first"]


@dataclass(frozen=True, kw_only=True)
class TokenEmbeddingConfig(SubTable):
    """The token embeddings of every model."""

    short: ClassVar[str | None] = None

    # file of word vectors to initialise the embedding with, that of the source where there are two; if not set, it is random
    vectors: str | None = renamed(".vectors", default=None)
    vectors_fixed: bool = renamed(".vectors_fixed", default=False)  # keep those vectors as they are instead of training them

    def __post_init__(self) -> None:
        if self.vectors_fixed and self.vectors is None:
            raise ConfigError(
                "model.embedding.vectors_fixed needs model.embedding.vectors, which is missing. Set it to a file, or remove "
                "model.embedding.vectors_fixed."
            )


@dataclass(frozen=True, kw_only=True)
class SizedEmbeddingConfig(TokenEmbeddingConfig):
    """Embeddings of a width of their own."""

    short: ClassVar[str | None] = "width"

    width: int | None = None  # dimension of the token embeddings; if not set, that of the model


@dataclass(frozen=True, kw_only=True)
class TransformerEmbeddingConfig(TokenEmbeddingConfig):
    """The embeddings of a Transformer."""

    # normalise the embedded tokens; "replaces_first": and leave out the norm before the first attention
    norm: EmbeddingNorm = renamed(".embedding_norm", default=False)
    # multiply the embeddings by the square root of their dimension; if not set, only for sinusoidal positions
    scale: bool | None = renamed(".embedding_scale", default=None)


@dataclass(frozen=True, kw_only=True)
class EncoderEmbeddingConfig(SizedEmbeddingConfig, TransformerEmbeddingConfig):
    """The embeddings of a Transformer encoder, of any width, with a projection to that of the model."""
