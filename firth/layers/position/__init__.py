"""Position schemes: how a Transformer knows where a token stands. One file per scheme holds its equation, the places where it
acts (scheme.py), its parameters, and its settings with their defaults and checks.

To add a scheme, write such a file with a `PositionScheme` and its settings, and list both below.
"""

from __future__ import annotations

from typing import Literal, get_args

from firth.layers.position.alibi import ALiBi, ALiBiConfig, Slopes, alibi
from firth.layers.position.disentangled import Disentangled, DisentangledConfig, DisentangledScheme, disentangled
from firth.layers.position.frequencies import angles
from firth.layers.position.learned import Learned, LearnedConfig
from firth.layers.position.learned_t5 import LearnedAndDistances, LearnedT5Config
from firth.layers.position.none import NoPosition, NoPositionConfig
from firth.layers.position.relative import Bias, Relative
from firth.layers.position.rotary import Rotary, RotaryConfig, Rotation, partial_order, rotary, rotate
from firth.layers.position.scheme import (
    LayerPosition,
    LayerTables,
    PositionConfig,
    PositionScheme,
    PositionSettings,
    RotaryTurn,
    Unprojected,
)
from firth.layers.position.shaw import Shaw, ShawConfig, ShawScheme, shaw
from firth.layers.position.sinusoidal import Sinusoidal, SinusoidalConfig, sinusoid
from firth.layers.position.t5 import Buckets, Distances, T5Config, buckets

SCHEMES: tuple[type[PositionScheme], ...] = (
    NoPosition,
    Learned,
    Sinusoidal,
    Rotary,
    ShawScheme,
    Distances,
    Slopes,
    DisentangledScheme,
    LearnedAndDistances,
)
AnyPosition = (
    NoPositionConfig
    | LearnedConfig
    | SinusoidalConfig
    | RotaryConfig
    | ShawConfig
    | T5Config
    | ALiBiConfig
    | DisentangledConfig
    | LearnedT5Config
)  # the table [model.position]
# The kinds of SCHEMES, in their order.
PositionKind = Literal["none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi", "disentangled", "learned_t5"]
KINDS: tuple[PositionKind, ...] = get_args(PositionKind)


def position_scheme(kind: str) -> type[PositionScheme]:
    return next(scheme for scheme in SCHEMES if scheme.kind == kind)


__all__ = [
    "KINDS",
    "SCHEMES",
    "ALiBi",
    "ALiBiConfig",
    "AnyPosition",
    "Bias",
    "Buckets",
    "Disentangled",
    "DisentangledConfig",
    "DisentangledScheme",
    "Distances",
    "LayerPosition",
    "LayerTables",
    "Learned",
    "LearnedAndDistances",
    "LearnedConfig",
    "LearnedT5Config",
    "NoPosition",
    "NoPositionConfig",
    "PositionConfig",
    "PositionKind",
    "PositionScheme",
    "PositionSettings",
    "Relative",
    "Rotary",
    "RotaryConfig",
    "RotaryTurn",
    "Rotation",
    "Shaw",
    "ShawConfig",
    "ShawScheme",
    "Sinusoidal",
    "SinusoidalConfig",
    "Slopes",
    "T5Config",
    "Unprojected",
    "alibi",
    "angles",
    "buckets",
    "disentangled",
    "partial_order",
    "position_scheme",
    "rotary",
    "rotate",
    "shaw",
    "sinusoid",
]
