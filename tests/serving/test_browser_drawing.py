"""The drawings in the rooms Describe and Build, in a browser: they follow the settings, the theme and the kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browsing import Screenshot, Visit, Watched, executed

from firth.experiments.draw import draw

SVG = "data:image/svg+xml;charset=utf-8,"


def shown(page: Watched) -> Any:
    """The image that can be seen: one of the two."""
    images = page.page.locator("[data-drawing] img")
    (seen,) = (one for one in images.all() if one.is_visible())
    return seen


def svg(page: Watched) -> str:
    return unquote(shown(page).get_attribute("src").removeprefix(SVG))


@pytest.mark.long
def test_the_described_model_is_drawn_in_the_theme_of_the_page(visit: Visit, screenshot: Screenshot, tmp_path: Path) -> None:
    page = visit("#/describe?of=gpt2&settings=model.depth%3D3")
    expected = draw("gpt2", assignments=["model.depth=3"])
    assert svg(page) == expected.svg("light")
    assert shown(page).get_attribute("alt") == f"{expected.title}. {expected.description}"
    assert shown(page).evaluate("image => image.complete && image.naturalWidth > 100")
    page.page.locator("#theme").click()
    assert svg(page) == expected.svg("dark")
    page.page.locator("#theme").click()
    page.set("drawing", "cache")
    assert svg(page) == draw("gpt2", "cache", ["model.depth=3"]).svg("light")
    assert visit(page.hash()).page.locator("[data-control=drawing]").input_value() == "cache"
    with page.page.expect_download() as download:
        page.page.locator("[data-testid=download-drawing]").click()
    assert download.value.suggested_filename == "gpt2-cache.svg"
    assert download.value.path().read_text(encoding="utf-8") == draw("gpt2", "cache", ["model.depth=3"]).svg()
    page.page.locator("[data-drawing] [data-testid=copy-python]").click()
    copied = executed(page.page.evaluate("navigator.clipboard.readText()"))
    assert copied["drawing"].svg("light") == svg(page)
    screenshot(page, "describe-drawing")
    page.set("of", "hello")  # a network of another kind
    page.set("settings", "")
    assert svg(page) == draw("hello", "cache").svg("light")


@pytest.mark.long
def test_the_model_that_is_built_is_drawn_as_its_settings_change(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/build?kind=transformer&width=32&depth=5&heads=2")
    assert "5 ×" in svg(page)
    page.set("drawing", "block")
    assert "RMSNorm" in svg(page)
    page.set("norm", "layer")
    assert "LayerNorm" in svg(page)
    screenshot(page, "build-drawing")
    page.set("kind", "lstm")  # which has no block
    assert page.page.locator("[data-control=drawing]").input_value() == "model"
    assert "LSTM" in svg(page)
    page.set("kind", "transformer")
    page.set("heads", "3")
    page.page.locator("[role=alert]", has_text="heads").wait_for()
    assert not page.page.locator("[data-drawing]").is_visible()


@pytest.mark.long
def test_a_dark_screen_has_a_dark_drawing_until_the_page_is_told_otherwise(visit: Visit) -> None:
    page = visit("#/describe?of=hello", color_scheme="dark")
    assert svg(page) == draw("hello").svg("dark")
    page.page.locator("#theme").click()
    assert svg(page) == draw("hello").svg("light")


@pytest.mark.long
def test_the_drawing_is_reached_and_chosen_by_the_keyboard(visit: Visit) -> None:
    page = visit("#/describe?of=hello")
    choice = page.page.get_by_label("What to draw")
    choice.focus()
    page.page.keyboard.press("ArrowDown")
    page.until("document.querySelector('[data-drawing] img').alt.includes('recurrent cell')")
    assert svg(page) == draw("hello", "cell").svg("light")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.dataset.testid") == "download-drawing"
