"""The rooms, in the order of the page."""

from __future__ import annotations

from firth.serving.lab.room import Room
from firth.serving.lab.rooms import attention, describe, dynamics, generate, playground, training, translate, words

ROOMS: dict[str, Room] = {
    module.ROOM.name: module.ROOM for module in (words, generate, attention, translate, playground, dynamics, describe, training)
}
