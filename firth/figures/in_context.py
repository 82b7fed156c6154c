"""How well a task is done against the number of examples in the prompt: as a page, and as text."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from firth.errors import DataError
from firth.figures.figure import COLOURS, DASHES, Figure, Table

Measure = Literal["accuracy", "squared_error"]
Rows = Sequence[Mapping[str, Any]]  # behind 0, 1, … examples: what `evaluate` says under "by_examples"

_TITLES = {"accuracy": "answers that are right", "squared_error": "(ŷ − y)² / D"}
# What can be done, whatever the model; drawn thin and grey, the first of them as a line without gaps.
_BESIDE = {
    "accuracy": {"best": "all that the examples tell"},
    "squared_error": {"least_squares": "least squares", "zero": "always 0"},
}
_GREY = "#555555"


def score_by_examples(models: Mapping[str, Rows], measure: Measure) -> Figure:
    """A line for each model, as in Garg et al. 2022, figure 2. All are asked the same: what else can be done is of the first."""
    import plotly.graph_objects as go

    _refuse_misfit(models, measure)
    lines = {name: [row[measure] for row in rows] for name, rows in models.items()}
    first = next(iter(models.values()))
    beside = {title: [row[key] for row in first] for key, title in _BESIDE[measure].items()}
    examples = [row["examples"] for row in first]
    # With noise, least squares errs without bound where there are as many points as dimensions: it may leave the picture.
    top = 1.1 * max(1.0, *(value for values in lines.values() for value in values))
    plot = go.Figure()
    for n, (name, values) in enumerate(lines.items()):
        colour = COLOURS[n % len(COLOURS)]
        line = {"color": colour, "dash": DASHES[n % len(DASHES)]}
        marker = {"color": colour, "size": 7}
        # Plotly reads <b> and its like as markup.
        plot.add_scatter(x=examples, y=values, mode="lines+markers", name=html.escape(name), line=line, marker=marker)
    for (title, values), dash in zip(beside.items(), ("solid", "dot"), strict=False):
        plot.add_scatter(x=examples, y=values, mode="lines", name=title, line={"color": _GREY, "width": 1, "dash": dash})
    plot.update_layout(
        template="plotly_white",
        xaxis={"title": {"text": "examples in the prompt"}, "rangemode": "tozero"},
        yaxis={"title": {"text": _TITLES[measure]}, "range": [0, top], "tickformat": ".0%" if measure == "accuracy" else ""},
        showlegend=True,
        legend={"orientation": "h", "y": -0.2},
        margin={"l": 60, "r": 20, "t": 20, "b": 60},
        height=460,
    )
    columns = {**lines, **beside}
    rows = [(f"{k}", *(f"{values[n]:.4f}" for values in columns.values())) for n, k in enumerate(examples)]
    return Figure(plot, Table(("examples", *columns), rows))


def measure_of(result: Mapping[str, Any]) -> Measure:
    """What an evaluation tells of each number of examples."""
    return "accuracy" if "accuracy" in result else "squared_error"


def examples_text(rows: Rows, measure: Measure) -> str:
    """A line for each number of examples, with a bar as long as the value."""
    names = {measure: measure.replace("_", " "), **_BESIDE[measure]}
    wide = [max(10, len(name) + 2) for name in names.values()]
    lines = [f"{'examples':<10}" + "".join(f"{name:>{width}}" for name, width in zip(names.values(), wide, strict=True))]
    for row in rows:
        cells = "".join(f"{row[key]:>{width}.4f}" for key, width in zip(names, wide, strict=True))
        lines.append(f"{row['examples']:<10}{cells}  {'█' * round(20 * min(1.0, row[measure]))}".rstrip())
    return "\n".join(lines)


def _refuse_misfit(models: Mapping[str, Rows], measure: Measure) -> None:
    if not models or not all(models.values()):
        raise DataError("nothing was measured; expected a model or more, and rows of what it does after so many examples")
    asked = {name: [row["examples"] for row in rows] for name, rows in models.items()}
    first = next(iter(asked))
    for name, rows in models.items():
        if any(measure not in row for row in rows):
            raise DataError(f'"{name}" has no {measure.replace("_", " ")}; compare models of one kind of task')
        if asked[name] != asked[first]:
            raise DataError(
                f'prompts have up to {asked[first][-1]} examples for "{first}" and up to {asked[name][-1]} for "{name}"; give '
                "runs of one [data]"
            )
