"""The rooms, in the order in which the page lists them."""

from __future__ import annotations

from firth.errors import DataError
from firth.figures.figure import Table
from firth.ideas import Ideas
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
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
    lesson,
    playground,
    search,
    tag,
    training,
    translate,
    walk,
    words,
)
from firth.tasks.ability import ABILITIES, Ability

_IN_ORDER = (
    *(walk, build, words, search, generate, chat, inspect, attention, translate),
    *(classify, tag, answer, caption, playground, dynamics, compare, describe, training),
)


def rooms() -> dict[str, Room]:
    """Every room by its name. An ability from a file or package that names no room gets one."""
    own = (one for one in ABILITIES if ABILITIES.origin(one.name) and one.room not in ROOMS and one.name not in ROOMS)
    return {room.name: room for room in (*ROOMS, *map(_room_of, own))}


def _room_of(ability: Ability) -> Room:
    """Texts in, one per line, and their results out."""

    def results(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        run, texts = request.text("run"), [line for line in request.text("text").splitlines() if line.strip()]
        if not texts:
            raise DataError("the text is empty; write one or more lines")
        with library.using(run, progress) as model:
            progress("computing", 0, 1)
            answers = getattr(model.expect(ability), ability.method)(texts)
        python = library.program(run, f"for one in model.{ability.method}({texts!r}):", "    print(one)")
        rows = [(text, str(one)) for text, one in zip(texts, answers, strict=True)]
        return ViewResult({}, python, table=Table((ability.input, ability.output), rows))

    title, if_none = ability.title(), f"There is no run that can {ability.title()}."
    return Room(ability.name, title.capitalize(), ability.about, {"results": results}, ability=ability, if_none=if_none)


_LESSONS = lesson.lessons_room(rooms)
ROOMS: Ideas[Room] = Ideas("room", Room, (*(module.ROOM for module in _IN_ORDER), _LESSONS))
