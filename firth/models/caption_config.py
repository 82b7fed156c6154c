"""The `[model]` table of a recipe with family = "caption"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from firth.config import with_old_names
from firth.errors import ConfigError
from firth.layers.attention.score import SCORES, ScoreKind, kinds_for_any_widths
from firth.models.config import TransformerSettings, at_least_one, at_most
from firth.models.seq2seq_config import RecurrentDecoderConfig

ImageEncoderKind = Literal["conv", "patch"]


@with_old_names("model")
@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionConfig(RecurrentDecoderConfig):
    """A convolutional encoder and a recurrent decoder that attends to the cells of the image."""

    family: Literal["caption"] = "caption"  # writes a caption for an image
    # channels of each convolution of the image encoder; all but the last halve the sides of the image
    channels: tuple[int, ...] = (32, 64, 128, 128)
    attention: ScoreKind = "additive"  # attention score

    def __post_init__(self) -> None:
        check_channels(self.channels)
        self.check()
        if not SCORES[self.attention].projects_query and self.channels[-1] != self.width:
            raise ConfigError(
                f'model.attention = "{self.attention}" compares a state of width {self.width} with {self.channels[-1]} channels. '
                f"Make them equal, or choose {kinds_for_any_widths()}."
            )


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

    output_scale: ClassVar[bool] = False  # of T5

    def __post_init__(self) -> None:
        check_channels(self.channels)
        at_least_one(patch=self.patch)
        if self.encoder_depth is not None and self.encoder_depth < 0:
            raise ConfigError(f"model.encoder_depth is {self.encoder_depth}; expected 0 or more")
        at_most("encoder_depth", self.encoder_depth or 0)
        if self.feedforward.parallel:
            raise ConfigError("model.feedforward.parallel does not apply to a decoder that attends to an image. Remove it.")
        super().__post_init__()
        if self.parametrization.kind != "standard":
            raise ConfigError(
                f'model.parametrization = "{self.parametrization.kind}" has no rule for image encoders; given "{self.family}". '
                "Remove it."
            )

    def positions(self, tokens: int) -> int:
        return tokens + 1  # <eos>

    @property
    def layers_over_cells(self) -> int:
        return self.depth if self.encoder_depth is None else self.encoder_depth


CaptionModelConfig = RecurrentCaptionConfig | TransformerCaptionConfig


def check_channels(channels: tuple[int, ...]) -> None:
    if not channels or min(channels) < 1:
        raise ConfigError(f"model.channels is {list(channels)}; expected one or more numbers, at least 1 each")
    at_most("channels", max(channels))
