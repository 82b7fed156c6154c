"""Figures: the numbers in the table are the numbers in the picture, and no text is taken for markup."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser
from pathlib import Path

import pytest

from firth.figures.curves import Curve, loss_curves
from firth.figures.figure import COLOURS, DASHES, Figure, Table
from firth.figures.page import Section, page
from firth.figures.ranking import ranking

EVIL = "<script>alert(1)</script> & \"quoted\" </pre></td> 'x'"


class Texts(HTMLParser):
    """Tags in order, and the text of each element outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.sources: list[str | None] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.texts.append("")
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data


def curves() -> dict[str, Curve]:
    return {
        "RNN": Curve([10, 20, 30], [3.5, 2.25, 2.0], [0.1, 0.2, 0.3]),
        "LSTM": Curve([10, 20], [3.0, 1.5], [0.4, 1.25]),
    }


def test_the_table_of_a_figure_is_the_data_it_was_drawn_from() -> None:
    figure = loss_curves(curves(), {"RNN": 2.125, "LSTM": 1.75})
    assert figure.table.rows == [
        ("RNN", "10", "3.5000", "0.1"),
        ("RNN", "20", "2.2500", "0.2"),
        ("RNN", "30", "2.0000", "0.3"),
        ("LSTM", "10", "3.0000", "0.4"),
        ("LSTM", "20", "1.5000", "1.2"),
    ]
    lines = {trace.name: (list(trace.x), list(trace.y)) for trace in figure.plot.data if trace.mode == "lines"}
    assert lines == {name: (curve.tokens, curve.bits) for name, curve in curves().items()}


def test_the_held_out_figure_is_a_mark_at_the_end_of_its_line() -> None:
    figure = loss_curves(curves(), {"RNN": 2.125})
    (mark,) = (trace for trace in figure.plot.data if trace.mode == "markers")
    assert (list(mark.x), list(mark.y), mark.name) == ([30], [2.125], "RNN, held out")
    (line,) = (trace for trace in figure.plot.data if trace.name == "RNN")
    assert mark.marker.color == line.line.color


def test_lines_differ_in_colour_and_in_style() -> None:
    many = {f"model {n}": Curve([1], [1.0], [1.0]) for n in range(len(COLOURS) - 1)}
    lines = [trace.line for trace in loss_curves(many, {}).plot.data]
    assert len({line.color for line in lines}) == len({line.dash for line in lines}) == len(lines)


def test_colours_are_distinct_also_in_grey_or_by_their_dash() -> None:
    """Okabe and Ito's colours; two that are near in lightness still differ in line style."""
    assert len(set(COLOURS)) == len(COLOURS) == len(DASHES)

    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for (a, dash_a), (b, dash_b) in itertools.combinations(zip(COLOURS, DASHES, strict=True), 2):
        assert abs(lightness(a) - lightness(b)) > 25 or dash_a != dash_b


def test_more_lines_than_colours_begin_again() -> None:
    many = {f"model {n}": Curve([1], [1.0], [1.0]) for n in range(len(COLOURS) + 2)}
    assert len(loss_curves(many, {}).plot.data) == len(COLOURS) + 2


def test_a_table_shows_its_cells_as_text() -> None:
    table = Texts(Table((EVIL, "b"), [(EVIL, "2"), ("x", EVIL)]).html())
    assert table.tags == ["table", "thead", "tr", "th", "th", "tbody", *["tr", "td", "td"] * 2]
    assert [text for tag, text in zip(table.tags, table.texts, strict=True) if tag in ("th", "td")] == [
        EVIL, "b", EVIL, "2", "x", EVIL,
    ]  # fmt: skip


def section(figures: tuple[Figure, ...] = ()) -> Section:
    return Section(EVIL, EVIL, Table((EVIL,), [(EVIL,)]), figures, [(EVIL, EVIL)])


def test_no_text_of_a_page_is_taken_for_markup() -> None:
    parsed = Texts(page(EVIL, [section()], EVIL))
    assert parsed.tags.count("script") == 2  # plotly.js, and what gives the plots the colours of the page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page(EVIL, [section()], EVIL)
    texts = dict(zip(parsed.tags, parsed.texts, strict=True))
    for tag in ("title", "h1", "h2", "p", "th", "td", "h3", "pre", "footer"):
        assert texts[tag].strip() == EVIL, tag


def test_a_name_that_looks_like_markup_does_not_end_the_script_of_a_figure() -> None:
    figure = loss_curves({EVIL: Curve([1, 2], [2.0, 1.0], [0.0, 1.0])}, {EVIL: 1.0})
    html = page("title", [section((figure,))], "")
    assert "<script>alert(1)" not in html
    plain, evil = (
        Texts(page("title", [section((loss_curves({name: Curve([1], [1.0], [0.0])}, {}),))], "")).tags for name in ("x", EVIL)
    )
    assert evil == plain


def test_a_notebook_shows_a_figure_and_quotes_stay_quotes() -> None:
    figure = ranking([('"le"', 0.5), ("<b>", 0.25)], "cosine")
    assert "plotly" in figure._repr_html_()
    assert set(figure.plot.layout.yaxis.ticktext) == {'"le"', "&lt;b&gt;"}  # Plotly would show &quot; as it is


def test_a_page_keeps_the_order_of_its_sections() -> None:
    sections = [Section(title, "", Table((), [])) for title in ("first", "second", "third")]
    html = page("title", sections, "made by")
    assert html.index("<h2>first") < html.index("<h2>second") < html.index("<h2>third") < html.index("made by")


@pytest.mark.parametrize("held_out", [{}, {"RNN": 1.0}])
def test_a_figure_saved_alone_brings_its_script(held_out: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / "figure.html"
    loss_curves(curves(), held_out).save(path)
    html = path.read_text(encoding="utf-8")
    assert not Texts(html).sources
    assert len(html) > 1_000_000  # plotly.js is in it


def test_a_curve_without_points_is_drawn_as_nothing() -> None:
    figure = loss_curves({"RNN": Curve([], [], [])}, {"RNN": 1.0})
    assert figure.table.rows == []
    assert len(figure.plot.data) == 1
