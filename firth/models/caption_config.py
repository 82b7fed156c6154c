"""The `[model]` table of a recipe with family = "caption"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from firth.config import with_old_names
from firth.errors import ConfigError
from firth.layers.attention.score import ScoreKind
from firth.layers.recurrent import CellKind, Reset, cell_class
from firth.models.config import TransformerSettings, at_least_one, at_most, check_cell, check_fraction, check_sizes
from firth.models.embedding_config import SizedEmbeddingConfig
from firth.models.seq2seq_config import DecoderKind

ImageEncoderKind = Literal["conv", "patch"]


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionConfig:
    """A convolutional encoder and a recurrent decoder that attends to the cells of the image."""

    family: Literal["caption"] = "caption"  # writes a caption for an image
    kind: CellKind  # recurrent network with this cell
    # channels of each convolution of the image encoder; all but the last halve the sides of the image
    channels: tuple[int, ...] = (32, 64, 128, 128)
    attention: ScoreKind = "additive"  # attention score
    # which state of the decoder attends: "bahdanau": the previous one, before each step; "luong": the current one, after the step
    decoder: DecoderKind = "bahdanau"
    input_feeding: bool = False  # feed what attention found to the next step of the decoder; only for `decoder = "luong"`
    width: int = 256  # dimension of the hidden state of the decoder
    depth: int = 1  # number of layers of the decoder
    embedding: SizedEmbeddingConfig = SizedEmbeddingConfig()  # token embeddings
    # whether the reset gate acts after or before the product with U; only for gru; if not set, "before", or "after" for
    # `decoder = "luong"`
    reset: Reset | None = None
    dropout: float = 0.0  # dropout rate on the cells of the image, the embeddings, between layers, and before the output layer
    tied: bool = False  # use the embedding as the output layer, too, with a projection in between

    feed_context: ClassVar[bool] = False  # of seq2seq without attention

    def __post_init__(self) -> None:
        check_channels(self.channels)
        at_least_one(width=self.width, depth=self.depth)
        check_sizes(self)
        check_fraction("dropout", self.dropout)
        if self.input_feeding and self.decoder != "luong":
            raise ConfigError(f'model.input_feeding needs model.decoder = "luong"; it is "{self.decoder}". Change one of them.')
        if self.attention not in ("additive", "bilinear") and self.channels[-1] != self.width:
            raise ConfigError(
                f'model.attention = "{self.attention}" compares a state of width {self.width} with {self.channels[-1]} channels. '
                'Make them equal, or choose "additive" or "bilinear".'
            )
        check_cell(self.kind, reset=self.reset is not None)

    @property
    def embedding_width(self) -> int:
        """The dimension of the token embeddings."""
        return self.embedding.width or self.width

    @property
    def decoder_reset(self) -> Reset:
        return self.reset or ("before" if cell_class(self.kind).has_reset and self.decoder == "bahdanau" else "after")


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class TransformerCaptionConfig(TransformerSettings):
    """An image encoder and a Transformer decoder of `depth` layers. `context` counts the tokens of the caption."""

    family: Literal["caption"] = "caption"  # writes a caption for an image
    encoder: ImageEncoderKind = "patch"  # what makes cells of the image: a linear map of each patch, or convolutions
    patch: int = 8  # side of a patch in pixels; only for `encoder = "patch"`
    # channels of each convolution, of which all but the last halve the sides of the image; only for `encoder = "conv"`
    channels: tuple[int, ...] = (32, 64, 128, 128)
    encoder_depth: int | None = None  # Transformer layers over the cells of the image, 0 or more; if not set, `depth`

    def __post_init__(self) -> None:
        check_channels(self.channels)
        at_least_one(patch=self.patch)
        if self.encoder_depth is not None and self.encoder_depth < 0:
            raise ConfigError(f"model.encoder_depth is {self.encoder_depth}; expected 0 or more")
        at_most("encoder_depth", self.encoder_depth or 0)
        if self.feedforward.parallel:
            raise ConfigError("model.feedforward.parallel has no place for the decoder's attention to the image. Remove it.")
        super().__post_init__()

    @property
    def layers_over_cells(self) -> int:
        return self.depth if self.encoder_depth is None else self.encoder_depth


CaptionModelConfig = RecurrentCaptionConfig | TransformerCaptionConfig


def check_channels(channels: tuple[int, ...]) -> None:
    if not channels or min(channels) < 1:
        raise ConfigError(f"model.channels is {list(channels)}; expected one or more numbers, at least 1 each")
    at_most("channels", max(channels))
