"""Training curves from log.jsonl: any logged metric of several runs, against steps, tokens or time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, escaped, lay_out, line_style

Against = Literal["step", "tokens", "seconds"]
AGAINST: tuple[Against, ...] = get_args(Against)
Log = Sequence[Mapping[str, Any]]  # the lines of log.jsonl
_TITLES = {"step": "steps", "tokens": "tokens", "seconds": "seconds"}
_DRAWN = 2000  # largest number of points per curve, including the first and the last


def metrics(logs: Mapping[str, Log]) -> list[str]:
    """All metrics in the logs, the loss first."""
    names = {
        name for log in logs.values() for line in log for _, table in _parts(line) for name in table if _is_number(table[name])
    }
    return sorted(names - set(_TITLES), key=lambda name: (name != "loss", name))


def training_curves(logs: Mapping[str, Log], metric: str = "loss", against: Against = "step", log_scale: bool = False) -> Figure:
    """For each run, a line for the training metric and a dotted line with markers for the validation metric."""
    import plotly.graph_objects as go

    plot, rows = go.Figure(), []
    for n, (name, log) in enumerate(logs.items()):
        for split, mode, own in (("training", "lines", {}), ("validation", "lines+markers", {"dash": "dot"})):
            points = _thinned([(line, table[metric]) for line, table in _of(log, split) if _is_number(table.get(metric))])
            if not points:
                continue
            plot.add_scatter(
                x=[line[against] for line, _ in points],
                y=[value for _, value in points],
                mode=mode,
                name=escaped(f"{name}, {split}"),
                line=line_style(n) | own,
                marker={"symbol": "diamond", "size": 7},
            )
            rows += [(name, split, *(_plain(line[key]) for key in _TITLES), _plain(value)) for line, value in points]
    plot.update_xaxes(title=_TITLES[against], rangemode="tozero")
    plot.update_yaxes(title=escaped(metric.replace("_", " ")), type="log" if log_scale else "linear")
    lay_out(plot, (60, 20, 20, 60), legend=LEGEND_BELOW, height=480, showlegend=True)
    return Figure(plot, Table(("run", "split", *_TITLES, metric), rows))


def _parts(line: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "training", line
    if isinstance(line.get("valid"), Mapping):
        yield "validation", line["valid"]


def _of(log: Log, split: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    whole = (line for line in log if all(_is_number(line.get(key)) for key in _TITLES))  # a damaged line is left out
    return ((line, table) for line in whole for part, table in _parts(line) if part == split)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _thinned(points: list[tuple[Mapping[str, Any], float]]) -> list[tuple[Mapping[str, Any], float]]:
    if len(points) <= _DRAWN:
        return points
    return [points[round(n * (len(points) - 1) / (_DRAWN - 1))] for n in range(_DRAWN)]


def _plain(value: float) -> str:
    return Number(value) if isinstance(value, int) else Number(value, ".6g")
