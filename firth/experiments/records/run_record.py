"""What a run folder says about a run: its figures, its settings and how it was trained. No weights are read, only their header,
and no code of the run is needed, so that runs with ideas of other people's files can be listed, too. Needs no torch until a
setting is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from firth.config import Table, read_toml
from firth.errors import ConfigError
from firth.experiments.records.cost_to_loss import cost_to_loss
from firth.files import is_file, tensor_shapes
from firth.training import history, log
from firth.training.folder import RunFolder

# The figures of every run, in the order in which they are listed; those of its validation data come besides.
FIGURES = (
    *("run", "kind", "family", "task", "parameters", "steps", "of_steps", "best_step", "tokens", "seconds"),
    *("tokens_per_second", "status", "date", "ended", "firth", "commit", "torch", "hardware", "summary"),
)


@dataclass(frozen=True)
class RunRecord:
    """A run: its name, its figures, and its settings by their dotted names."""

    figures: Mapping[str, Any]  # None: not known
    table: Table  # recipe.toml
    history: Sequence[Mapping[str, Any]] = ()  # how it was trained, see training/history.py
    validated: Sequence[Mapping[str, Any]] = ()  # the lines of its log that have a validation

    @property
    def name(self) -> str:
        return str(self.figures["run"])

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Settings that an older firth wrote have their current names. A sub-table stands for its kind: model.norm."""
        from firth.api.recipe import Recipe
        from firth.config import canonical

        try:
            return dict(_flat(canonical(Recipe, self.table)))
        except ConfigError:  # an old and a new name of one setting
            return dict(_flat(self.table))

    def value(self, name: str) -> Any:
        """The figure or the setting of this `name`; None if the run has none."""
        if name in self.figures:
            return self.figures[name]
        cost = cost_to_loss(name)
        return self.settings.get(name) if cost is None else cost.of(self.validated)


def read_record(path: Path) -> RunRecord:
    """The record of the run in a folder; a RunError or ConfigError says what is damaged."""
    folder = RunFolder.open(path)
    table = read_toml(folder.recipe)
    shapes, metadata = tensor_shapes(folder.model) if is_file(folder.model) else ({}, {})
    records = history.read(folder)
    lines = log.read(folder.log)
    validated = [line for line in lines if isinstance(line.get("valid"), Mapping)]
    figures = {
        "run": str(path),
        "kind": _of(table, "model", "kind"),
        "family": _of(table, "model", "family"),
        "task": _of(table, "objective", "kind"),
        "parameters": sum(map(math.prod, shapes.values())) or None,
        **_measured(lines, validated, metadata.get("step", "")),
        "of_steps": _of(table, "training", "steps"),
        "select": _of(table, "training", "select"),
        "summary": table.get("summary") or None,
        **how_trained(records),
    }
    figures["status"] = _status(table, figures, records)
    return RunRecord(figures, table, records, validated)


def _measured(lines: Sequence[Mapping[str, Any]], validated: Sequence[Mapping[str, Any]], saved: str) -> dict[str, Any]:
    """The figures of the log: the validation of the weights that were saved under their own names, such as loss, the newest
    validation as last.loss, and the training loss as train.loss."""
    best = next((line for line in validated if str(line["step"]) == saved), None)
    last = lines[-1] if lines else {}
    fixed = {"steps": last.get("step", 0), "best_step": None if best is None else best["step"], "loss": None}
    known = {name: _finite(last.get(name)) for name in ("tokens", "seconds", "tokens_per_second")}
    return {
        **fixed,
        **({} if best is None else dict(_numbers(best["valid"]))),
        **({f"last.{name}": value for name, value in _numbers(validated[-1]["valid"])} if validated else {}),
        "train.loss": _finite(last.get("loss")),
        **known,
    }


def _numbers(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, float]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{at}{name}.")
        elif (number := _finite(value)) is not None:
            yield f"{at}{name}", number


def _finite(value: Any) -> int | float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def how_trained(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """When a run was started, when it ended, and with what, from its history."""
    first, last = (records[0], records[-1]) if records else ({}, {})
    own = {name: _text(last.get(name)) for name in ("ended", "firth", "commit", "torch")}
    return {"date": _text(first.get("time")), **own, "hardware": _text(last.get("gpu") or last.get("cpu"))}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _status(table: Table, figures: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str | None:
    """imported, finished, interrupted, diverged, pruned, failed, or unfinished: killed, or still in training. None for a run of
    an older firth that may have stopped early."""
    if table.get("imported"):
        return "imported"
    if records and (outcome := _text(records[-1].get("outcome"))):
        return outcome
    of_steps = figures["of_steps"]
    if isinstance(of_steps, int) and figures["steps"] >= of_steps:
        return "finished"
    return None if _of(table, "training", "patience") and not (records and "numpy" in records[-1]) else "unfinished"


def _of(table: Table, *path: str) -> Any:
    """A value of a table in a table; None if it is not there."""
    place: Any = table
    for name in path:
        place = place.get(name) if isinstance(place, Mapping) else None
    return place


def _flat(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            if at and isinstance(value.get("kind"), str):
                yield f"{at}{name}", value["kind"]
            yield from _flat(value, f"{at}{name}.")
        else:
            yield f"{at}{name}", value
