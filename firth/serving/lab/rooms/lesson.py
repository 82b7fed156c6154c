"""Lessons: a figure at a time, with a question that comes before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from firth.errors import ConfigError, did_you_mean
from firth.figures.figure import Figure
from firth.progress import Progress
from firth.serving.lab.lab_lesson import LessonStep, answers, lesson_files, read_lesson
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room

NAME = "lesson"
Rooms = Callable[[], Mapping[str, Room]]  # the other rooms of the lab, whose figures the steps show


def step(others: Rooms, request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """One step of a lesson. Its figure and the right answer come once `answer` is given, or with `shown`."""
    files = lesson_files(library.lessons)
    lesson = read_lesson(files[request.choice("lesson", list(files))])
    number = request.number("step", int, 1, least=1, most=len(lesson.step))
    one = lesson.step[number - 1]
    facts: dict[str, object] = {
        "title": lesson.title,
        "about": lesson.about,
        "steps": len(lesson.step),
        "course": lesson.course,
        "classroom": joining(library),
        "read": lesson.read,
    }
    room = _room(one, others()) if one.room else None
    if room is not None and (lacking := _lacking(one, room, library)) is not None:
        return ViewResult({}, "", {**facts, "says": one.says, "lacking": lacking})
    settings = {} if room is None else _settings(one, room, library)
    seen = None if room is None else room.views[one.view](ViewRequest(settings), library, _without_parts(progress))
    name, figure = _figure(one, seen)
    facts |= {"says": _filled(one.says, seen), **_question(one, seen, figure)}
    given = request.text("answer", "", most=200)
    if one.question and not given and not request.flag("shown"):
        return ViewResult({}, "", {key: value for key, value in facts.items() if key not in ("right", "because")})
    facts["given"] = given
    if room is None or seen is None or figure is None:
        return ViewResult({}, "", facts)
    facts["open"] = {"room": room.name, "title": room.title, "settings": settings}  # to go on from there
    return replace(seen, figures={name: figure}, facts=facts, table=None)


def class_answers(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Put the question of a step to the class, and count its answers so far."""
    if library.classroom is None:
        raise ConfigError("no class can join; start the lab with `firth lab --classroom`")
    options = request.settings.get("options")
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options[:20]):
        raise ConfigError("options is missing; expected a list of answers")
    library.classroom.ask(request.text("question", most=2000), [one[:200] for one in options[:20]])
    return ViewResult({}, "", {"counts": library.classroom.counts()})


def joining(library: RunLibrary) -> dict[str, str]:
    """Where students join, if they can."""
    return {} if library.classroom is None else {"address": library.classroom.address, "code": library.classroom.code}


def _without_parts(progress: Progress) -> Progress:
    """The progress of a view that must not show its figure before the question is answered."""

    def report(what: str, done: int, total: int) -> None:
        progress(what, done, total)

    return report


def _filled(text: str, seen: ViewResult | None) -> str:
    """The text with facts of the view in place of {name}."""
    facts = (
        {} if seen is None else {name: str(value) for name, value in seen.facts.items() if isinstance(value, str | int | float)}
    )
    for name, value in facts.items():
        text = text.replace("{" + name + "}", value)
    return text


def _question(one: LessonStep, seen: ViewResult | None, figure: Figure | None) -> dict[str, object]:
    if not one.question:
        return {}
    options, right = list(one.options), one.answer
    if one.asks and figure is not None:
        options, right = answers(one, figure.table.headings, figure.table.rows)
    question, because = _filled(one.question, seen), _filled(one.because, seen)
    return {"question": question, "options": options, "right": right, "because": because}


def _figure(one: LessonStep, seen: ViewResult | None) -> tuple[str, Figure | None]:
    if seen is None:
        return "", None
    name = one.figure or next(iter(seen.figures), "")
    if name not in seen.figures:
        raise ConfigError(f'{one.room}/{one.view} has no figure "{name}"; it has {", ".join(seen.figures) or "none"}')
    return name, seen.figures[name]


def _room(one: LessonStep, others: Mapping[str, Room]) -> Room:
    shown = {f"{name}/{view}" for name, room in others.items() if name != NAME for view in room.views if view not in room.acts}
    view = f"{one.room}/{one.view}"
    if view not in shown:
        raise ConfigError(f'a lesson cannot show "{view}".{did_you_mean(view, shown)}')
    return others[one.room]


def _suiting(one: LessonStep, room: Room, library: RunLibrary) -> list[str]:
    """The runs or vectors of the room that the step can use, the best first."""
    usable = room.usable(library)
    if room.ability is None:
        return list(usable)
    suiting = [name for name in usable if not one.runs or library.facts(name).group == one.runs]
    if not one.kinds:
        return suiting
    kind = {name: library.recipe(name).model.kind for name in suiting}
    return sorted((name for name in suiting if kind[name] in one.kinds), key=lambda name: one.kinds.index(kind[name]))


def _needs(one: LessonStep, room: Room) -> str:
    """The setting that names what the room works with: a run, or word vectors."""
    if not one.needs_run or (room.ability is None and room.names is None):
        return ""
    return "run" if room.ability is not None else "vectors"


def _settings(one: LessonStep, room: Room, library: RunLibrary) -> dict[str, object]:
    """The settings of the step, with the run and its starting text where it names none."""
    settings: dict[str, object] = {name: _as_in_an_address(value) for name, value in one.settings.items()}
    needs = _needs(one, room)
    if not needs:
        return settings
    if needs not in settings:
        settings[needs] = _suiting(one, room, library)[0]
    if needs == "run":
        settings.setdefault("text", library.facts(str(settings["run"])).example)
    return settings


def _as_in_an_address(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lacking(one: LessonStep, room: Room, library: RunLibrary) -> dict[str, object] | None:
    """What the step needs and the lab does not have."""
    needs = _needs(one, room)
    if not needs or needs in one.settings or _suiting(one, room, library):
        return None
    kinds = " or ".join(kind.upper() if len(kind) <= 4 else kind for kind in one.kinds)
    what = "word vectors" if needs == "vectors" else f"a run of {kinds}" if kinds else room.needs
    return {"what": what, "command": "firth tour"}


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    return {"lesson": tuple(_choice(name, path) for name, path in lesson_files(library.lessons).items())}


def _choice(name: str, path: Path) -> Choice:
    try:
        lesson = read_lesson(path)
    except ConfigError as error:
        return Choice(name, name, {"about": str(error), "steps": 0})
    return Choice(name, lesson.title, {"about": lesson.about, "steps": len(lesson.step)})


def lessons_room(others: Rooms) -> Room:
    """The room over the figures of the others."""
    return Room(
        NAME,
        "Lessons",
        "Each step asks what you expect, and shows the figure once you have answered.",
        {"step": partial(step, others), "answers": class_answers},
        choices=offered,
        notice="Answer before you look: you remember what you have guessed, above all if it was wrong.",
        examples=(
            Example("The gradient that vanishes", {"lesson": "vanishing-gradient", "step": "1"}),
            Example("Where a translator looks", {"lesson": "alignment", "step": "2"}),
            Example("The causal mask", {"lesson": "heads-and-masks", "step": "1"}),
        ),
        in_path="lesson",
    )
