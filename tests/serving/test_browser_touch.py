"""A finger on a figure, on a phone: swiping scrolls the page, pinching enlarges it, and a tap is a click."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import Visit, Watched

from firth.figures.word_map import embedding_map

pytestmark = pytest.mark.long
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
AXES = "(({ xaxis, yaxis }) => [xaxis.range, yaxis.range])(document.querySelector('.js-plotly-plot')._fullLayout)"
Point = tuple[float, float]


class _Fingers:
    """Touches of a page as a touch screen sends them, through Chromium's DevTools protocol."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.session = self.page.context.new_cdp_session(self.page)

    def move(self, ways: Sequence[tuple[Point, Point]], steps: int = 12) -> None:
        """All fingers at the same time, each from its first point to its second."""
        for step in range(steps + 1):
            at = [[start + (end - start) * step / steps for start, end in zip(*way, strict=True)] for way in ways]
            kind = "touchMove" if step else "touchStart"
            self._send(kind, [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(at)])
            self.page.wait_for_timeout(16)
        self._send("touchEnd", [])
        self.page.wait_for_timeout(300)

    def _send(self, kind: str, points: list[dict[str, float]]) -> None:
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def _middle(page: Watched, figure: str) -> Point:
    """The middle of the cells or points of a figure, which comes into the middle of the screen."""
    cells = page.page.locator(f"[data-figure='{figure}'] .plot").locator(".nsewdrag, .gl-container canvas").first
    cells.evaluate("one => one.scrollIntoView({ block: 'center', behavior: 'instant' })")
    page.page.wait_for_timeout(100)
    if _scrolled(page.page) < 100:  # so that the page can be scrolled both ways
        page.page.evaluate("scrollTo({ top: 100, behavior: 'instant' })")
        page.page.wait_for_timeout(100)
    box = cells.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _scrolled(page: Any) -> float:
    found: float = page.evaluate("document.scrollingElement.scrollTop")
    return found


def _ranges(page: Watched, figure: str) -> Any:
    """Of the axes; in space, where the camera is."""
    script = """div => [div._fullLayout.xaxis, div._fullLayout.yaxis].map(axis => [...(axis?.range ?? [])])
        .concat([Object.values(div._fullLayout.scene?._scene?.getCamera().eye ?? {})])"""
    return page.page.locator(f"[data-figure='{figure}'] .plot").evaluate(script)


@pytest.mark.parametrize(
    ("address", "figure"),
    [
        (f"#/attention?run=bpe&text={quote('the list is empty')}", "map"),
        ("#/training?runs=char%0Abpe", "curves"),
        ("#/words?look=map&vectors=small.firth", "map"),
        ("#/words?look=map&vectors=small.firth&dimensions=3", "map"),
    ],
)
def test_a_swipe_that_begins_on_a_figure_scrolls_the_page_and_leaves_the_figure(visit: Visit, address: str, figure: str) -> None:
    page = visit(address, expect=("WebGL", "Canvas2D"), **PHONE)
    fingers, (x, y) = _Fingers(page.page), _middle(page, figure)
    before, ranges = _scrolled(page.page), _ranges(page, figure)
    fingers.move([((x, y), (x + 30, y + 150))])
    up = _scrolled(page.page)
    assert up < before - 60
    fingers.move([((x, y), (x - 20, y - 150))])
    assert _scrolled(page.page) > up + 60
    assert _ranges(page, figure) == ranges
    assert not page.page.locator(".modebar-btn").locator("visible=true").count()
    fingers.move([((x, y), (x + 100, y + 20))])
    assert (_ranges(page, figure) != ranges) == ("dimensions=3" in address)  # a sideways swipe rotates


def test_two_fingers_on_a_figure_enlarge_the_page(visit: Visit) -> None:
    page = visit(f"#/attention?run=bpe&text={quote('the list is empty')}", **PHONE)
    fingers, (x, y) = _Fingers(page.page), _middle(page, "map")
    ranges = _ranges(page, "map")
    fingers.move([((x - 20, y - 20), (x - 100, y - 100)), ((x + 20, y + 20), (x + 100, y + 100))])
    assert page.page.evaluate("visualViewport.scale") > 1.5
    assert _ranges(page, "map") == ranges


def test_a_tap_on_a_figure_is_a_click_also_after_a_swipe(visit: Visit) -> None:
    page = visit(f"#/attention?run=bpe&text={quote('the list is empty')}", **PHONE)
    fingers, (x, y) = _Fingers(page.page), _middle(page, "map")
    fingers.move([((x, y), (x, y - 100))])
    x, y = _middle(page, "map")
    fingers.move([((x, y), (x, y))], steps=1)
    page.until("document.querySelector('[data-figure=map] .hoverlayer .hovertext')")
    pressed = page.page.locator("[data-tokens] [aria-pressed=true]")
    page.until("document.querySelector('[data-tokens] [aria-pressed=true]')")
    assert pressed.count() == 1


def test_a_saved_page_scrolls_when_a_swipe_begins_on_its_figure(chromium: Any, tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(40)]
    embedding_map(words, [(float(n % 7), float(n)) for n in range(40)], ["x", "y"]).save(tmp_path / "map.html")
    context = chromium.new_context(**PHONE)
    page = context.new_page()
    page.goto((tmp_path / "map.html").as_uri())
    page.wait_for_selector(".nsewdrag", state="attached")
    ranges = page.evaluate(AXES)
    page.add_style_tag(content="body { padding-bottom: 60rem !important; }")
    _Fingers(page).move([((190, 500), (180, 300))])
    assert _scrolled(page) > 100
    assert ranges == page.evaluate(AXES)
    context.close()
