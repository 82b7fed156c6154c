"""The results of the shipped recipes as a table: published, measured, and the gap. Does not need torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from firth import files
from firth.config import Table
from firth.errors import ConfigError, DataError, did_you_mean
from firth.shipped import shipped

BEGIN, END = "<!-- results: written by `make results` -->", "<!-- /results -->"
_VERDICTS = {True: "better", False: "worse", None: "equal"}
_HEADINGS = ("recipe", "data", "metric", "published", "measured", "gap", "minutes", "hardware, date")


@dataclass(frozen=True)
class Result:
    """A recipe's [expected] table, with the gap to the published result."""

    recipe: str
    data: str
    metric: str
    split: str | None
    published: float | None
    source: str | None
    measured: float | None
    seeds: int | None
    spread: float | None
    random_batches: int | None
    measured_random: float | None
    gap: float | None  # measured − published, without rounding error
    better: bool | None  # by the metric's direction; None if there is no gap or it is 0
    minutes: float | None
    hardware: str | None
    date: str | None


_OWN = {"recipe", "data", "metric", "gap", "better"}  # the other fields are those of [expected]


class ResultRow(NamedTuple):
    """A result as table cells; missing values are empty."""

    recipe: str
    data: str
    metric: str  # loss (valid)
    published: str  # 1.4697 (nanoGPT README)
    measured: str  # 1.46 (random batches 1.45), or 41.1 ± 0.4 (3 seeds)
    gap: str  # +3.1 worse
    minutes: str
    setting: str  # hardware, date


def results(names: Sequence[str] = ()) -> list[Result]:
    """One per shipped recipe with an [expected] table, measured or not; or those of `names`, in that order."""
    result_of = {name: of_one for name, recipe in shipped().items() if (of_one := result(name, recipe))}
    for name in names:
        if name not in result_of:
            raise ConfigError(f'no shipped recipe "{name}" has a result.{did_you_mean(name, result_of)}')
    return [result_of[name] for name in names or result_of]


def result(name: str, recipe: Table) -> Result | None:
    """The expected result of the recipe; None if it has no [expected] table."""
    expected = recipe.get("expected")
    if expected is None:
        return None
    gap = _gap(expected.get("measured"), expected.get("published"))
    lower_is_better = expected.get("direction", "lower") == "lower"
    return Result(
        recipe=name,
        data=_data(recipe["data"]),
        metric=expected["metric"],
        gap=None if gap is None else float(gap),
        better=(gap < 0) == lower_is_better if gap else None,
        **{field.name: expected.get(field.name) for field in fields(Result) if field.name not in _OWN},
    )


def row(result: Result) -> ResultRow:
    metric, published, measured = result.metric.replace("_", " "), _cell(result.published), _cell(result.measured)
    gap = _gap(result.measured, result.published)
    return ResultRow(
        recipe=result.recipe,
        data=result.data,
        metric=f"{metric} ({result.split})" if result.split else metric,
        published=f"{published} ({result.source})" if result.source else published,
        measured=_with_protocol(measured, result),
        gap="" if gap is None else f"{gap:+f} {_VERDICTS[result.better]}",
        minutes=_cell(result.minutes),
        setting=", ".join(fact for fact in (result.hardware, result.date) if fact),
    )


def duration(result: Result) -> str:
    """ "about 3 minutes on a CPU", from the measured minutes; "" if nothing was measured."""
    if result.minutes is None:
        return ""
    device = "one H200" if "H200" in (result.hardware or "") else "a CPU"
    if result.minutes < 0.75:
        return f"less than a minute on {device}"
    whole = round(result.minutes)
    return f"about {whole} minute{'s' if whole > 1 else ''} on {device}"


def markdown(expected: Iterable[Result], brief: bool = False) -> str:
    """`brief`: without minutes, hardware and date."""
    columns = len(_HEADINGS) - 2 if brief else len(_HEADINGS)
    rows = [_cells(row(result)) for result in expected]
    return "".join(f"| {' | '.join(cells[:columns])} |\n" for cells in (_HEADINGS, ["---"] * columns, *rows))


def place(path: Path, table: str, begin: str = BEGIN, end: str = END) -> None:
    """Replace the text between the lines `begin` and `end` of a Markdown file with `table`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}; give a Markdown file") from error
    before, marker, rest = text.partition(f"{begin}\n")
    _, found_end, after = rest.partition(end)
    if not (marker and found_end):
        raise DataError(f"{path} has no markers for the table; add a line {begin} and below it a line {end}")
    files.write_text(path, f"{before}{marker}{table}{end}{after}")


def _cells(row: ResultRow) -> list[str]:
    measured = row.measured or "not yet"
    return [cell.replace("|", r"\|") for cell in row._replace(recipe=f"`{row.recipe}`", measured=measured)]


def _gap(measured: float | None, published: float | None) -> Decimal | None:
    """The exact decimal difference: 85.3 − 82.7 is 2.6, not 2.5999999999999943."""
    return None if measured is None or published is None else Decimal(repr(measured)) - Decimal(repr(published))


def _with_protocol(measured: str, result: Result) -> str:
    if result.seeds is not None:
        measured = f"{measured} ± {result.spread} ({result.seeds} seeds)"
    return measured if result.measured_random is None else f"{measured} (random batches {result.measured_random})"


def _cell(figure: float | None) -> str:
    return "" if figure is None else str(figure)


def _data(data: Table) -> str:
    return f'"{data["text"]}"' if "text" in data else str(data.get("name") or data.get("path"))
