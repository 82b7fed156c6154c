"""The room Playground in a browser: its pictures hold the numbers of inspection/playground.py."""

from __future__ import annotations

import math
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed

from firth.inspection.playground import STEPS, PlaygroundResult, Settings, example, of_sentence, of_table


def _assert_shows(page: Watched, played: PlaygroundResult, head: int = 0) -> None:
    for step in played.steps:
        cells = page.plot(step.name)["data"][0]
        given = [[-math.inf if value is None else value for value in row] for row in cells["z"]]
        np.testing.assert_allclose(given, step.values_HQn[head], rtol=1e-12, err_msg=step.name)
        assert page.page.locator(f"[data-equation={step.name}]").text_content() == step.equation


def test_the_first_example_is_112_and_96(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/playground?shown=5")
    _assert_shows(page, example("scores"))
    assert page.plot("weights")["data"][0]["text"] == [["0.88", "0.12"]]
    assert page.table("scores") == [["scores", "Thinking", "Thinking", "112"], ["scores", "Thinking", "Machines", "96"]]
    screenshot(page, "playground")


@pytest.mark.long
def test_a_name_finds_its_role_and_the_larger_the_scale_the_surer(visit: Visit) -> None:
    page = visit("#/playground?shown=5")
    page.set("of", "roles")
    _assert_shows(page, example("roles"))
    caption = page.page.locator("[data-caption=steps]")
    assert caption.text_content() == example("roles").caption != ""
    page.set("query", "Xiaomei")
    _assert_shows(page, example("roles", query="Xiaomei"))
    assert "Approximate match" in (caption.text_content() or "")
    assert executed(page.python("sums"))["played"].caption == caption.text_content()
    page.set("query", "Ravi")
    page.set("scale", "50")
    _assert_shows(page, example("roles", Settings(scale=50)))
    assert page.plot("sums")["data"][0]["text"] == [["0.00", "0.00", "1.00"]]


@pytest.mark.long
def test_every_choice_reaches_the_picture_and_the_address_restores_it(visit: Visit) -> None:
    page = visit("#/playground?shown=5&of=sentence&text=a+b+c+d&limit=3&scale=0.5&heads=2&head=2&width=4&seed=7")
    _assert_shows(page, of_sentence("a b c d", Settings(scale=0.5, heads=2, width=4, seed=7)), head=1)
    for name, value in {"score": "additive", "mask": "window", "position": "t5"}.items():
        page.set(name, value)
    settings = Settings(score="additive", mask="window", limit=3, position="t5", scale=0.5, heads=2, width=4, seed=7)
    _assert_shows(page, of_sentence("a b c d", settings), head=1)
    assert page.page.locator("[data-figure=masked] .textpoint").all_text_contents() == ["−∞"] * 7  # of 16 pairs 9 are in a window
    again = visit(page.hash())
    _assert_shows(again, of_sentence("a b c d", settings), head=1)
    figure = executed(again.python("weights"))["figures"]["weights"]
    np.testing.assert_allclose(figure.plot.data[0].z, of_sentence("a b c d", settings).weights[1])


@pytest.mark.long
def test_step_by_step_with_the_keyboard(visit: Visit) -> None:
    page = visit("#/playground")
    assert page.page.locator("button[data-control=first]").is_disabled()
    assert [page.page.locator(f"[data-step={name}]").is_visible() for name in STEPS] == [True, False, False, False, False]
    page.page.locator("button[data-control=next]").focus()
    page.page.keyboard.press("Enter")
    page.settled()
    assert [page.page.locator(f"[data-step={name}]").is_visible() for name in STEPS] == [True, True, False, False, False]
    page.page.go_back()
    page.page.wait_for_selector("[data-step=scaled]", state="hidden")
    assert page.page.locator("[data-step=scores]").is_visible()


@pytest.mark.long
def test_a_table_of_ones_own_with_vectors_of_a_file(visit: Visit, vectors_file: Path) -> None:
    page = visit("#/playground?shown=5&of=table&vectors=small.firth")
    page.set("table", "king = royal\napple = fruit")
    page.set("query", "queen")
    from firth.vectors import load

    _assert_shows(page, of_table([("king", "royal"), ("apple", "fruit")], "queen", vectors=load(vectors_file)))
    assert executed(page.python("weights"))["played"].keys == ("king", "apple")


@pytest.mark.long
def test_a_token_lights_up_in_every_step_and_the_softmax_is_compared_without_scaling(visit: Visit) -> None:
    page = visit("#/playground?shown=5&of=sentence&text=a+b+c+d&width=4")
    page.page.locator("[data-tokens] button").nth(2).focus()
    marked = "[...document.querySelectorAll('[data-step] .plot')].map(place => place.layout.shapes?.length ?? 0).join()"
    page.until(f"{marked} === '2,2,2,2,1'")  # its row and its column; the sums have no keys
    page.page.locator("[data-tokens] button").nth(1).click()
    page.page.mouse.move(0, 0)
    assert page.page.locator("[data-tokens] button").nth(1).get_attribute("aria-pressed") == "true"
    page.set("beside", "true")
    plain = of_sentence("a b c d", Settings(width=4, scale=1.0)).steps[STEPS.index("weights")].values_HQn[0]
    script = "place => place.data[0].z"
    shown = page.page.locator("[data-unscaled] .plot").evaluate(script)
    np.testing.assert_allclose(shown, plain, rtol=1e-6)
    scaled = page.page.locator("[data-step=weights] .plot").evaluate(script)
    assert np.abs(np.array(scaled) - np.array(shown)).max() > 1e-3
    page.set("beside", "false")
    assert not page.page.locator("[data-unscaled]").is_visible()


@pytest.mark.long
def test_the_vectors_and_their_projections_are_shown(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/playground?of=sentence&text=a+b+c&width=4&projected=true&inputs=true")
    played = of_sentence("a b c", Settings(width=4, projected=True))
    for panel in played.vector_panels():
        np.testing.assert_allclose(page.plot(panel.name)["data"][0]["z"], panel.values, rtol=1e-12, err_msg=panel.name)
    screenshot(page, "playground-vectors")
    page.set("projected", "false")
    assert page.page.locator("[data-vector]").count() == 3
    page.set("inputs", "false")
    assert not page.page.locator("[data-vectors]").is_visible()
    page.set("of", "roles")
    assert not page.page.locator("[data-control=projected]").is_visible()


@pytest.mark.long
def test_text_that_looks_like_a_script_is_shown(visit: Visit) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script> <b>x</b>"
    page = visit(f"#/playground?shown=5&of=sentence&text={quote(text)}")
    _assert_shows(page, of_sentence(text))
    assert page.table("scores")[2][1:3] == ["<img", "onerror=alert(1)>"]
    assert page.page.locator("main img, main b").count() == 0
    ticks = page.page.locator("[data-figure=scores] .ytick text").all_text_contents()
    assert "<b>x</b>" in ticks


@pytest.mark.long
def test_bad_input_is_told_and_the_room_stays_usable(visit: Visit) -> None:
    page = visit("#/")
    for address, message in (
        ("#/playground?of=sentence&text=", "the sentence has no words; expected 1 to 64"),
        (f"#/playground?of=sentence&text={'x' * 100_000}", "text has 100,000 characters; the limit is 20,000"),
        (f"#/playground?of=sentence&text={'x+' * 100}", "the sentence has 100 words"),
        ("#/playground?score=cosin", 'score is "cosin"; expected one of scaled_dot'),
        ("#/playground?heads=3", "dimension 64 cannot be split into 3 heads"),
        ("#/playground?heads=2&head=3", "head is 3; expected a whole number from 1 to 2"),
        ("#/playground?of=table&table=nothing", 'line 1 of the table is "nothing"'),
    ):
        page.open(address)
        page.page.locator("[role=alert]", has_text=message).wait_for()
    page.open("#/playground?shown=5&of=roles")
    page.page.locator("[role=alert]").wait_for(state="detached")
    _assert_shows(page.settled(), example("roles"))
