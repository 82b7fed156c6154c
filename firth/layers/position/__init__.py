"""Position schemes: how a Transformer knows where a token stands. One file per scheme holds its equation, the places where it
acts (scheme.py), its parameters, and its settings with their defaults and checks.

To add a scheme, write such a file with a `PositionScheme`, and add the class to SCHEMES and its name to PositionKind.
"""

from __future__ import annotations

from typing import Literal, get_args

from firth.errors import ConfigError
from firth.layers.position.alibi import ALiBi, Slopes, alibi
from firth.layers.position.disentangled import Disentangled, DisentangledScheme, disentangled
from firth.layers.position.frequencies import angles
from firth.layers.position.learned import Learned
from firth.layers.position.none import NoPosition
from firth.layers.position.relative import Bias, Relative
from firth.layers.position.rotary import Rotary, Rotation, partial_order, rotary, rotate
from firth.layers.position.scheme import LayerPosition, LayerTables, PositionScheme, PositionSettings, RotaryTurn, Unprojected
from firth.layers.position.shaw import Shaw, ShawScheme, shaw
from firth.layers.position.sinusoidal import Sinusoidal, sinusoid
from firth.layers.position.t5 import Buckets, Distances, buckets

SCHEMES: tuple[type[PositionScheme], ...] = (
    NoPosition,
    Learned,
    Sinusoidal,
    Rotary,
    ShawScheme,
    Distances,
    Slopes,
    DisentangledScheme,
)
# The kinds of SCHEMES, in their order.
PositionKind = Literal["none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi", "disentangled"]
KINDS: tuple[PositionKind, ...] = get_args(PositionKind)


def position_scheme(kind: PositionKind) -> type[PositionScheme]:
    return next(scheme for scheme in SCHEMES if scheme.kind == kind)


def check_settings(kind: PositionKind, settings: PositionSettings) -> None:
    """Raise if a setting belongs to another scheme, or does not fit this one."""
    chosen = position_scheme(kind)
    for name in dict.fromkeys(name for scheme in SCHEMES for name in scheme.settings):
        if getattr(settings, name) is not None and name not in chosen.settings:
            owners = " or ".join(f'"{scheme.kind}"' for scheme in SCHEMES if name in scheme.settings)
            raise ConfigError(
                f'model.{name} = {getattr(settings, name)} only applies to model.position = {owners}; given "{kind}". '
                f"Remove model.{name}, or change the position"
            )
    chosen.check(settings)


__all__ = [
    "KINDS",
    "SCHEMES",
    "ALiBi",
    "Bias",
    "Buckets",
    "Disentangled",
    "DisentangledScheme",
    "Distances",
    "LayerPosition",
    "LayerTables",
    "Learned",
    "NoPosition",
    "PositionKind",
    "PositionScheme",
    "PositionSettings",
    "Relative",
    "Rotary",
    "RotaryTurn",
    "Rotation",
    "Shaw",
    "ShawScheme",
    "Sinusoidal",
    "Slopes",
    "Unprojected",
    "alibi",
    "angles",
    "buckets",
    "check_settings",
    "disentangled",
    "partial_order",
    "position_scheme",
    "rotary",
    "rotate",
    "shaw",
    "sinusoid",
]
