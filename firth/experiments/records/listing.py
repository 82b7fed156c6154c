"""runs(): the runs below some folders as a table, those that meet a condition."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.config import names_in
from firth.errors import ConfigError, FirthError, did_you_mean
from firth.experiments.records.condition import RunCondition
from firth.experiments.records.cost_to_loss import COSTS, NOT_REACHED, cost_to_loss
from firth.experiments.records.find import RunSearch
from firth.experiments.records.run_record import FIGURES, RunRecord, read_record
from firth.figures.figure import Table
from firth.progress import Progress
from firth.progress.display import followed, shows_progress

_COLUMNS = ("run", "kind", "parameters", "steps", "loss", "seconds", "date", "commit")  # without --columns
_MEASURED = ("loss", "train.loss", "last.loss", "select")  # figures that a run may have, besides FIGURES
_COMMIT = 12  # characters


@dataclass(frozen=True, repr=False)
class RunList:
    """Runs with their figures. `.text()` prints them, `.facts()` is plain data, and each is a RunRecord."""

    records: Sequence[RunRecord]  # the runs, in their order
    columns: tuple[str, ...]  # the figures and settings to show
    damaged: Mapping[str, str]  # runs that cannot be read, with the reason
    notes: Sequence[str] = ()  # what was not searched

    def __iter__(self) -> Iterator[RunRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def table(self) -> Table:
        rows = [
            [_cell(column, record.value(column), bool(record.validated)) for column in self.columns] for record in self.records
        ]
        return Table([_heading(column) for column in self.columns], rows)

    def text(self) -> str:
        """The table as `firth runs` prints it; nothing if there is no run."""
        return "\n".join(self.table().lines()) if self.records else ""

    def remarks(self) -> list[str]:
        """Damaged runs, and what was not searched."""
        return [*(f"damaged: {reason}" for reason in self.damaged.values()), *self.notes]

    def facts(self) -> dict[str, Any]:
        """The columns of each run as plain data for JSON."""
        rows = [{column: record.value(column) for column in self.columns} for record in self.records]
        return {"runs": rows, "damaged": dict(self.damaged), "notes": list(self.notes)}

    def csv(self) -> str:
        """One line for each run."""
        written = io.StringIO()
        lines = csv.writer(written, lineterminator="\n")
        lines.writerow(self.columns)
        for record in self.records:
            lines.writerow(["" if (value := record.value(column)) is None else value for column in self.columns])
        return written.getvalue()

    def __repr__(self) -> str:
        return f"<RunList: {len(self)} runs; .text() prints them>"

    def _repr_html_(self) -> str:
        return self.table().html()


@shows_progress
def runs(
    *folders: str | Path,
    where: str | None = None,
    sort: str | None = None,
    columns: Sequence[str] | None = None,
    progress: Progress | bool = True,
) -> RunList:
    """The runs in and below `folders`, by default the current one, with their figures; no weights are loaded.

    `where`: only the runs that meet a condition on figures and settings, such as `loss < 1.5 and model.kind == "lstm"`; a run
    that lacks one of them is left out. `sort`: the figure or setting to sort by, with a "-" before it from high to low; by
    default the runs are in the order of their names. `columns`: the figures and settings to show."""
    report = followed(progress)
    condition = None if where is None else RunCondition(where)
    search = RunSearch(folders or (Path(),), report)
    found, damaged = _read(search, report)
    by, falling = (sort or "").removeprefix("-"), (sort or "").startswith("-")
    named = [*(() if condition is None else condition.names), *((by,) if sort is not None else ()), *(columns or ())]
    _expect_known(named, found)
    kept = [record for record in found if condition is None or condition.holds(record.value)]
    if sort is not None:
        kept = _sorted(kept, by, falling)
    return RunList(kept, tuple(columns or _usual_columns(kept)), damaged, tuple(search.notes))


def _read(search: RunSearch, progress: Progress) -> tuple[list[RunRecord], dict[str, str]]:
    found, damaged = [], {}
    for place in search:
        try:
            found.append(read_record(place))
        except (FirthError, OSError) as error:
            damaged[str(place)] = str(error)
        progress("reading runs", len(found), 0)
    return found, damaged


def _expect_known(names: Sequence[str], found: Sequence[RunRecord]) -> None:
    """Refuse a name that is neither a figure of any of the runs nor a setting."""
    figures = {*FIGURES, *_MEASURED, *(name for record in found for name in record.figures)}
    if figures.issuperset(names):
        return
    known = figures | _all_settings()
    for name in names:
        if name not in known and cost_to_loss(name) is None:
            costs = ", ".join(f"{cost}(LOSS)" for cost in COSTS)
            advice = did_you_mean(name, known, listed=False) or f" Figures are {', '.join(sorted(figures))}, {costs}."
            raise ConfigError(f'"{name}" is neither a figure of these runs nor a setting.{advice}')


def _all_settings() -> set[str]:
    from firth.api.recipe import Recipe
    from firth.tasks import TASKS

    own = {name for task in TASKS for part in ("data", "objective") for name in names_in(getattr(task, part.title()), part)}
    return {*names_in(Recipe), *own}


def _sorted(records: Sequence[RunRecord], by: str, falling: bool) -> list[RunRecord]:
    """Numbers first, then texts; runs without a value come last."""
    there = [record for record in records if record.value(by) is not None]
    texts = [isinstance(record.value(by), int | float) for record in there]
    there.sort(key=lambda record: record.value(by) if all(texts) else str(record.value(by)), reverse=falling)
    return there + [record for record in records if record.value(by) is None]


def _usual_columns(records: Sequence[RunRecord]) -> list[str]:
    """With the metrics that runs are selected by, and with their states if one is not finished."""
    chosen = list(_COLUMNS)
    selected = {str(record.value("select")) for record in records} - {"loss", "None"}
    at = chosen.index("loss")
    validated = any(record.value("loss") is not None for record in records)
    chosen[at : at + 1] = ["loss" if validated else "train.loss", *sorted(selected)]
    unfinished = any(record.value("status") not in ("finished", "imported") for record in records)
    return [*chosen, "status"] if unfinished else chosen


def _heading(column: str) -> str:
    cost = cost_to_loss(column)
    return column.replace("_", " ") if cost is None else cost.heading


def _cell(column: str, value: Any, validated: bool) -> str:
    is_cost = cost_to_loss(column) is not None
    if value is None:
        return NOT_REACHED if is_cost and validated else ""
    if column in ("date", "ended"):
        return str(value)[:16].replace("T", " ")
    if column == "commit":
        return str(value)[:_COMMIT] + ("-dirty" if str(value).endswith("-dirty") else "")
    if (column in FIGURES or is_cost) and isinstance(value, int | float):
        return f"{value:,.0f}" if isinstance(value, int) else f"{value:,.1f}"
    if isinstance(value, float):
        return f"{value:g}" if column.count(".") and not column.startswith(("last.", "train.")) else f"{value:.4f}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
