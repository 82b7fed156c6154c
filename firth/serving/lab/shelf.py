"""The shelf: the runs and files of word vectors that the lab was given.

A place is a run, or a folder that holds runs; those are looked up anew each time, so that a run that is begun while the lab
is open appears in it. A model is loaded when it is first used and kept until its weights change; one user at a time has it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.errors import ConfigError, FirthError, RunError, did_you_mean
from firth.training.folder import RunFolder

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.serving.lab.room import Progress
    from firth.tasks.run import Run
    from firth.vectors import WordVectors

DOCS = "docs"  # the built-in text, which is on every disk
TOUR = Path("tour")  # where `firth tour` leaves its runs, unless told otherwise
_PATIENCE = 0.1  # seconds between two looks whether someone still waits for a model that is in use


@dataclass
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    stamp: int = -1  # when the weights were written that are loaded
    model: Run[Any] | None = None


class Shelf:
    """`runs` and `vectors` name what is there; `using` lends a model, `words` gives vectors."""

    def __init__(self, places: Sequence[Path] = (), vectors: Sequence[Path] = (), corpora: Sequence[str] = ()) -> None:
        self.places = tuple(places)
        self.corpora = tuple(dict.fromkeys((*corpora, DOCS)))  # texts in which words are looked up
        self._files = tuple(vectors)
        self._seen: dict[str, Path] = {}  # every run there ever was, to tell one that is gone from one that never was
        self._models: dict[Path, _Kept] = {}
        self._words: dict[Path, tuple[int, WordVectors]] = {}
        self._lock = threading.Lock()  # of the two tables above, never held while something is loaded

    @property
    def runs(self) -> Mapping[str, Path]:
        """Every run by its name: that of its folder, or its path where two folders have the same name."""
        found = _named([path for place in self.places for path in _runs_in(place)])
        self._seen.update(found)
        return found

    @property
    def vectors(self) -> Mapping[str, Path]:
        return _named(list(self._files))

    def path(self, name: str) -> Path:
        """Where a run is that is there; an error says what became of it otherwise."""
        known = self.runs
        if name in known and RunFolder(known[name]).exists():
            return known[name]
        if name in self._seen:
            raise RunError(f'the run "{name}" is no longer in {self._seen[name]}; restore that folder, or choose another run')
        if not known:
            raise RunError(f'there is no run "{name[:60]}": the lab has none; start it with `firth lab RUN`')
        raise ConfigError(f'there is no run "{name[:60]}" in the lab.{did_you_mean(name, known)}')

    def recipe(self, name: str) -> Recipe:
        """What a run is, without its weights."""
        from firth.api.recipe import read_recipe

        return read_recipe(RunFolder.open(self.path(name)).recipe)

    def suited(self, suits: Callable[[Recipe], bool]) -> tuple[str, ...]:
        """The runs whose recipe suits; one that cannot be read does not, and is told of where it is chosen."""
        return tuple(name for name in self.runs if self._suits(name, suits))

    def _suits(self, name: str, suits: Callable[[Recipe], bool]) -> bool:
        try:
            return suits(self.recipe(name))
        except FirthError:
            return False

    @contextlib.contextmanager
    def using(self, name: str, progress: Progress) -> Iterator[Run[Any]]:
        """The model of a run, for one user at a time; another waits, and can be cancelled while waiting."""
        path = self.path(name)
        with self._lock:
            kept = self._models.setdefault(path, _Kept())
        while not kept.lock.acquire(timeout=_PATIENCE):
            progress(0, 1, f"waiting for {name}: someone else is using it")
        try:
            yield self._loaded(path, kept, progress)
        finally:
            kept.lock.release()

    def _loaded(self, path: Path, kept: _Kept, progress: Progress) -> Run[Any]:
        from firth.api import load

        stamp = _written(RunFolder(path).model)
        if kept.model is None or kept.stamp != stamp:
            progress(0, 1, f"loading {path.name}")
            kept.model, kept.stamp = load(path), stamp
        return kept.model

    def words(self, name: str) -> WordVectors:
        """The vectors of a file. They are only read, so that any number of users may have them at once."""
        from firth.vectors import load

        known = self.vectors
        if name not in known:
            raise ConfigError(f'there are no vectors "{name[:60]}" in the lab.{did_you_mean(name, known)}')
        path = known[name]
        if not path.is_file():
            raise RunError(f"{path} is no longer there; restore the file, or choose other vectors")
        stamp = _written(path)
        with self._lock:
            held = self._words.get(path)
        if held is None or held[0] != stamp:
            held = (stamp, load(path))
            with self._lock:
                self._words[path] = held
        return held[1]


def reads_text(recipe: Recipe) -> bool:

    return recipe.task.reads != "points of linear functions"


def from_tour(folder: Path = TOUR) -> Shelf:
    """What `firth tour` left in `folder`; an empty shelf where it did not."""
    words = folder / "words.firth"
    return Shelf([folder / "runs"] if (folder / "runs").is_dir() else [], [words] if words.is_file() else [])


def _runs_in(place: Path) -> list[Path]:
    """The place itself, though it may have disappeared, or the runs in it."""
    if RunFolder(place).exists() or not place.is_dir():
        return [place]
    return sorted(path for path in place.iterdir() if RunFolder(path).exists())


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    unique = list(dict.fromkeys(paths))
    names = [path.name or str(path) for path in unique]
    return {name if names.count(name) == 1 else str(path): path for name, path in zip(names, unique, strict=True)}


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
