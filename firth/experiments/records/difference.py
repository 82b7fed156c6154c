"""How two runs, or recipes, differ: in their settings, in what trained them, and in their figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.api.recipe import Recipe, find_recipe, read_run_recipe
from firth.experiments.records.run_record import read_record
from firth.figures.figure import Table
from firth.files import is_folder
from firth.training.folder import RunFolder

# Of the newest entry in the history of a run.
_RECORD = (
    *("firth", "commit", "torch", "numpy", "python", "cuda", "system", "system_version"),
    *("cpu", "cores", "memory", "gpu", "gpu_memory", "processes"),
)
# Figures that are names or times, or stand in the settings or the record.
_UNCOMPARED = (
    *("run", "date", "ended", "summary", "kind", "family", "task", "of_steps", "select"),
    *("firth", "commit", "torch", "hardware"),
)
_UNTRAINED = ("summary", "expected", "data.sha256")  # settings that change no training; the hash of the data is in the record
_FILLED_IN = ("data.labels", "tokenizer.start", "ideas")  # by training, so that a recipe lacks them
_LONGEST = 60  # characters of a value in the text

Pairs = Mapping[str, Mapping[str, Any]]  # from a name to {"a": …, "b": …}; a side that has no such setting is left out


@dataclass(frozen=True)
class ComparedRun:
    """A run or a recipe, by its dotted settings, its record and its figures; a recipe has only the first."""

    name: str
    settings: Mapping[str, Any]
    record: Mapping[str, Any]
    figures: Mapping[str, Any]
    trained: bool


@dataclass(frozen=True, repr=False)
class RunDifference:
    """What differs between two runs or recipes. `.text()` prints it, `.facts()` is plain data."""

    a: str
    b: str
    settings: Pairs  # defaults included
    record: Pairs  # data, versions and hardware, where both have a record
    figures: Pairs

    @property
    def equal(self) -> bool:
        return not (self.settings or self.record or self.figures)

    def _parts(self) -> dict[str, list[tuple[str, str, str]]]:
        """The rows of each part as texts."""
        parts = {"settings": self.settings, "record": self.record, "figures": self.figures}
        return {
            part: [(name, _cell(pair, "a"), _cell(pair, "b")) for name, pair in pairs.items()] for part, pairs in parts.items()
        }

    def table(self) -> Table:
        return Table(("", "", self.a, self.b), [(part, *row) for part, rows in self._parts().items() for row in rows])

    def text(self) -> str:
        """The differences as `firth run diff` prints them."""
        if self.equal:
            return f"{self.a} and {self.b} are equal"
        lines = []
        for part, rows in self._parts().items():
            lines += Table((part, self.a, self.b), rows).lines() if rows else []
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {"equal": self.equal, **dataclasses.asdict(self)}

    def __repr__(self) -> str:
        count = len(self.settings) + len(self.record) + len(self.figures)
        return f"<RunDifference: {self.a} and {self.b}, {count} differences; .text() prints them>"

    def _repr_html_(self) -> str:
        return self.table().html()


def run_difference(a: str | Path, b: str | Path) -> RunDifference:
    """How `a` and `b` differ, each a run folder, a recipe file or the name of a shipped recipe.

    Times, names of folders and command lines are not compared; records and figures only if both are runs."""
    one, other = _compared(a), _compared(b)
    both = one.trained and other.trained
    filled = () if both else _FILLED_IN
    settings = {name: pair for name, pair in _pairs(one.settings, other.settings) if name not in filled}
    record = dict(_pairs(one.record, other.record)) if both else {}
    figures = dict(_pairs(one.figures, other.figures)) if both else {}
    return RunDifference(one.name, other.name, settings, record, figures)


def _compared(of: str | Path) -> ComparedRun:
    path = Path(of).expanduser()
    if not is_folder(path):
        return ComparedRun(str(of), _settings(find_recipe(str(of)).resolved()), {}, {}, trained=False)
    recipe, run = read_run_recipe(RunFolder.open(path).recipe), read_record(path)
    newest = run.history[-1] if run.history else {}
    record = {"data": getattr(recipe.data, "sha256", None)} | {name: newest[name] for name in _RECORD if name in newest}
    record |= {f"input {name}": one for name, one in (newest.get("inputs") or {}).items()}
    figures = {name: value for name, value in run.figures.items() if name not in _UNCOMPARED}
    return ComparedRun(str(of), _settings(recipe), record, figures, trained=True)


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in _flat(recipe) if name.partition(".")[0] not in _UNTRAINED and name not in _UNTRAINED}


def _flat(config: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a config and of the tables in it, defaults included."""
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{at}{field.name}"
        if dataclasses.is_dataclass(value):
            yield from _flat(value, f"{name}.")
        else:
            yield name, list(value) if isinstance(value, tuple) else value


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What differs, in the order of the first, then of the second."""
    for name in dict.fromkeys((*one, *other)):
        sides = {side: of[name] for side, of in (("a", one), ("b", other)) if name in of}
        if len(sides) < 2 and next(iter(sides.values())) is None:
            continue  # one lacks it, the other leaves it unset
        if len(sides) < 2 or sides["a"] != sides["b"]:
            yield name, sides


def _cell(pair: Mapping[str, Any], side: str) -> str:
    if side not in pair:
        return "–"
    value = pair[side]
    if isinstance(value, Mapping):  # a fingerprint
        value = next((one for name, one in value.items() if str(name).startswith("sha256")), None)
    if isinstance(value, float):
        value = f"{value:.6g}"
    shown = "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
