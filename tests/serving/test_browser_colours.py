"""Colours of numbers in a browser: one scale in every room, and numbers that are readable on it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from browsing import Visit, Watched

pytestmark = pytest.mark.long

# For each number in a cell of a heat map: the colour that it is written in and that of its cell, by the scale as Plotly has it.
_WRITTEN = """place => [...place.querySelectorAll('.heatmap-label')].map(label => {
    const { z } = label.__data__;
    const cells = place._fullData.find(one => one.type === 'heatmap' && one.visible);
    const at = Math.max(0, Math.min(1, (z - cells.zmin) / (cells.zmax - cells.zmin))), scale = cells.colorscale;
    const n = Math.max(1, scale.findIndex(([stop]) => stop >= at)), [[from, one], [to, other]] = [scale[n - 1], scale[n]];
    return [getComputedStyle(label.querySelector('text')).fill, one, other, (at - from) / (to - from)];
})"""


def _rgb(colour: str) -> list[float]:
    if colour.startswith("#"):
        return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return [float(one) for one in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def _luminance(rgb: list[float]) -> float:
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (part / 255 for part in rgb))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrasts(page: Watched) -> list[float]:
    found = []
    for place in page.page.locator("[data-figure] .plot").all():
        for ink, one, other, share in place.evaluate(_WRITTEN):
            cell = [a + (b - a) * share for a, b in zip(_rgb(one), _rgb(other), strict=True)]
            dark, light = sorted((_luminance(_rgb(ink)), _luminance(cell)))
            found.append((light + 0.05) / (dark + 0.05))
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_number_in_a_cell_has_a_contrast_of_4_5(visit: Visit, scheme: str) -> None:
    page = visit("#/playground?of=sentence&shown=5&mask=causal&projected=true&inputs=true", color_scheme=scheme)
    assert len(_contrasts(page)) > 50
    assert min(_contrasts(page)) >= 4.5
    page.open(f"#/inspect?run=bpe&look=predictions&text={quote('the list is empty and the list is not')}")
    assert min(_contrasts(page)) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_above_zero_has_one_colour_in_walk_playground_and_inspect_and_a_legend(visit: Visit, scheme: str) -> None:
    page = visit(f"#/walk?run=bpe&text={quote('the list')}", color_scheme=scheme)
    colour = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    above, below = (page.page.evaluate(colour, f"--walk-{name}") for name in ("plus", "minus"))
    assert page.page.locator(".walk-legend").is_visible()
    page.open("#/playground?of=sentence&shown=3&projected=true&inputs=true")
    assert page.page.locator("[data-legend]").inner_text().startswith("above zero")
    _same(page, "scores", above, below)
    page.open(f"#/inspect?run=char&look=states&text={quote('the list')}")
    _same(page, "states", above, below)
    assert page.plot("states")["data"][0]["colorbar"]["title"]


def _same(page: Watched, figure: str, above: str, below: str) -> None:
    cells: Any = page.plot(figure)["data"][0]
    assert [colour.lower() for _, colour in cells["colorscale"]][::2] == [below, above]
