"""The room Inspect in a browser: each view shows the run's own numbers, and its address restores it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browsing import Screenshot, Visit

from firth.api import load

TEXT = "the list is empty."  # the beginning of the text that the runs were trained on


@pytest.mark.long
def test_what_a_model_expects_and_how_far_its_gradient_reaches(visit: Visit, screenshot: Screenshot, char_run: Path) -> None:
    page, model = visit("#/inspect?run=char"), load(char_run)
    assert page.table("predictions") == [list(row) for row in model.predictions(TEXT).figure().table.rows]
    about, counted = page.page.locator("[data-about]"), "18 tokens (after ↵, which the model reads before every text)"
    assert f"{counted}, perplexity {model.predictions(TEXT).perplexity:.2f}" in about.text_content()
    page.set("look", "flow")
    assert about.text_content().startswith(f"{counted}. ")
    state, embedding = page.plot("flow")["data"][:2]
    np.testing.assert_allclose(state["y"], model.flow(TEXT).state, rtol=1e-6)
    np.testing.assert_allclose(embedding["y"], model.flow(TEXT).embedding, rtol=1e-6)
    assert page.page.locator("[data-figure=clipped]").count() == 1
    screenshot(page, "reading")


@pytest.mark.long
def test_an_address_with_the_old_name_of_the_room_still_leads_to_it(visit: Visit) -> None:
    page = visit("#/reading?run=char&look=flow")
    assert page.page.locator("[data-figure=flow]").count() == 1
    assert page.hash().startswith("#/inspect?run=char&look=flow")
    assert page.page.locator("[aria-current=page]").text_content() == "Inspect"


@pytest.mark.long
def test_states_and_gates_of_a_recurrent_model(visit: Visit, char_run: Path) -> None:
    page = visit("#/inspect?run=char&look=states").set("gate", "update")
    expected = load(char_run).states(TEXT).figure(-1, "update", 32)
    assert page.table("states") == [list(row) for row in expected.table.rows]
    again = visit(page.hash())
    assert again.table("states") == page.table("states")
    page.set("run", "transformer")
    assert "recurrent" in page.alert()
    page.set("look", "predictions")
    assert not page.page.locator("[role=alert]").count()


@pytest.mark.long
def test_one_word_in_several_sentences(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/inspect?run=transformer&look=senses").set("sentences", "the list is empty\nlist the type")
    expected = load(transformer_run).senses("list", ["the list is empty", "list the type"]).figure()
    assert page.table("senses") == [list(row) for row in expected.table.rows]
    page.set("word", "<b>bold</b>")
    assert "<b>bold</b>" in page.alert()
    assert not page.page.locator("[role=alert] b").count()


@pytest.mark.long
def test_an_empty_text_is_told_of(visit: Visit) -> None:
    page = visit("#/inspect?run=char").set("text", "")
    assert "the text is empty" in page.alert()
    assert page.set("text", "a name").page.locator("[role=alert]").count() == 0
