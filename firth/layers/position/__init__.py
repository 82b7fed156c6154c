"""Position schemes: how a Transformer knows where a token stands. One file per scheme holds its equation, the places where it
acts (scheme.py), its parameters, and its settings with their defaults and checks.

To add a scheme, write such a file with a `PositionScheme` and its settings, and list the scheme below.
"""

from __future__ import annotations

from typing import Annotated

from firth.ideas import Ideas
from firth.layers.position.alibi import ALiBi, ALiBiConfig, Slopes, alibi
from firth.layers.position.disentangled import Disentangled, DisentangledScheme, disentangled
from firth.layers.position.frequencies import angles
from firth.layers.position.learned import Learned, LearnedConfig
from firth.layers.position.learned_t5 import LearnedAndDistances
from firth.layers.position.none import NoPosition
from firth.layers.position.relative import Bias, Relative
from firth.layers.position.rotary import Rotary, RotaryConfig, Rotation, partial_order, rotary, rotate
from firth.layers.position.scheme import LayerPosition, LayerTables, PositionConfig, PositionScheme, RotaryTurn, Unprojected
from firth.layers.position.shaw import Shaw, ShawScheme, shaw
from firth.layers.position.sinusoidal import Sinusoidal, sinusoid
from firth.layers.position.t5 import BucketBias, Distances, buckets

SCHEMES: Ideas[type[PositionScheme]] = Ideas(
    "position scheme",
    PositionScheme,
    (NoPosition, Learned, Sinusoidal, Rotary, ShawScheme, Distances, Slopes, DisentangledScheme, LearnedAndDistances),
)
PositionKind = Annotated[str, SCHEMES]
AnyPosition = Annotated[PositionConfig, SCHEMES]  # the table [model.position]

__all__ = [
    "SCHEMES", "ALiBi", "ALiBiConfig", "AnyPosition", "Bias", "BucketBias", "Disentangled", "DisentangledConfig",
    "DisentangledScheme", "Distances", "LayerPosition", "LayerTables", "Learned", "LearnedAndDistances", "LearnedConfig",
    "LearnedT5Config", "NoPosition", "PositionConfig", "PositionKind", "PositionScheme", "PositionSettings", "Relative",
    "Rotary", "RotaryConfig", "RotaryTurn", "Rotation", "Shaw", "ShawConfig", "ShawScheme", "Sinusoidal", "SinusoidalConfig",
    "Slopes", "T5Config", "Unprojected", "alibi", "angles", "buckets", "disentangled", "partial_order", "rotary", "rotate",
    "shaw", "sinusoid",
]  # fmt: skip
