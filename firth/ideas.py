"""Ideas: whatever comes in several kinds, such as attention scores, recurrent cells, sampling filters and optimisers.

Each sort of idea has a base class and one `Ideas`, the collection of its kinds. A recipe names a kind; help, documentation, the
lab and error messages list the collection. Ideas from a user's own file (`use`) or from an installed package (entry points of the
group "firth.ideas") join the same collections. Nothing else runs code: a recipe or a run only says which file it needs.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from firth.errors import ConfigError, did_you_mean, option

T = TypeVar("T")
GROUP = "firth.ideas"  # of entry points
_MODULE = "firth_ideas_"
VARIABLE = "FIRTH_USE"  # environment variable with the files in use, so that the processes that firth starts have them, too


class Idea:
    """The base of every idea: its name, and a description of itself."""

    kind: ClassVar[str]  # its name in recipes
    label: ClassVar[str] = ""  # its name in pictures and lists; if empty, the kind
    about: ClassVar[str] = ""  # one line: what it does
    latex: ClassVar[str] = ""  # its equation
    uses: ClassVar[tuple[str, ...]] = ()  # settings of its table that only some kinds have
    collected_in: ClassVar[str] = ""  # of a base class: the module with the collection, if it is not imported with the base

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Clear the description that a new kind would otherwise inherit from another."""
        super().__init_subclass__(**keywords)
        if "kind" in vars(cls):
            for name in {"label", "about", "latex"} - vars(cls).keys():
                setattr(cls, name, "")

    @classmethod
    def title(cls) -> str:
        return cls.label or cls.kind.replace("_", " ")


class Origin(NamedTuple):
    """The source of ideas that firth does not ship: a file with its hash, or a package with its version."""

    name: str
    version: str
    path: Path | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Ideas(Generic[T]):
    """The kinds of one sort of idea: those that firth ships, in their order, then those that joined."""

    def __init__(
        self,
        sort: str,
        base: type,
        shipped: Iterable[T] = (),
        *,
        listed_in: str | None = None,
        joined: Callable[[T], None] = lambda idea: None,
        left: Callable[[T], None] = lambda idea: None,
    ) -> None:
        """`sort` names the sort in messages. `listed_in`: the module that calls `ship`, imported when the kinds are needed.
        `joined` and `left` are called with an idea from outside."""
        self.sort, self.base, self._listed_in, self._joined, self._left = sort, base, listed_in, joined, left
        self._of: dict[str, T] = {}
        self._origins: dict[str, Origin] = {}
        self._inner: set[str] = set()
        self.ship(*shipped)
        _COLLECTIONS.append(self)

    def ship(self, *ideas: T, inner: bool = False) -> None:
        """List the ideas that come with firth. `inner`: parts of other ideas, which a recipe cannot name."""
        self._of.update({_kind(idea): idea for idea in ideas})
        self._inner |= {_kind(idea) for idea in ideas} if inner else set()

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.all_kinds if kind not in self._inner)

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """With those that a recipe cannot name."""
        if self._listed_in is not None:
            importlib.import_module(self._listed_in)
        return tuple(self._of)

    @property
    def shipped_kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind not in self._origins)

    def __iter__(self) -> Iterator[T]:
        return (self._of[kind] for kind in self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self.kinds

    def __getitem__(self, kind: str) -> T:
        if kind not in self._of and kind not in self.all_kinds:  # which lists them first
            raise ConfigError(f'there is no {self.sort} "{kind}"; choose one of: {", ".join(self.kinds)}.{self.near(kind)}')
        return self._of[kind]

    def near(self, kind: str) -> str:
        """The advice in a message about an unknown kind."""
        return did_you_mean(kind, self.kinds, listed=False) or f" One of your own needs its file: give that to {_ASKING}."

    def origin(self, kind: str) -> Origin | None:
        """The source of an idea; None if firth ships it."""
        return self._origins.get(kind)

    def tables(self) -> tuple[Any, ...]:
        """The config class of each kind, for sorts whose kinds have settings of their own."""
        ideas: Iterator[Any] = iter(self)
        return tuple(idea.Config for idea in ideas)

    def join(self, idea: T, origin: Origin) -> None:
        kind = _kind(idea)
        if kind in self.all_kinds:
            there = self.origin(kind)
            raise ConfigError(
                f'{origin.name} defines the {self.sort} "{kind}", which {there.name if there else "firth"} already has. '
                "Choose another name."
            )
        self._of[kind], self._origins[kind] = idea, origin
        self._joined(idea)

    def leave(self, origin: Origin) -> None:
        """Remove the ideas of a file, whose new version replaces them."""
        for kind in [kind for kind, one in self._origins.items() if one == origin]:
            self._left(self._of.pop(kind))
            del self._origins[kind]

    def defined_in(self, module: ModuleType) -> list[T]:
        """The ideas of this sort that a module defines: classes derived from the base, or objects of it."""
        return [value for value in vars(module).values() if self._is_new_class(value, module) or self._is_new_object(value)]

    def _is_new_class(self, value: Any, module: ModuleType) -> bool:
        named = inspect.isclass(value) and issubclass(value, self.base) and value.__module__ == module.__name__
        return named and not inspect.isabstract(value) and isinstance(_kind(value), str)

    def _is_new_object(self, value: Any) -> bool:
        return isinstance(value, self.base) and not any(value is one for one in self._of.values())


_COLLECTIONS: list[Ideas[Any]] = []
changed: list[Callable[[], None]] = []  # called after ideas joined or left, by modules that keep what they derive from them
_used: dict[Path | str, Origin] = {}  # files, and entry points by their names


def _kind(idea: Any) -> Any:
    return getattr(idea, "kind", None) or getattr(idea, "name", None)


def use(file: str | Path) -> None:
    """Run `file`, a Python file of your own, and add the ideas that it defines: classes derived from the bases of firth's own,
    such as `firth.layers.attention.score.ScoreLayer`. After a change of the file, its new ideas replace the old ones."""
    path = Path(file).expanduser().resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}. Give the path of a Python file to {_ASKING}.") from error
    origin = Origin(path.name, f"{_HASH}{hashlib.sha256(source).hexdigest()}", path)
    if _used.get(path) == origin:
        return
    for collection in _COLLECTIONS if path in _used else ():
        collection.leave(_used[path])
    _used.pop(path, None)
    module = ModuleType(_module_name(path))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{path.name} could not be run: {type(error).__name__}: {error}{_line(error, path)}") from error
    if not _join(module, origin):
        raise ConfigError(
            f"{path.name} defines no idea. Derive a class from the base of its sort, such as firth.layers.recurrent.Cell, and "
            "give it a kind."
        )
    _used[path] = origin
    os.environ[VARIABLE] = os.pathsep.join(str(one) for one in _used if isinstance(one, Path))


def use_installed() -> None:
    """Add the ideas of installed packages and of the files named in the environment variable FIRTH_USE, once."""
    for point in _entry_points():
        if point.value not in _used:
            package = point.dist
            origin = Origin(package.name if package else point.name, package.version if package else "")
            _used[point.value] = origin
            try:
                _join(point.load(), origin)
            except Exception as error:  # of a package that has nothing to do with this run, perhaps
                warnings.warn(f"the ideas of {origin} could not be loaded: {type(error).__name__}: {error}", stacklevel=2)
    for file in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        use(file)


def _module_name(path: Path) -> str:
    return f"{_MODULE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


class _OwnModules(MetaPathFinder, Loader):
    """Finds the modules of the files in use by their names: a process that firth starts receives objects of their classes."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_MODULE):
            return None
        use_installed()
        return ModuleSpec(name, self) if name in sys.modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has been run by `use`."""


sys.meta_path.append(_OwnModules())


def in_use() -> tuple[Origin, ...]:
    return tuple(_used.values())


def own_kinds(sort: str) -> tuple[str, ...]:
    """The kinds of a sort that are not firth's, without importing those that are."""
    return tuple(kind for collection in _COLLECTIONS if collection.sort == sort for kind in collection._origins)


@functools.cache
def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    """Looking for them takes some dozens of milliseconds."""
    return tuple(metadata.entry_points(group=GROUP))


def expect(needed: Iterable[str], notice: Callable[[str], None]) -> None:
    """Refuse a recipe or run whose ideas are not in use; `needed` lists their origins. A changed file gives a warning."""
    there = {origin.name: origin for origin in in_use()}
    for one in needed:
        name, _, version = one.rpartition(" ") if " " in one else (one, "", "")
        origin, is_file = there.get(name), version.startswith(_HASH) or name.endswith(".py")
        if origin is None and is_file:
            raise ConfigError(f"this needs the ideas of {name}. Give the path of that file to {_ASKING}.")
        if origin is None:
            raise ConfigError(f"this needs the ideas of the package {name} {version}, which is not installed. Install it.")
        if version and origin.version != version:
            then, now = (text.removeprefix(_HASH)[:12] for text in (version, origin.version))
            notice(f"{name} is not the version that this was made with: {then} then, {now} now")


_HASH = "sha256:"
_ASKING = option("firth.use(…)", "--use")


def _join(module: ModuleType, origin: Origin) -> int:
    for value in list(vars(module).values()):
        for base in (value if inspect.isclass(value) else type(value)).__mro__:
            if home := vars(base).get("collected_in"):
                importlib.import_module(home)
    _expect_finished(module, origin)
    ideas = [(collection, idea) for collection in _COLLECTIONS for idea in collection.defined_in(module)]
    try:
        for collection, idea in ideas:
            collection.join(idea, origin)
    except ConfigError:
        for collection in _COLLECTIONS:
            collection.leave(origin)
        raise
    finally:
        for forget in changed:
            forget()
    return len(ideas)


def _expect_finished(module: ModuleType, origin: Origin) -> None:
    """Refuse a class with a kind that lacks something: it would be left out."""
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, Idea) and "kind" in vars(value):
            if not isinstance(value.kind, str):
                raise ConfigError(f"{origin.name}: the kind of {value.__name__} is {value.kind!r}; expected a string")
            if missing := sorted(getattr(value, "__abstractmethods__", ())):
                raise ConfigError(f"{origin.name}: {value.__name__} does not define {' and '.join(missing)}")


def _line(error: BaseException, path: Path) -> str:
    """The line of the file at which it failed."""
    if isinstance(error, SyntaxError):
        return ""  # says it itself
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""
