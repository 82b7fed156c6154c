"""The room Generate in a browser: its text is that of generate(), its bars are the model's probabilities."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed, serving

from firth.api import load
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms import generate
from firth.tasks.abilities.stepwise_generation import next_token, write


def _written(page: Watched) -> str:
    found: str = page.page.locator("[data-written]").text_content()
    return found


def _tokens(page: Watched) -> list[int]:
    given = dict(part.split("=") for part in page.hash().split("?")[1].split("&"))
    return [int(id) for id in given.get("tokens", "").split("%2C") if id]


def _assert_bars(page: Watched, run: Path, prompt: str, **settings: float) -> None:
    model = load(run)
    found = next_token(model, prompt, _tokens(page), model.decoding(dict(settings)))
    given, shares = page.plot("next")["data"]
    np.testing.assert_allclose(given["x"], [one.probability for one in found.candidates], rtol=1e-5)
    np.testing.assert_allclose(shares["x"], [one.share for one in found.candidates], rtol=1e-5, atol=1e-12)


def test_step_by_step_and_in_one_run_it_writes_what_generate_writes(visit: Visit, char_run: Path, screenshot: Screenshot) -> None:
    page = visit("#/generate?run=char&prompt=the+&seed=5&more=10")
    for _ in range(3):
        page.press("step")
    expected = load(char_run).generate("the ", tokens=13, seed=5)
    assert _written(page) == "the " + expected[:3]
    page.press("write")
    assert _written(page) == "the " + expected
    _assert_bars(page, char_run, "the ", seed=5)
    screenshot(page, "generate")
    again = visit(page.hash())
    assert _written(again) == "the " + expected
    figure = executed(again.python("next"))["figure"]
    np.testing.assert_allclose(figure.plot.data[0].x, again.plot("next")["data"][0]["x"], rtol=1e-6)


@pytest.mark.long
def test_temperature_and_cuts_change_the_shares_and_not_what_is_written(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/generate?run=transformer&prompt=the+list&seed=1")
    page.press("step")
    before, tokens = _written(page), _tokens(page)
    page.set("temperature", "0.5")
    page.set("top_k", "3")
    page.set("top_p", "0.9")
    _assert_bars(page, transformer_run, "the list", temperature=0.5, top_k=3, top_p=0.9, seed=1)
    assert (_written(page), _tokens(page)) == (before, tokens)
    page.page.get_by_text("More sampling filters").click()
    page.set("min_p", "0.5")
    _assert_bars(page, transformer_run, "the list", temperature=0.5, top_k=3, top_p=0.9, min_p=0.5, seed=1)
    page.set("min_p", "")
    _assert_bars(page, transformer_run, "the list", temperature=0.5, top_k=3, top_p=0.9, seed=1)
    page.set("temperature", "0")
    assert page.plot("next")["data"][1]["x"][:2] == [1, 0]


@pytest.mark.long
def test_a_token_is_taken_back_and_another_chosen(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/generate?run=transformer&prompt=the+list")
    page.page.locator("[data-candidate]").nth(1).click()
    page.settled()
    second = next_token(load(transformer_run), "the list", [], load(transformer_run).decoding({})).candidates[1]
    assert _tokens(page) == [second.id]
    page.press("back")
    assert _written(page) == "the list"
    page.page.go_back()
    page.page.wait_for_selector("[data-token]")
    assert _tokens(page) == [second.id]


@pytest.mark.long
def test_percentages_are_those_of_the_draw_and_the_draw_is_not_announced(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/generate?run=transformer&prompt=the+list&seed=1&temperature=0.5&top_k=3")
    model = load(transformer_run)
    found = next_token(model, "the list", [], model.decoding({"temperature": 0.5, "top_k": 3, "seed": 1}))
    texts = page.page.locator("[data-candidate]").all_text_contents()
    assert [text.rsplit(" ", 2)[1] for text in texts] == [f"{100 * one.share:.1f}" for one in found.candidates]
    about = page.page.locator("[data-about]").text_content()
    assert f"{found.entropy:.2f} bits" in about
    assert f"{found.sampling_entropy:.2f} bits" in about
    assert "next token is" not in about
    assert page.plot("next")["layout"]["xaxis"]["range"] == [0, 1]
    page.press("step")
    assert _tokens(page) == [found.drawn.id]
    page.press("again")
    other = next_token(model, "the list", [], model.decoding({"temperature": 0.5, "top_k": 3, "seed": 2})).drawn
    assert (_tokens(page), "seed=2" in page.hash()) == ([other.id], True)
    page.page.go_back()
    page.until("location.hash.includes('seed=1')")
    assert _tokens(page) == [found.drawn.id]
    page.page.get_by_role("button", name="Always the most probable token").click()
    page.until("location.hash.includes('temperature=0&')")
    assert page.page.locator("[data-candidate]").first.text_content().endswith("100.0 %")


@pytest.mark.long
def test_the_room_opens_with_a_prompt_that_suits_the_run(visit: Visit, library: RunLibrary) -> None:
    page = visit("#/generate")
    first = page.page.locator("[data-control=run]").input_value()
    assert _written(page) == library.facts(first).example != ""
    page.set("run", "bpe")
    assert _written(page) == library.facts("bpe").example
    page.set("prompt", "")
    assert _written(page) == ""


@pytest.mark.long
def test_a_click_on_a_bar_takes_its_token(visit: Visit) -> None:
    page = visit("#/generate?run=char&prompt=the+")
    second = page.page.locator("[data-candidate]").nth(1).get_attribute("data-candidate")
    page.page.locator("[data-figure=next] .plot").evaluate("place => place.emit('plotly_click', { points: [{ y: 1 }] })")
    page.until("location.hash.includes('tokens=')")
    assert _tokens(page) == [int(second)]


@pytest.mark.long
def test_another_prompt_begins_anew(visit: Visit) -> None:
    page = visit("#/generate?run=char&prompt=the+")
    page.press("step")
    page.set("prompt", "a name")
    assert _written(page) == "a name"
    assert _tokens(page) == []


@pytest.mark.long
def test_numbers_as_a_table_and_text_that_looks_like_a_script(visit: Visit, bpe_run: Path) -> None:
    prompt = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    page = visit(f"#/generate?run=bpe&prompt={quote(prompt)}")
    assert _written(page).startswith(prompt)
    assert page.page.locator("main img").count() == 0
    _assert_bars(page, bpe_run, prompt)
    assert len(page.table("next")) == 12


@pytest.mark.long
def test_bad_input_is_told_and_the_room_stays_usable(visit: Visit) -> None:
    page = visit("#/")
    for address, message in (
        ("#/generate?run=char&prompt=Ω", "the run knows no character of this text: Ω"),
        (f"#/generate?run=char&prompt={'a' * 100_000}", "prompt has 100,000 characters; the limit is 20,000"),
        ("#/generate?run=char&tokens=x", 'tokens is "x"; expected token ids'),
        ("#/generate?run=char&tokens=99999", "token id 99999 is out of range"),
        ("#/generate?run=char&temperature=-1", "temperature is -1"),
        ("#/generate?run=chat", 'there is no run "chat" in the lab. Did you mean "char"?'),
    ):
        page.open(address)
        page.page.locator("[role=alert]", has_text=message).wait_for()
        assert page.settled().page.locator("button[data-control=step]").is_disabled()
    page.open("#/generate?run=char&prompt=the")
    page.page.locator("button[data-control=step]:enabled").wait_for()
    page.settled().press("step")
    assert page.page.locator("[role=alert]").count() == 0


@pytest.mark.long
def test_an_empty_prompt_begins_a_line(visit: Visit, char_run: Path) -> None:
    page = visit("#/generate?run=char&prompt=&seed=2&more=5")
    page.press("write")
    assert _written(page) == load(char_run).generate("", tokens=5, seed=2)


@pytest.mark.long
def test_what_a_recurrent_network_has_in_mind(visit: Visit, char_run: Path) -> None:
    page = visit("#/generate?run=char&prompt=the+list")
    (level,) = load(char_run).states("the list").levels
    most = level.most(32)
    np.testing.assert_allclose(page.plot("state")["data"][0]["z"], level.h[:, most].T, atol=1e-4)
    page.set("gate", "reset")
    np.testing.assert_allclose(page.plot("state")["data"][0]["z"], level.gates()["reset"][:, most].T, atol=1e-4)
    again = visit(page.hash())
    np.testing.assert_allclose(again.plot("state")["data"][0]["z"], level.gates()["reset"][:, most].T, atol=1e-4)
    again.set("run", "transformer")
    assert not again.page.locator("[data-figure=state]").is_visible()


@pytest.mark.long
def test_a_long_run_can_be_cancelled(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*given: Any) -> Iterator[int]:
        for id in write(*given):
            time.sleep(0.05)
            yield id

    monkeypatch.setattr(generate, "write", slowly)
    page = visit("#/generate?run=char&prompt=the&more=500")
    page.page.locator("button[data-control=write]").click()
    cancel = page.page.locator("[data-testid=cancel]")
    cancel.wait_for(timeout=60_000)
    page.page.locator("[data-live]:not(:empty)").wait_for()  # the text grows while it is written
    cancel.click()
    page.page.wait_for_selector("[data-cancelled]")
    page.settled()
    assert _written(page) == "the"
    page.press("step")
    assert len(_tokens(page)) == 1


@pytest.mark.long
def test_without_a_run_that_writes_the_room_says_what_to_do(visit: Visit) -> None:
    with serving(RunLibrary()) as address:
        page = visit("#/generate", at=address)
        assert "Train a language model" in page.page.locator("[data-if-none]").text_content()
