"""Searchable scatter plots of words: a map, or a plane of two axes with a meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firth.figures.figure import COLOURS, PRIVATE, Figure, Number, Table, escaped, lay_out

LABELLED = 150  # with more words, only those under the pointer or found by the search are labelled
_BLUE, _ORANGE = COLOURS[:2]
_ID = "word-map"

# The words come from the figure's data, which Plotly has escaped; the search text is compared and never inserted into the page.
# customdata holds the words themselves, text their escaped labels.
_BOX = """<p style="color: #1b1b1b; margin: 0; padding: 1rem 0 0 1rem">
<label>Find <input id="find" type="search" list="known" placeholder="part of a word" autocomplete="off"></label>
<output id="found"></output></p><datalist id="known"></datalist>
"""
_SEARCH = """
<script>
(() => {
  const plot = document.getElementById("ID"), box = document.getElementById("find"), told = document.getElementById("found");
  const words = plot.data[0].customdata, labels = plot.data[0].hovertext, all = words.length <= LABELLED;
  const list = document.getElementById("known");
  words.forEach(word => { const option = document.createElement("option"); option.value = word; list.append(option); });
  const search = () => {
    const asked = box.value.trim().toLowerCase();
    const hit = words.map(word => asked !== "" && word.toLowerCase().includes(asked));
    const few = hit.filter(Boolean).length;
    told.textContent = asked === "" ? "" : few === 1 ? "1 word" : few + " words";
    Plotly.restyle(plot, {
      "text": [labels.map((label, n) => hit[n] || (all && few === 0) ? label : "")],
      "marker.size": [hit.map(here => here ? HIT : DOT)],
      "marker.color": [hit.map(here => here ? "ORANGE" : "BLUE")],
    }, [0]);
  };
  box.addEventListener("input", search);
})();
</script>
"""
_DOT, _HIT = 6, 13


@dataclass(frozen=True, repr=False)
class SearchableMap(Figure):
    """A figure with a search box above it."""

    def html(self) -> str:
        drawn: str = self.plot.to_html(PRIVATE | {"scrollZoom": True}, full_html=False, include_plotlyjs=False, div_id=_ID)
        script = _SEARCH
        for name, value in {"ID": _ID, "LABELLED": LABELLED, "HIT": _HIT, "DOT": _DOT, "ORANGE": _ORANGE, "BLUE": _BLUE}.items():
            script = script.replace(name, str(value))
        return _BOX + drawn + script


def embedding_map(words: Sequence[str], points: Sequence[Sequence[float]], axes: Sequence[str]) -> SearchableMap:
    """Each word at its 2- or 3-dimensional point; `axes` are the axis titles."""
    import plotly.graph_objects as go

    labels = [escaped(word) for word in words]  # Plotly interprets <b> and similar as markup
    columns = [list(column) for column in zip(*points, strict=True)]
    common: dict[str, Any] = {
        "mode": "markers+text",
        "text": labels if len(words) <= LABELLED else [""] * len(words),
        "hovertext": labels,
        "customdata": list(words),
        "hoverinfo": "text",
        "textposition": "top center",
        "marker": {"size": _DOT, "color": _BLUE, "opacity": 0.85},
        "showlegend": False,
    }
    plot = go.Figure()
    if len(columns) == 3:
        plot.add_scatter3d(x=columns[0], y=columns[1], z=columns[2], **common)
        plot.update_scenes({f"{name}axis_title_text": axis for name, axis in zip("xyz", axes, strict=True)})
    else:
        plot.add_scatter(x=columns[0], y=columns[1], **common)
        plot.update_xaxes(title_text=axes[0], zeroline=False)
        plot.update_yaxes(title_text=axes[1], zeroline=False, scaleanchor="x")  # the same scale on both axes
    lay_out(plot, (50, 20, 20, 50), height=720, dragmode="pan" if len(columns) == 2 else "orbit")
    rows = [(word, *(Number(value, ".4f") for value in point)) for word, point in zip(words, points, strict=True)]
    return SearchableMap(plot, Table(("word", *axes), rows))


def axis_plane(words: Sequence[str], points: Sequence[tuple[float, float]], axes: tuple[str, str]) -> SearchableMap:
    """Each word at its place on both axes; the lines are the zeros of the axes."""
    figure = embedding_map(words, points, [escaped(axis) for axis in axes])
    figure.plot.update_xaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    figure.plot.update_yaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    return SearchableMap(figure.plot, Table(("word", *axes), figure.table.rows))
