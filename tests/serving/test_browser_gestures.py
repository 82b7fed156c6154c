"""Gestures in the lab, in a browser: pointing at tokens, Enter and Go, Back, a phone, dark mode."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Visit, Watched

from firth.api import load

TEXT = 'the "list" is empty'


def _marked(page: Watched, figure: str) -> list[tuple[str, float]]:
    """The rows (y) and columns (x) of a figure that are lit, by the number of their token."""
    shapes = page.plot(figure)["layout"].get("shapes", [])
    return sorted(("y", one["y0"] + 0.5) if one.get("xref") == "paper" else ("x", one["x0"] + 0.5) for one in shapes)


def _lines(page: Watched) -> set[tuple[int, int]]:
    """(query, key) of each line that is drawn."""
    found = [trace["y"] for trace in page.plot("lines")["data"] if trace["mode"] == "lines"]
    return {(y[n], y[n + 1]) for y in found for n in range(0, len(y), 3)}


def test_a_token_lights_up_in_every_figure_and_a_click_pins_it(visit: Visit, bpe_run: Path) -> None:
    asked: list[str] = []
    page = visit("#/describe?of=gpt2")
    page.page.on("request", lambda request: asked.append(request.url))
    page.open(f"#/attention?run=bpe&text={quote(TEXT)}")
    assert not [url for url in asked if url.endswith("/api/lab")]  # what there is has been asked before
    seen = load(bpe_run).attention(TEXT)
    tokens = page.page.locator("[data-tokens] button")
    assert [text.strip("␣ ") for text in tokens.all_text_contents()] == [text.strip("␣ ") for text in seen.queries]
    assert '"' in "".join(tokens.all_text_contents())
    assert '"' in "".join(page.page.locator("[data-figure=map] .ytick text").all_text_contents())  # not &quot;
    everything, weight = _lines(page), seen.weights(0, 0)[0]
    assert everything == {(int(q), int(k)) for q, k in np.argwhere(weight >= 0.05)}
    tokens.nth(2).hover()
    page.until("document.querySelector('[data-figure=rollout] .plot').layout.shapes?.length === 2")
    assert _marked(page, "map") == _marked(page, "rollout") == [("x", 2), ("y", 2)]
    assert _lines(page) == {line for line in everything if 2 in line}
    tokens.nth(1).click()
    page.page.mouse.move(0, 0)
    page.until("document.querySelector('[data-figure=rollout] .plot').layout.shapes?.[0].y0 === 0.5")
    assert (tokens.nth(1).get_attribute("aria-pressed"), _marked(page, "map")) == ("true", [("x", 1), ("y", 1)])
    tokens.nth(1).click()
    page.page.locator("h1").click()
    page.until("!document.querySelector('[data-figure=rollout] .plot').layout.shapes?.length")
    assert _lines(page) == everything
    tokens.nth(0).focus()
    page.until("document.querySelector('[data-figure=map] .plot').layout.shapes?.length === 2")
    assert page.page.locator("[data-figure=map] p[data-title]").text_content() == "layer 1, head 1"
    assert page.page.locator(".modebar-btn[data-title^='Zoom']").count()
    assert not page.page.locator(".modebar-btn[data-title^='Share']").count()  # nothing is uploaded
    (frame,) = page.plot("overview")["layout"]["shapes"]
    size = len(seen.queries)
    assert (frame["x0"], frame["x1"], frame["y0"], frame["y1"]) == (-0.5, size - 0.5, -0.5, size - 0.5)
    assert f"→ {seen.keys[0].strip()}" in page.plot("overview")["data"][0]["hovertext"][0][0]


@pytest.mark.long
def test_enter_and_go_submit_shift_enter_is_a_new_line_and_back_returns(visit: Visit) -> None:
    page = visit("#/inspect?run=bpe&look=predictions&text=the+list")
    box = page.page.locator("textarea[data-control=text]")
    box.fill("is empty")
    box.press("Enter")
    page.until("location.hash.includes('is+empty')")
    box.press("Shift+Enter")
    box.press_sequentially("the")
    assert box.input_value() == "is empty\nthe"
    page.page.get_by_role("button", name="Go").click()
    page.until("location.hash.includes('%0Athe')")
    page.page.go_back()
    page.until("document.querySelector('[data-control=text]').value === 'is empty'")
    page.page.go_back()
    page.until("document.querySelector('[data-control=text]').value === 'the list'")
    assert page.hash().startswith("#/inspect")


@pytest.mark.long
def test_sections_keep_their_order_when_a_setting_changes(visit: Visit) -> None:
    parts = "[data-summary], [data-plain], [data-figure], [data-caption]"
    order = f"[...document.querySelectorAll('{parts}')].map(one => JSON.stringify(one.dataset))"
    page = visit("#/describe?of=gpt2")
    before = page.page.evaluate(order)
    assert page.set("of", "gpt3").page.evaluate(order) == before
    page = visit("#/dynamics?depth=5")
    before = page.page.evaluate(order)
    assert page.set("depth", "6").page.evaluate(order) == before


@pytest.mark.long
def test_on_a_phone_the_rooms_are_one_row_and_nothing_overflows(visit: Visit) -> None:
    phone = {"viewport": {"width": 390, "height": 844}}
    for address in ("#/", "#/describe?of=gpt2", f"#/attention?run=bpe&text={quote(TEXT)}"):
        page = visit(address, **phone)
        assert page.page.locator("header nav").bounding_box()["height"] < 60
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 390, address
        current = page.page.locator("[aria-current=page]")
        if current.count():
            assert current.bounding_box()["x"] + current.bounding_box()["width"] <= 390


@pytest.mark.long
def test_zero_is_the_colour_of_the_page_and_cells_have_edges_in_light_and_dark(visit: Visit) -> None:
    for scheme, paper in (("light", "#FFFFFF"), ("dark", "#1c1c1e")):
        page = visit(f"#/attention?run=bpe&text={quote(TEXT)}", color_scheme=scheme)
        for figure in ("overview", "map", "entropy", "rollout"):
            assert page.plot(figure)["data"][0]["colorscale"][0] == [0, paper], figure
        assert page.plot("overview")["layout"]["plot_bgcolor"] not in (paper, "rgba(0,0,0,0)")
        toolbar = page.page.locator("[data-figure=map] .modebar-container").bounding_box()
        assert page.plot("map")["layout"]["margin"]["t"] >= 34
        assert toolbar is not None
