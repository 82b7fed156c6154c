"""RunLibrary: the runs, word vectors and corpora that the lab was started with.

A place is a run, or a folder that contains runs and word vectors. Folders are searched again on each request, so a run that
starts while the lab is open appears in it. A run is loaded on first use and kept until its weights change; only one request
uses it at a time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.errors import ConfigError, FirthError, RunError, did_you_mean
from firth.serving.lab.computed import Computed
from firth.serving.lab.run_facts import RunFacts, run_facts
from firth.serving.lab.workshop import Workshop
from firth.serving.run_names import by_name, runs_in, vectors_in
from firth.tasks.ability import Ability
from firth.text.data_set import DATA_SETS
from firth.training.folder import RunFolder

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.progress import Progress
    from firth.serving.lab.classroom import Classroom
    from firth.tasks.run import Run
    from firth.vectors import WordVectors

    LoadedRun = Run[Any]

DOCS = "docs"  # the built-in corpus, which every machine has
TOUR = Path("tour")  # where `firth tour` writes its runs by default
_POLL = 0.1  # seconds between two checks whether a waiting request was cancelled


@dataclass
class _CacheEntry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    stamp: int = -1  # modification time of the loaded weights
    run: LoadedRun | None = None


class RunLibrary:
    """`runs`, `vectors` and `corpora` list what is available; `using` lends a loaded run, `word_vectors` returns vectors."""

    def __init__(
        self,
        places: Sequence[Path] = (),
        vectors: Sequence[Path] = (),
        corpora: Sequence[str] = (),
        lessons: Sequence[Path] = (),
    ) -> None:
        self.places = tuple(places)
        self.lessons = tuple(lessons)  # one's own, beside those that firth ships
        self.classroom: Classroom | None = None  # where a class answers the questions of lessons
        self.workshop = Workshop()
        own = (one.name for one in DATA_SETS if one.holds == "running text" and DATA_SETS.origin(one.name))
        self.corpora = tuple(dict.fromkeys((*corpora, DOCS, *own)))
        self._files = tuple(vectors)
        self._seen: dict[str, Path] = {}  # every run so far, to distinguish a deleted run from an unknown name
        self._loaded: dict[Path, _CacheEntry] = {}
        self._vectors: dict[Path, tuple[int, WordVectors]] = {}
        self._recipes: dict[Path, tuple[int, Recipe]] = {}
        self.computed = Computed()
        self._lock = threading.Lock()  # guards the three caches above; never held while something is loaded

    @property
    def runs(self) -> Mapping[str, Path]:
        """Every run by its folder's name, or by its whole path if two folders have the same name."""
        paths = by_name([path for place in self.places for path in runs_in(place)])
        self._seen.update(paths)
        return paths

    @property
    def vectors(self) -> Mapping[str, Path]:
        """Every file of word vectors that was given or that lies beside the runs."""
        return by_name([*self._files, *(path for place in self.places for path in vectors_in(place))])

    def path(self, name: str) -> Path:
        """The folder of a run. Raises an error that distinguishes a deleted run from an unknown name."""
        known = self.runs
        if name in known and RunFolder(known[name]).exists():
            return known[name]
        if name in self._seen:
            raise RunError(f'the run "{name}" is no longer in {self._seen[name]}; restore that folder, or choose another run')
        if not known:
            raise RunError(f'there is no run "{name[:60]}": the lab has no runs. Start it with `firth lab RUN`.')
        raise ConfigError(f'there is no run "{name[:60]}" in the lab.{did_you_mean(name, known)}')

    def add(self, path: Path) -> None:
        """A run or a file of word vectors that was trained while the lab is open, unless it is known."""
        if path.is_file():
            self._files = self._files if path in self.vectors.values() else (*self._files, path)
        elif path not in self.places and path not in self.runs.values():
            self.places = (*self.places, path)

    def recipe(self, name: str) -> Recipe:
        """The recipe of a run, read without its weights and kept until its file changes."""
        return self.recipe_at(self.path(name))

    def recipe_at(self, run: Path) -> Recipe:
        from firth.api.recipe import read_run_recipe

        file = RunFolder.open(run).recipe
        stamp = _modified(file)
        with self._lock:
            held = self._recipes.get(file)
        if held is None or held[0] != stamp:
            held = (stamp, read_run_recipe(file))
            with self._lock:
                self._recipes[file] = held
        return held[1]

    def facts(self, name: str) -> RunFacts:
        """The abilities of a run. A run whose recipe cannot be read offers nothing, and `about` is the error."""
        try:
            return self._facts_at(self.path(name))
        except FirthError as error:
            return RunFacts(about=str(error))

    def _facts_at(self, run: Path) -> RunFacts:
        try:
            return run_facts(self.recipe_at(run), RunFolder(run))
        except FirthError as error:
            return RunFacts(about=str(error))

    @property
    def trained(self) -> Mapping[str, RunFacts]:
        """The runs that have weights, which are all but those whose training has just begun. The folders are searched once."""
        return {name: self._facts_at(path) for name, path in self.runs.items() if RunFolder(path).model.is_file()}

    def runs_that_can(self, ability: Ability, *, first: Callable[[RunFacts], bool] = lambda facts: True) -> tuple[str, ...]:
        """The trained runs with an ability; a room opens with one that meets `first`, too, if there is one."""
        facts = self.trained
        return tuple(sorted((name for name in facts if facts[name].can(ability)), key=lambda name: not first(facts[name])))

    @contextlib.contextmanager
    def using(self, name: str, progress: Progress) -> Iterator[LoadedRun]:
        """Lends a loaded run to one request at a time. Another request waits, and can be cancelled while it waits."""
        path = self.path(name)
        with self._lock:
            entry = self._loaded.setdefault(path, _CacheEntry())
        while not entry.lock.acquire(timeout=_POLL):
            progress(f"waiting for {name}: another request is using it", 0, 1)
        try:
            yield self._load(path, entry, progress)
        finally:
            entry.lock.release()

    def _load(self, path: Path, entry: _CacheEntry, progress: Progress) -> LoadedRun:
        from firth.api import load

        stamp = _modified(RunFolder(path).model)
        if entry.run is None or entry.stamp != stamp:
            progress(f"loading {path.name}", 0, 1)
            entry.run, entry.stamp = load(path), stamp
        return entry.run

    def stamp(self, name: str) -> int:
        """When a run last changed."""
        run = RunFolder(self.path(name))
        return max(_modified(run.model), _modified(run.recipe))

    def program(self, run: str, *lines: str, imports: Sequence[str] = ()) -> str:
        """A Python program that loads a run as `model`; the lines come after that."""
        return "\n".join(("import firth", *imports, "", f"model = firth.load({str(self.path(run))!r})", *lines, ""))

    def vectors_program(self, name: str, *lines: str, imports: Sequence[str] = ()) -> str:
        """The same with word vectors as `vectors`."""
        return "\n".join(("import firth", *imports, "", f"vectors = firth.vectors.load({str(self.vectors[name])!r})", *lines, ""))

    def word_vectors(self, name: str) -> WordVectors:
        """The vectors of a file. They are never changed, so any number of requests can share them."""
        from firth.vectors import load

        known = self.vectors
        if name not in known:
            raise ConfigError(f'there are no vectors "{name[:60]}" in the lab.{did_you_mean(name, known)}')
        path = known[name]
        if not path.is_file():
            raise RunError(f"{path} no longer exists; restore the file, or choose other vectors")
        stamp = _modified(path)
        with self._lock:
            held = self._vectors.get(path)
        if held is None or held[0] != stamp:
            held = (stamp, load(path))
            with self._lock:
                self._vectors[path] = held
        return held[1]


def tour_library(folder: Path = TOUR) -> RunLibrary:
    """The runs and vectors that `firth tour` wrote to `folder`; an empty library if it wrote none."""
    words = folder / "words.firth"
    return RunLibrary([folder / "runs"] if (folder / "runs").is_dir() else [], [words] if words.is_file() else [])


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
