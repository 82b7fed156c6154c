"""The table [model.parametrization] of a recipe: how initial weights, learning rates and scores depend on the width of a
Transformer. width_rules.py applies it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from firth.config import SubTable
from firth.errors import ConfigError
from firth.layers.attention.config import AttentionConfig
from firth.layers.position import SCHEMES
from firth.layers.token_mixer import MIXERS

if TYPE_CHECKING:
    from firth.models.config import TransformerSettings

Model = TypeVar("Model", bound="TransformerSettings")


@dataclass(frozen=True, kw_only=True)
class ParametrizationConfig(SubTable):
    """How a Transformer depends on its width."""

    # "standard"; or "mup", maximal update parametrisation (Yang et al. 2022), with which the best learning rate of a narrow model
    # is also that of a wide one
    kind: Literal["standard", "mup"] = "standard"
    # width at which "mup" and "standard" are the same model and training; only for "mup", which needs it
    base_width: int | None = None

    def __post_init__(self) -> None:
        if self.kind == "mup" and self.base_width is None:
            raise ConfigError(
                'model.parametrization.kind = "mup" needs model.parametrization.base_width, the width at which it is the same as '
                '"standard". Set it to the width of your smallest model.'
            )
        if self.kind == "standard" and self.base_width is not None:
            raise ConfigError(
                f'model.parametrization.base_width = {self.base_width} only applies to model.parametrization.kind = "mup"; given '
                '"standard". Remove it.'
            )


STANDARD = ParametrizationConfig()


def at_base(model: Model) -> Model | None:
    """The standard model of the base width; None for a standard model, whatever its width."""
    base = model.parametrization.base_width
    return None if base is None else dataclasses.replace(model, width=base, parametrization=STANDARD)


def attention_of(model: TransformerSettings) -> AttentionConfig:
    """The attention of the layers. With muP, scores are q·k √D₀ / D instead of q·k / √D, D₀ being D at the base width: after
    training, q and k are aligned, so that q·k grows with D, not with √D (Yang et al. 2022, definition 4.1)."""
    base, attention = model.parametrization.base_width, model.attention
    if base is None:
        return attention
    width = attention.per_head(model.width)
    return dataclasses.replace(attention, scale=math.sqrt(attention.per_head(base) / width) / math.sqrt(width))


def check_parametrization(model: TransformerSettings) -> None:
    """Refuse settings for which muP has no rule here."""
    base = model.parametrization.base_width
    if base is None:
        return
    for setting, value, fits, advice in _needs(model):
        if not fits:
            shown = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
            raise ConfigError(f'model.{setting} is {shown}, for which model.parametrization.kind = "mup" has no rule. {advice}')
    try:
        at_base(model)
    except ConfigError as error:
        raise ConfigError(f"model.parametrization.base_width = {base} gives no model: {error}") from None


def _needs(model: TransformerSettings) -> list[tuple[str, object, bool, str]]:
    """Settings: name, value, whether muP allows it, and what to do otherwise."""
    attention, scheme = model.attention, SCHEMES[model.position.kind]
    scaled = scheme.scales_embedding if model.embedding.scale is None else model.embedding.scale
    kinds = [one.kind for one in SCHEMES if one.transfers]
    mixers = {MIXERS[attention.in_layer(layer)].kind for layer in range(model.depth)}
    other = min(mixers - {"softmax", "window"}, default=None)
    post = model.tied and model.norm.placement == "post"
    return [
        ("attention.kind", other, other is None, 'Set it to "softmax".'),
        ("attention.score", attention.score, attention.score == "scaled_dot", 'Set it to "scaled_dot".'),
        ("attention.scale", attention.scale, attention.scale is None, "Remove it."),
        ("position", scheme.kind, scheme.transfers, f"Choose one of: {', '.join(kinds)}."),
        ("embedding.scale", True, not scaled, "Set it to false."),
        ("embedding.vectors", model.embedding.vectors, model.embedding.vectors is None, "Remove it."),
        ("output_scale", True, not getattr(model, "output_scale", False), "Remove it."),
        ("norm.placement", "post", not post, 'Set model.tied to false, or norm.placement to "pre".'),
    ]
