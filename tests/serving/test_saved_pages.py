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
    embedding_map(["a", "b", "c"], [(0.0, 0.0, 1.0)] * 3, ["x", "y", "z"]).save(tmp_path / "map.html")
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
