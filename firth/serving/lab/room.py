"""Room: one page of the lab, with its views and the choices that its controls offer.

To add a room, write rooms/<name>.py with a ROOM, and list it in rooms/__init__.py. It is drawn by page/rooms/<name>.js with a
mount() or, if there is no such file, by page/lib/any_room.js: a run and a text go in, and the results of its views come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from firth.ideas import Ideas
from firth.progress import Progress
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult

if TYPE_CHECKING:
    from firth.serving.lab.library import RunLibrary
    from firth.serving.lab.run_facts import RunFacts
    from firth.serving.lab.starters import Starter
    from firth.tasks.ability import Ability

PAGE = Path(__file__).parent / "page"


class Cancelled(Exception):
    """Raised by a view's Progress when the client no longer waits for the result, so long work calls it often."""


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


def report_share(progress: Progress, before: int, several: int, name: str, what: str, done: int, total: int) -> None:
    """The progress of one of several runs as a share of them all."""
    progress(f"{name}: {what}", before * max(total, 1) + done, several * max(total, 1))


def _no_choices(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    return {}


@dataclass(frozen=True)
class Room:
    """A run can be chosen if it has the `ability`; where something else is chosen, `names` says what there is."""

    collected_in: ClassVar[str] = "firth.serving.lab.rooms"

    name: str  # part of the address
    title: str
    about: str  # one sentence
    views: Mapping[str, View]
    _: KW_ONLY
    ability: Ability | None = None
    first: Callable[[RunFacts], bool] = lambda facts: True  # of those runs, the ones that the page offers first
    names: Callable[[RunLibrary], Iterable[str]] | None = None
    needs: str = "a run"
    acts: tuple[str, ...] = ()  # views that change something; no lesson can show them
    if_none: str = ""  # what the page shows if there is nothing to choose; "" if the room works without it
    starter: Starter | None = None  # what the lab can then train by itself
    choices: Callable[[RunLibrary], Mapping[str, Sequence[Choice]]] = _no_choices  # control → its options
    facts: Mapping[str, object] = field(default_factory=dict)  # limits and starting texts, for the page
    old_names: tuple[str, ...] = ()  # addresses with these names still lead here
    notice: str = ""  # what to notice: one sentence that a look at the figures confirms
    examples: tuple[Example, ...] = ()  # for whatever run is chosen
    in_path: str = ""  # the setting that follows the name in the address: #/lesson/gates
    texts_into: str = ""  # the control that the texts of the chosen run fill in (RunFacts.texts)

    def usable(self, library: RunLibrary) -> tuple[str, ...]:
        """The runs or vectors that the room can work with."""
        if self.names is not None:
            return tuple(self.names(library))
        return library.runs_that_can(self.ability, first=self.first) if self.ability else ()

    def json(self, library: RunLibrary) -> dict[str, object]:
        """Everything that the page knows about the room before it asks for a view."""
        usable, starter = self.usable(library), self.starter
        module = f"rooms/{self.name}.js"
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "views": list(self.views),
            "module": module if (PAGE / module).is_file() else "lib/any_room.js",
            "choices": {name: [one.json() for one in some] for name, some in self.choices(library).items()},
            "facts": dict(self.facts),
            "old_names": list(self.old_names),
            "notice": self.notice,
            "examples": [one.json() for one in self.examples],
            "in_path": self.in_path,
            "texts_into": self.texts_into,
            "usable": list(usable),
            "needs": self.needs,
            "if_none": self.if_none,
            "command": starter.command() if starter else "",
            "starter": {"name": starter.name, "about": starter.about} if starter else None,
            "works": bool(usable) or not self.if_none,
        }
