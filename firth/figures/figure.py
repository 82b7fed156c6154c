"""A figure: a Plotly plot together with a table of the numbers in it."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence, Sized
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, SupportsFloat, SupportsIndex

# Okabe & Ito 2008: distinct for all common types of colour vision. Line styles differ too, for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
# Numbers above zero are blue and those below it orange, everywhere; style.css of the lab has the same two. Both are as light as
# each other, and just as light as black and white numbers on them can be read: 4.5 : 1.
POSITIVE, NEGATIVE = "#007ABF", "#C15500"
# White to blue: only lightness encodes the value, so that it reads the same for all types of colour vision and in print. Zero is
# always white; the lab draws white as its page, also a dark one.
BLUES = [[0.0, "#FFFFFF"], [1.0, POSITIVE]]
# Orange, white, blue: the ends differ in hue for all common types of colour vision, and the middle is light.
DIVERGING = [[0.0, NEGATIVE], [0.5, "#FFFFFF"], [1.0, POSITIVE]]
WRITTEN = {"color": "#000000"}  # the font of numbers in cells of these scales; the lab writes them in white on a dark page
SIGNS = f'<span style="color:{POSITIVE}">■</span> above zero   <span style="color:{NEGATIVE}">■</span> below zero'
LEGEND_BELOW = {"orientation": "h", "y": -0.2}

_SHOWN = 40  # characters of a text in a repr


def escaped(text: str) -> str:
    """A text as a Plotly label, which reads <b> and &lt; as markup, but not &quot;."""
    return html.escape(text, quote=False)


class Number(str):
    """A number in a table: shown with the digits of `spec`, and saved with all of them."""

    value: float

    def __new__(cls, value: SupportsFloat, spec: str = "") -> Number:
        plain = value.__index__() if isinstance(value, SupportsIndex) else float(value)
        made = super().__new__(cls, format(plain, spec))
        made.value = plain
        return made


@dataclass(frozen=True)
class Table:
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in self.headings)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def lines(self) -> list[str]:
        """The table as lines of text: columns of numbers to the right, the others to the left."""
        columns = list(zip(self.headings, *self.rows, strict=True))
        aligned = [_aligned(column, first=n == 0) for n, column in enumerate(columns)]
        return ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]

    def csv(self) -> str:
        """The table as CSV, numbers with all their digits."""
        written = io.StringIO()
        lines = csv.writer(written, lineterminator="\n")
        lines.writerow(self.headings)
        lines.writerows([cell.value if isinstance(cell, Number) else cell for cell in row] for row in self.rows)
        return written.getvalue()

    def _repr_html_(self) -> str:
        return self.html()


_NUMBER = re.compile(r"[-+−]?\d|–|$")  # how a cell with a number begins, or one without a value


def _aligned(column: Sequence[str], first: bool) -> list[str]:
    width = max(map(len, column))
    to_the_left = first or not all(map(_NUMBER.match, column[1:]))
    return [cell.ljust(width) if to_the_left else cell.rjust(width) for cell in column]


class Tabled:
    """A dataclass that a notebook shows as the table of its fields."""

    def _repr_html_(self) -> str:
        rows = [(field.name, _in_short(getattr(self, field.name))) for field in fields(self)]  # type: ignore[arg-type]
        return Table((type(self).__name__, ""), rows).html()


def _in_short(value: object) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def ticks(labels: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis of cells. Ticks are numbers, not labels: a label may occur twice, or be a number."""
    return {"tickvals": list(range(len(labels))), "ticktext": list(labels), "showgrid": False, "zeroline": False, **more}


def line_style(n: int, **more: Any) -> dict[str, Any]:
    """The colour and the dashes of line n."""
    return {"color": COLOURS[n % len(COLOURS)], "dash": DASHES[n % len(DASHES)], **more}


def colour_bar(title: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "thickness": 12, "outlinewidth": 1, **more}


def lay_out(
    plot: Any, margin: Sequence[int], width: int | None = None, height: int | None = None, *, heading: str = "", **more: Any
) -> None:
    """The layout of a figure, in pixels; `margin`: on the left, on the right, above and below."""
    title = {"title": {"text": escaped(heading), "x": 0.01, "xanchor": "left"}} if heading else {}
    sides = dict(zip("lrtb", margin, strict=True))
    plot.update_layout(template="plotly_white", margin=sides, width=width, height=height, **title, **more)


# Plotly's toolbar would offer to upload the chart to a server.
PRIVATE = {"plotlyServerURL": "", "modeBarButtonsToRemove": ["sendChartToCloud"]}


@dataclass(frozen=True, repr=False)
class Figure:
    plot: Any  # plotly.graph_objects.Figure
    table: Table

    @property
    def label(self) -> str:
        """What a screen reader calls the figure: its title, or what its table has."""
        title = html.unescape(re.sub("<[^>]*>", " ", self.plot.layout.title.text or "")).strip()
        return title or f"figure: {', '.join(self.table.headings)}"

    def html(self) -> str:
        """The figure as a <div>; the page around it must load plotly.js."""
        text: str = self.plot.to_html(PRIVATE, full_html=False, include_plotlyjs=False)
        return text

    def html_with_numbers(self) -> str:
        label = html.escape(self.label)
        table = f"<details><summary>Data table</summary>{self.table.html()}</details>"
        return f'<div class="plot" role="figure" aria-label="{label}">{self.html()}</div>\n{table}'

    def __repr__(self) -> str:
        return f"<Figure: {len(self.table.rows):,} rows of {', '.join(self.table.headings)}; .save(path) writes it>"

    def _repr_html_(self) -> str:
        """For a notebook; it needs no network."""
        from firth.figures.notebook import cell

        return cell(self.plot, PRIVATE, self.label)

    def save(self, path: str | PathLike[str]) -> None:
        """Save in the format of the suffix: .html (works offline), .svg, .png, .pdf, or the numbers as .csv or .json."""
        from firth.figures.saving import save_figure

        save_figure(self, path)


class Drawn:
    """A result that a notebook shows as its figure."""

    def figure(self) -> Figure:
        raise NotImplementedError

    def facts_in_short(self) -> list[str]:
        """The parts of the repr: sizes of large fields, values of the others."""
        facts = []
        for field in fields(self):  # type: ignore[arg-type]  # every Drawn is a dataclass
            value = getattr(self, field.name)
            match value:
                case str():
                    facts.append(f'{field.name} "{value if len(value) <= _SHOWN else value[:_SHOWN] + "…"}"')
                case bool() | int() | float():
                    facts.append(f"{field.name} {value:.4g}" if isinstance(value, float) else f"{field.name} {value}")
                case Sized() if getattr(value, "shape", None):
                    facts.append(f"{field.name} {' × '.join(map(str, value.shape))}")  # type: ignore[attr-defined]
                case Sized():
                    facts.append(f"{len(value)} {field.name}")
        return facts

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.facts_in_short())}; .figure() draws it, .text() prints it>"

    def _repr_html_(self) -> str:
        return self.figure()._repr_html_()
