"""ViewResult: the figures, facts and Python code with which a view answers the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from firth.figures.figure import Figure, Table


@dataclass(frozen=True)
class ViewResult:
    figures: Mapping[str, Figure]
    python: str  # a program that produces the same result in the folder where the lab was started
    facts: Mapping[str, object] = field(default_factory=dict)  # plain data beside the figures: tokens, probabilities
    table: Table | None = None  # the result of a view that has no figure
    headings: Mapping[str, str] = field(default_factory=dict)  # figure name → the heading above it

    def json(self) -> str:
        figures = {name: {"plot": one.plot.to_plotly_json(), "table": _table(one.table)} for name, one in self.figures.items()}
        table = None if self.table is None else _table(self.table)
        return to_json(
            {
                "figures": figures,
                "python": self.python,
                "facts": self.facts,
                "table": table,
                "headings": self.headings,
            }
        )


def to_json(value: object) -> str:
    """JSON with Plotly's encoder, which writes NaN and infinities as null."""
    from plotly.utils import PlotlyJSONEncoder

    return json.dumps(value, cls=PlotlyJSONEncoder, ensure_ascii=False)


def _table(table: Table) -> dict[str, object]:
    return {"headings": list(table.headings), "rows": [list(row) for row in table.rows]}
