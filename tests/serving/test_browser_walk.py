"""The room Walk in a browser: the numbers it shows are Python's, by pointer and by keyboard, narrow and wide, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched

from firth.api import load

TEXT = "the list is"


def _values(page: Watched, name: str) -> Any:
    found = page.page.locator(f"[data-matrix='{name}']").first.evaluate("one => one.matrix.values")
    return np.array([[np.nan if value is None else value for value in row] for row in found])


def test_a_layer_shows_its_matrices_and_a_key_opens_the_sum(visit: Visit, transformer_run: Path) -> None:
    page = visit(f"#/walk?run=transformer&text={quote(TEXT)}&stage=1&head=1")
    truth = {one.name: one for one in load(transformer_run).walk(TEXT).stages[1].matrices(1)}
    for name in ("x", "q", "p", "o", "f"):
        shown, exact = _values(page, name), truth[name].value.numpy()[:, :48]
        there = ~np.isnan(shown)
        np.testing.assert_allclose(shown[there], exact[there], rtol=1e-4, atol=1e-9)
    board = page.page.locator("[data-matrix='q'] canvas")
    board.focus()
    page.page.keyboard.press("ArrowRight")
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
