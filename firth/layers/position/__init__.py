"""Where a token stands, in the one place where each scheme acts: on the embedding (learned, sinusoidal), on q and k (rotary),
on the score (ALiBi, T5's buckets), or on keys and values (Shaw)."""

from typing import Literal

from firth.layers.position.absolute import Learned, Sinusoidal, angles, sinusoid
from firth.layers.position.relative import ALiBi, Buckets, Distances, Relative, Shaw, Slopes, alibi, buckets, shaw
from firth.layers.position.rotation import Rotary, Rotation, Turn, rotary, rotate

PositionKind = Literal["none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi"]

__all__ = [
    "ALiBi",
    "Buckets",
    "Distances",
    "Learned",
    "PositionKind",
    "Relative",
    "Rotary",
    "Rotation",
    "Shaw",
    "Sinusoidal",
    "Slopes",
    "Turn",
    "alibi",
    "angles",
    "buckets",
    "rotary",
    "rotate",
    "shaw",
    "sinusoid",
]
