"""Room: one page of the lab, with its views and the choices that its controls offer.

To add a room, write rooms/<name>.py with a ROOM and page/rooms/<name>.js with a mount(), and list it in rooms/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from firth.ideas import Ideas
from firth.progress import Progress
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult

if TYPE_CHECKING:
    from firth.serving.lab.library import RunLibrary
    from firth.serving.lab.starters import Starter


class Cancelled(Exception):
    """Raised by a view's Progress when nobody waits for the result any more; long work therefore calls it often."""


class View(Protocol):
    def __call__(self, request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult: ...


@dataclass(frozen=True)
class Choice:
    """One option of a control: the value that the page sends back and the label that it shows."""

    value: str
    label: str
    facts: Mapping[str, object] = field(default_factory=dict)  # plain data about the option, for the page

    def json(self) -> dict[str, object]:
        return {**self.facts, "value": self.value, "label": self.label}


@dataclass(frozen=True)
class Example:
    """Settings of a room that show something: the page offers them as a button."""

    label: str
    settings: Mapping[str, str]

    def json(self) -> dict[str, object]:
        return {"label": self.label, "settings": dict(self.settings)}


def choices(values: Iterable[str], labels: Mapping[str, str] | None = None) -> tuple[Choice, ...]:
    """One Choice for each value. A value without a label is shown as a phrase: scaled_dot → "scaled dot"."""
    known = labels or {}
    return tuple(Choice(value, known.get(value, value.replace("_", " "))) for value in values)


def ideas(collection: Ideas[Any]) -> tuple[Choice, ...]:
    """One Choice for each kind of a sort of ideas."""
    return tuple(Choice(idea.kind, idea.title(), {"about": idea.about}) for idea in collection)


def named(names: Iterable[str]) -> tuple[Choice, ...]:
    """One Choice for each run, file or recipe, shown by its own name as it is."""
    return tuple(Choice(name, name) for name in names)


@dataclass(frozen=True)
class Usable:
    """The runs or vectors that a room can work with, and what the page shows when there are none."""

    names: tuple[str, ...] = ()
    if_none: str = ""  # what is missing; "" if the room works without it
    command: str = ""  # what makes it
    starter: Starter | None = None  # the run that the lab can train by itself; the command is then the starter's
    needs: str = "a run"

    def json(self) -> dict[str, object]:
        starter = self.starter
        return {
            "usable": list(self.names),
            "if_none": self.if_none,
            "command": starter.command() if starter else self.command,
            "starter": {"name": starter.name, "about": starter.about} if starter else None,
            "needs": self.needs,
            "works": bool(self.names) or not self.if_none,
        }


def _any(library: RunLibrary) -> Usable:
    return Usable()


def _no_choices(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    return {}


@dataclass(frozen=True)
class Room:
    name: str  # part of the address
    title: str
    about: str  # one sentence
    views: Mapping[str, View]
    usable: Callable[[RunLibrary], Usable] = _any
    choices: Callable[[RunLibrary], Mapping[str, Sequence[Choice]]] = _no_choices  # control → its options
    facts: Mapping[str, object] = field(default_factory=dict)  # limits and starting texts, for the page
    old_names: tuple[str, ...] = ()  # addresses with these names still lead here
    notice: str = ""  # what to notice: one sentence that a look at the figures confirms
    examples: tuple[Example, ...] = ()  # for whatever run is chosen
    texts_into: str = ""  # the control that the texts of the chosen run fill in (RunFacts.texts)

    def json(self, library: RunLibrary) -> dict[str, object]:
        """Everything that the page knows about the room before it asks for a view."""
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "choices": {name: [one.json() for one in some] for name, some in self.choices(library).items()},
            "facts": dict(self.facts),
            "old_names": list(self.old_names),
            "notice": self.notice,
            "examples": [one.json() for one in self.examples],
            "texts_into": self.texts_into,
            **self.usable(library).json(),
        }
