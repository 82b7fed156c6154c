"""The room Walk in a browser: the numbers it shows are Python's, by pointer and by keyboard, narrow and wide, light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched

from firth.api import load

TEXT = "the list is"


def _values(page: Watched, name: str) -> Any:
    found = page.page.locator(f"[data-card='{name}']").first.evaluate("one => one.matrix.values")
    return np.array([[np.nan if value is None else value for value in row] for row in found])


def test_a_layer_shows_its_matrices_and_a_key_opens_the_sum(visit: Visit, transformer_run: Path) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}&stage=1&head=1")
    truth = {one.name: one for one in load(transformer_run).walk(TEXT).stages[1].matrices(1)}
    for name in ("x", "q", "p", "o", "f"):
        shown, exact = _values(page, name), truth[name].value.numpy()[:, :48]
        there = ~np.isnan(shown)
        np.testing.assert_allclose(shown[there], exact[there], rtol=1e-4, atol=1e-9)
    page.page.locator("[data-card='q']").click()
    page.page.locator(f"[role=gridcell][data-row='{len(TEXT) - 1}'][data-column='0']").focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("[data-look=cell] [data-line]")
    page.settled()
    lines = truth["q"].lines(len(TEXT) - 1, 1)
    told = [float(one.get_attribute("data-value")) for one in page.page.locator("[data-line] > [data-value]").all()]
    np.testing.assert_allclose(told, [line.value for line in lines], rtol=1e-5)


@pytest.mark.long
def test_a_recurrent_layer_draws_a_token_that_becomes_the_next_input(visit: Visit, char_run: Path) -> None:
    page = visit(f"#/walk?run=char&text={quote(TEXT)}&stage=1")
    truth = {one.name: one for one in load(char_run).walk(TEXT).stages[1].matrices()}
    for name in ("r", "z", "n", "h"):
        np.testing.assert_allclose(_values(page, name), truth[name].value.numpy()[:, :48], rtol=1e-4, atol=1e-9)
    drawn = page.page.locator("[data-drawn]").get_attribute("data-candidate")
    page.press("draw")
    assert page.hash().split("ids=")[1].split("&")[0].endswith(f"%2C{drawn}")
    assert page.page.locator("[data-token]").count() == len(TEXT)  # and the new one, in a box to type in
    page.page.locator("[data-last]").fill("e")
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('[data-last]').value === 'e'")
    page.press("over")
    assert page.page.locator("[data-token]").count() == len(TEXT) - 1


def _seen(page: Watched, selector: str) -> tuple[float, float]:
    """How far a part of the page stands from the top and the bottom of the window, in pixels."""
    script = "one => { const { top, bottom } = one.getBoundingClientRect(); return [top, innerHeight - bottom]; }"
    return tuple(page.page.locator(selector).first.evaluate(script))  # type: ignore[return-value]


WHICH = {
    "transformer": ("transformer", TEXT, "1"),
    "gru": ("char", TEXT, "1"),
    "rnnsearch": ("rnnsearch", "1 2 3", "4"),
}


@pytest.mark.long
@pytest.mark.parametrize("which", WHICH)
def test_a_layer_opens_in_its_place_and_nothing_scrolls_away(
    visit: Visit, lab: str, which: str, request: pytest.FixtureRequest
) -> None:
    run, text, stage = WHICH[which]
    at = request.getfixturevalue("pair_lab") if which == "rnnsearch" else lab
    page = visit(f"#/walk?run={run}&text={quote(text)}", at=at)
    neighbour = page.page.locator("[data-stage='0']")
    before = neighbour.bounding_box()["width"]
    page.page.locator(f"[data-stage='{stage}']").click()
    page.until("document.querySelector('[data-look=stage]').offsetWidth > 400")
    assert neighbour.bounding_box()["width"] < before
    for part in (f"[data-stage='{stage}']", "[data-look=stage]", "[role=grid]"):
        assert min(_seen(page, part)) >= 0, part
    assert page.page.evaluate("scrollY") == 0
    for name in page.page.locator("[data-card]").all():
        name.click()
        page.settled()
        grid = page.page.locator("[data-matrix]")
        assert grid.get_attribute("data-matrix") == name.get_attribute("data-card")
    page.page.locator("[role=gridcell]").first.click()
    page.until("document.querySelector('[data-look=cell] [data-line]') !== null")
    for part in ("[role=gridcell][data-open]", "[data-look=cell] [data-cell]"):
        assert min(_seen(page, part)) >= 0, part
    assert page.page.evaluate("scrollY") == 0


@pytest.mark.long
def test_the_theme_reaches_the_open_matrix(visit: Visit) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}&stage=1", color_scheme="light")
    colour = "[...document.querySelectorAll('[role=gridcell]')].map(cell => getComputedStyle(cell).backgroundColor).join(' ')"
    before = page.page.evaluate(colour)
    page.page.emulate_media(color_scheme="dark")
    page.until(f"{colour} !== '{before}'")


@pytest.mark.long
def test_the_keyboard_opens_moves_and_closes(visit: Visit) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}")
    focused = "document.activeElement.getAttribute('role') ?? document.activeElement.dataset.stage"
    page.page.locator("[data-stage='1']").focus()
    page.page.keyboard.press("Enter")
    page.until(f"({focused}) === 'gridcell'")
    place = "document.activeElement.dataset.row + ',' + document.activeElement.dataset.column"
    last = len(TEXT) - 1
    for key, to in (
        ("ArrowRight", (last, 1)),
        ("ArrowUp", (last - 1, 1)),
        ("Home", (last - 1, 0)),
        ("Control+End", (last, last)),
    ):
        page.page.keyboard.press(key)
        assert page.page.evaluate(place) == ",".join(map(str, to))
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('[data-look=cell] [data-line]')?.offsetWidth > 0")
    page.page.keyboard.press("Escape")  # the sum
    page.until("document.querySelector('[data-look=cell]').hidden")
    assert page.page.evaluate(focused) == "gridcell"
    page.page.keyboard.press("Escape")  # the layer
    page.until("document.querySelector('[data-look=stage]').hidden")
    assert page.page.evaluate(focused) == "1"
    assert "stage=" not in page.hash()


@pytest.mark.long
def test_a_matrix_is_a_grid_whose_numbers_can_be_read(visit: Visit) -> None:
    for scheme in ("light", "dark"):
        page = visit(f"#/walk?run=transformer&text={quote(TEXT)}&stage=1", color_scheme=scheme)
        grid = page.page.get_by_role("grid")
        assert int(grid.get_attribute("aria-colcount")) == len(TEXT) + 1  # the names of the rows, too
        assert grid.get_by_role("row").count() == len(TEXT) + 1  # the names of the columns, too
        assert grid.get_by_role("gridcell").count() == len(TEXT) ** 2
        script = "cells => cells.map(cell => [getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor])"
        for ink, paper in grid.get_by_role("gridcell").evaluate_all(script):
            assert _contrast(ink, paper) >= 4.5, (ink, paper)


def _contrast(one: str, other: str) -> float:
    def luminance(rgb: str) -> float:
        parts = np.array([int(part) for part in re.findall(r"\d+", rgb)]) / 255
        return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.long
def test_on_a_phone_a_layer_opens_below_its_name(visit: Visit) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}", viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page.page.locator("[data-stage='1']").click()
    page.until("document.querySelector('[role=grid]') !== null")
    chip, opened = (page.page.locator(one).bounding_box() for one in ("[data-stage='1']", "[data-look=stage]"))
    assert chip["y"] >= 0
    assert chip["y"] + chip["height"] <= opened["y"]
    assert opened["y"] + opened["height"] <= 844
    assert opened["x"] >= 0
    assert opened["x"] + opened["width"] <= 390
    page.page.locator("[role=gridcell]").first.click()
    page.until("document.querySelector('[data-look=cell] [data-line]') !== null")
    for part in ("[role=gridcell][data-open]", "[data-look=cell] [data-cell]"):
        assert min(_seen(page, part)) >= 0, part
    assert page.page.evaluate("document.getAnimations().length") == 0  # this user prefers less motion


def test_pointing_at_an_earlier_token_shows_what_could_have_followed_it(visit: Visit, char_run: Path) -> None:
    page = visit(f"#/walk?run=char&text={quote(TEXT)}")
    run = load(char_run)

    def shown() -> dict[int, float]:
        rows = page.page.locator(".walk-next button").all()
        return {int(one.get_attribute("data-candidate")): float(one.locator(".walk-share").text_content()[:-2]) for one in rows}

    def right(text: str) -> bool:
        p_V = run.walk(text).logits_TV[-1].softmax(-1)
        return shown() == pytest.approx({id: 100 * float(p_V[id]) for id in shown()}, abs=0.06)

    assert right(TEXT)
    page.page.locator("[data-token='4']").hover()
    page.until("document.querySelector('[data-came]') !== null")
    assert right(TEXT[:5])
    (came,) = run.ids(TEXT[5]).tolist()
    assert int(page.page.locator("[data-came]").get_attribute("data-candidate")) == came
    page.page.mouse.move(0, 0)
    page.until("document.querySelector('[data-came]') === null")
    assert right(TEXT)
    page.page.locator("[data-token='4']").click()  # it stays marked, and another token can follow it
    page.settled()
    other = next(id for id in shown() if id != came)
    page.page.locator(f"[data-candidate='{other}']").click()
    page.settled()
    ids = page.hash().split("ids=")[1].split("&")[0]
    assert ids == "%2C".join(map(str, [*run.ids(TEXT[:5]).tolist(), other]))


@pytest.mark.long
def test_temperature_changes_the_bars_and_playing_appends_tokens(visit: Visit) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}")
    page.set("temperature", "0")
    assert page.page.locator(".walk-share").first.text_content() == "100.0 %"
    count = page.page.locator("[data-token]").count()
    page.page.locator("[data-control=play]").click()
    page.until(f"document.querySelectorAll('[data-token]').length > {count}")
    page.page.locator("[data-control=play]").click()
    page.settled()


@pytest.mark.long
@pytest.mark.parametrize("run", ["rnnsearch", "transformer"])
def test_a_translator_shows_which_source_tokens_a_step_attends_to(
    visit: Visit, pair_lab: str, pair_library: Any, run: str, screenshot: Screenshot
) -> None:
    page = visit(f"#/walk?run={run}&text=1+2+3", at=pair_lab)
    model = load(pair_library.path(run))
    stages = model.walk("1 2 3").stages
    number = next(n for n, one in enumerate(stages) if "cross" in one.links)
    page.page.locator(f"[data-stage='{number}']").click()
    page.settled()
    weights = stages[number].links["cross"]()[-1].numpy()
    lines = page.page.locator(".walk-cross").all()
    told = {int(one.get_attribute("data-key")): float(one.get_attribute("data-weight")) for one in lines}
    assert told == pytest.approx({n: weight for n, weight in enumerate(weights) if round(float(weight), 3) > 0.01}, abs=6e-4)
    screenshot(page, f"walk-{run}")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_only_the_picture(visit: Visit, scheme: str, screenshot: Screenshot) -> None:
    page = visit(f"#/walk?run=bpe&text={quote(TEXT)}", color_scheme=scheme)
    for width in (390, 1440):
        page.page.set_viewport_size({"width": width, "height": 900})
        assert page.page.evaluate("document.querySelector('[data-room=walk]').scrollWidth") <= width
        screenshot(page, f"walk-{width}-{scheme}")


@pytest.mark.long
def test_a_text_that_looks_like_html_stays_text(visit: Visit) -> None:
    page = visit(f"#/walk?run=bpe&text={quote('<b>the</b> <img src=x onerror=alert(1)>')}")
    assert page.page.locator("[data-room=walk] img, [data-room=walk] b img").count() == 0
    assert "<" in "".join(page.page.locator("[data-token]").all_text_contents())
