"""The rooms, in the order in which the page lists them."""

from __future__ import annotations

from firth.serving.lab.room import Room
from firth.serving.lab.rooms import (
    answer,
    attention,
    build,
    caption,
    chat,
    classify,
    compare,
    describe,
    dynamics,
    generate,
    inspect,
    playground,
    search,
    tag,
    training,
    translate,
    walk,
    words,
)

_IN_ORDER = (
    walk,
    build,
    words,
    search,
    generate,
    chat,
    inspect,
    attention,
    translate,
    classify,
    tag,
    answer,
    caption,
    playground,
    dynamics,
    compare,
    describe,
    training,
)
ROOMS: dict[str, Room] = {module.ROOM.name: module.ROOM for module in _IN_ORDER}
