"""No positions: attention then sees a set of keys, and only the mask tells their order."""

from __future__ import annotations

from firth.layers.position.scheme import PositionScheme


class NoPosition(PositionScheme):
    kind = "none"
    about = "No positions: only the mask tells the order of tokens."
    transfers = True
    oracle = "ABSENT"
