"""No positions: attention then sees a set of keys, and only the mask tells their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.layers.position.scheme import PositionConfig, PositionScheme


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig(PositionConfig):
    """No positions."""

    kind: Literal["none"] = "none"


class NoPosition(PositionScheme):
    kind = "none"
    about = "No positions: only the mask tells the order of tokens."
    Config = NoPositionConfig
    oracle = "ABSENT"
