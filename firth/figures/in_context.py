"""In-context learning: a model's score against the number of examples in the prompt, as a figure and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from firth.errors import DataError
from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, escaped, lay_out, line_style

Measure = Literal["accuracy", "squared_error"]
Rows = Sequence[Mapping[str, Any]]  # one row for 0, 1, … examples: "by_examples" in the result of `evaluate`

_TITLES = {"accuracy": "accuracy", "squared_error": "(ŷ − y)² / D"}
# Baselines that do not depend on the model; drawn as thin grey lines, the first one solid.
_BASELINES = {
    "accuracy": {"best": "best possible from the examples"},
    "squared_error": {"least_squares": "least squares", "zero": "always 0"},
}
_GREY = "#555555"


def score_by_examples(models: Mapping[str, Rows], measure: Measure) -> Figure:
    """One line per model, as in Garg et al. 2022, figure 2. All models get the same prompts, so baselines come from the first."""
    import plotly.graph_objects as go

    _refuse_misfit(models, measure)
    lines = {name: [row[measure] for row in rows] for name, rows in models.items()}
    first = next(iter(models.values()))
    beside = {title: [row[key] for row in first] for key, title in _BASELINES[measure].items()}
    examples = [row["examples"] for row in first]
    # With noise, the error of least squares is unbounded if there are as many points as dimensions: it may leave the plot.
    top = 1.1 * max(1.0, *(value for values in lines.values() for value in values))
    plot = go.Figure()
    for n, (name, values) in enumerate(lines.items()):
        line = line_style(n)
        marker = {"color": line["color"], "size": 7}
        # Plotly interprets <b> and similar as markup.
        plot.add_scatter(x=examples, y=values, mode="lines+markers", name=escaped(name), line=line, marker=marker)
    for (title, values), dash in zip(beside.items(), ("solid", "dot"), strict=False):
        plot.add_scatter(x=examples, y=values, mode="lines", name=title, line={"color": _GREY, "width": 1, "dash": dash})
    plot.update_xaxes(title_text="examples in the prompt", rangemode="tozero")
    plot.update_yaxes(title_text=_TITLES[measure], range=[0, top], tickformat=".0%" if measure == "accuracy" else "")
    lay_out(plot, (60, 20, 20, 60), showlegend=True, legend=LEGEND_BELOW, height=460)
    columns = {**lines, **beside}
    rows = [(Number(k), *(Number(values[n], ".4f") for values in columns.values())) for n, k in enumerate(examples)]
    return Figure(plot, Table(("examples", *columns), rows))


def measure_of(result: Mapping[str, Any]) -> Measure:
    """The measure that an evaluation reports for each number of examples."""
    return "accuracy" if "accuracy" in result else "squared_error"


def examples_text(rows: Rows, measure: Measure) -> str:
    """One line per number of examples, with a bar for the value."""
    names = {measure: measure.replace("_", " "), **_BASELINES[measure]}
    wide = [max(10, len(name) + 2) for name in names.values()]
    lines = [f"{'examples':<10}" + "".join(f"{name:>{width}}" for name, width in zip(names.values(), wide, strict=True))]
    for row in rows:
        cells = "".join(f"{row[key]:>{width}.4f}" for key, width in zip(names, wide, strict=True))
        lines.append(f"{row['examples']:<10}{cells}  {'█' * round(20 * min(1.0, row[measure]))}".rstrip())
    return "\n".join(lines)


def _refuse_misfit(models: Mapping[str, Rows], measure: Measure) -> None:
    if not models or not all(models.values()):
        raise DataError("there are no results to plot; expected at least one model with results by number of examples")
    asked = {name: [row["examples"] for row in rows] for name, rows in models.items()}
    first = next(iter(asked))
    for name, rows in models.items():
        if any(measure not in row for row in rows):
            raise DataError(f'"{name}" has no {measure.replace("_", " ")}; expected models of the same kind of task')
        if asked[name] != asked[first]:
            raise DataError(
                f'prompts have up to {asked[first][-1]} examples for "{first}" and up to {asked[name][-1]} for "{name}". Use '
                "runs with the same [data]"
            )
