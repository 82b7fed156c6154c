"""Saved pages in a browser: they draw their figures, and fetch nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firth.figures.figure import Table
from firth.figures.page import Section, save_sections
from firth.figures.ranking import ranking
from firth.figures.word_map import embedding_map


@pytest.mark.long
def test_a_saved_page_draws_its_figures_and_fetches_nothing(chromium: Any, tmp_path: Path) -> None:
    drawn = ranking([("a", 1.0), ("$x$", 0.5)], "cosine")
    drawn.save(tmp_path / "figure.html")
    embedding_map(["a", "b"], [(0.0, 1.0), (1.0, 0.0)], ["x", "y"]).save(tmp_path / "map.html")
    save_sections(tmp_path / "report.html", "Report", [Section("One", "", Table((), []), [drawn, drawn])], "")
    for name, plots in {"figure": 1, "map": 1, "report": 2}.items():
        context = chromium.new_context(offline=True)
        asked: list[str] = []
        page = context.new_page()
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto((tmp_path / f"{name}.html").as_uri())
        page.wait_for_function(f"document.querySelectorAll('.js-plotly-plot .main-svg').length >= {plots}")
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        context.close()


@pytest.mark.long
def test_a_figure_in_a_notebook_is_drawn_offline(chromium: Any) -> None:
    drawn = ranking([("a", 1.0), ("b", 0.5)], "cosine")
    context = chromium.new_context(offline=True)
    asked: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.set_content(f"<body>{drawn._repr_html_()}{drawn._repr_html_()}</body>")
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length == 2")
    assert [url for url in asked if not url.startswith(("about:", "data:", "blob:"))] == []
    context.close()
