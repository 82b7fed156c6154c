"""The rooms, in the order of the page."""

from __future__ import annotations

from firth.serving.lab.room import Room
from firth.serving.lab.rooms import (
    attention,
    compare,
    describe,
    dynamics,
    generate,
    playground,
    reading,
    training,
    translate,
    words,
)

_IN_ORDER = (words, generate, reading, attention, translate, playground, dynamics, compare, describe, training)
ROOMS: dict[str, Room] = {module.ROOM.name: module.ROOM for module in _IN_ORDER}
