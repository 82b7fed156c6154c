"""Figures for a screen reader, in a browser: each has a role, a name and its numbers as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import Visit

from firth.figures.ranking import ranking

pytestmark = pytest.mark.long

# Of each figure: its role, its name, and the name of the table that it refers to; and of its drawing what a reader would hear.
_HEARD = """places => places.map(place => {
    const numbers = document.getElementById(place.getAttribute('aria-details'));
    return [place.getAttribute('role'), place.getAttribute('aria-label'), numbers?.dataset.numbers,
            place.querySelectorAll('.main-svg:not([aria-hidden=true])').length];
})"""


@pytest.mark.parametrize(
    ("address", "names"),
    [
        (
            f"#/attention?run=bpe&text={quote('the list')}",
            {
                "overview": "Every layer and head",
                "map": "One head in full: layer 1, head 1",
                "lines": "The same weights as lines between tokens: layer 1, head 1: queries (left) and keys (right)",
            },
        ),
        ("#/words?look=neighbours&vectors=small.firth&word=king", {"neighbours": "Nearest to king"}),
        ("#/playground?of=scores&shown=2", {"scores": "scores", "scaled": "scaled"}),
    ],
)
def test_every_figure_has_a_role_a_name_and_its_table(visit: Visit, address: str, names: dict[str, str]) -> None:
    page = visit(address)
    heard: list[list[Any]] = page.page.locator("[data-figure] .plot").evaluate_all(_HEARD)
    assert {(role, drawings) for role, _, _, drawings in heard} == {("figure", 0)}
    told = {table: name for _, name, table, _ in heard}
    assert told | names == told
    for figure, name in names.items():
        assert page.table(figure)
        assert page.page.get_by_role("region", name=f"table of numbers: {name}", exact=True).count() == 1


def test_a_long_table_is_cut_and_says_so(visit: Visit) -> None:
    words = " ".join(["the list is empty"] * 24)
    page = visit(f"#/inspect?run=char&look=states&units=32&text={quote(words)}")
    assert len(page.table("states")) == 2000
    assert page.page.locator("[data-rest]").inner_text().endswith("more rows are in the table of the Python code.")


def test_a_figure_in_a_saved_page_has_a_name(chromium: Any, tmp_path: Path) -> None:
    ranking([("a", 1.0), ("b", 0.5)], "cosine").save(tmp_path / "figure.html")
    context = chromium.new_context()
    page = context.new_page()
    page.goto((tmp_path / "figure.html").as_uri())
    page.wait_for_selector(".main-svg[aria-hidden=true]", state="attached")
    assert page.get_by_role("figure", name="figure: word, cosine").count() == 1
    context.close()
