"""ViewResult: the figures, facts and Python code with which a view answers the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firth.figures.figure import Figure, Table
from firth.ideas import in_use

if TYPE_CHECKING:
    from firth.serving.lab.unknown_text import UnknownText

_SHOWN = "figure.plot\n"


@dataclass(frozen=True)
class ViewResult:
    figures: Mapping[str, Figure]
    # A program that produces the same result in the folder where the lab was started. It ends by showing its only figure, or
    # it keeps its figures in a dict called `figures`, and `program` adds the line that shows one of them.
    python: str
    facts: Mapping[str, object] = field(default_factory=dict)  # plain data beside the figures: tokens, probabilities
    table: Table | None = None  # the result of a view that has no figure
    headings: Mapping[str, str] = field(default_factory=dict)  # figure name → the heading above it
    unknown: Mapping[str, UnknownText | None] = field(default_factory=dict)  # what the run does not know of each text

    def __post_init__(self) -> None:
        object.__setattr__(self, "python", _with_own_ideas(self.python))

    def program(self, figure: str) -> str:
        """The program that shows one of the figures."""
        return self.python if self.python.endswith(_SHOWN) else f"{self.python}figures[{figure!r}].plot\n"

    def json(self) -> str:
        figures = {name: {"plot": one.plot.to_plotly_json(), "table": _table(one.table)} for name, one in self.figures.items()}
        table = None if self.table is None else _table(self.table)
        return to_json(
            {
                "figures": figures,
                "python": self.python,
                "programs": {name: self.program(name) for name in self.figures},
                "facts": self.facts,
                "table": table,
                "headings": self.headings,
                "unknown": {name: one and one.json() for name, one in self.unknown.items()},
            }
        )


def _with_own_ideas(program: str) -> str:
    """The program, after lines that use the files of ideas that the lab was started with."""
    uses = [f"firth.use({str(one.path)!r})\n" for one in in_use() if one.path is not None]
    if not uses or not program or uses[0] in program:
        return program
    rest = re.sub(r"^import firth\n\n*", "", program, count=1, flags=re.MULTILINE)
    return f"import firth\n\n{''.join(uses)}\n{rest}"


def to_json(value: object) -> str:
    """JSON with Plotly's encoder, which writes NaN and infinities as null. Half a surrogate pair, which a damaged file may have
    brought in, is shown as �."""
    from plotly.utils import PlotlyJSONEncoder

    text = json.dumps(value, cls=PlotlyJSONEncoder, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _table(table: Table) -> dict[str, object]:
    return {"headings": list(table.headings), "rows": [list(row) for row in table.rows]}
