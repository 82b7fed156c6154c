"""Lessons in a browser: the question comes first, and the keyboard is enough."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Screenshot, Visit, listening

from firth.serving.lab.classroom import Classroom, build_classroom
from firth.serving.lab.lab_lesson import lesson_files
from firth.serving.lab.library import RunLibrary


@pytest.mark.long
def test_a_step_asks_first_and_shows_its_figure_with_a_score(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/lesson/query-key-value?step=2")
    assert page.page.locator("[data-figure]").count() == 0
    assert not page.page.locator("[data-verdict]").text_content()
    page.page.get_by_role("button", name="0.54 and 0.46").click()
    page.page.wait_for_selector("[data-figure=weights] .main-svg")
    assert page.page.locator("[data-option][data-right]").text_content() == "0.88 and 0.12"
    assert "You said: 0.54 and 0.46. The answer is: 0.88 and 0.12." in (page.page.locator("[data-verdict]").text_content() or "")
    assert page.page.locator("[data-score]").text_content() == "0 of 1 right"
    screenshot(page, "lesson")


@pytest.mark.long
def test_arrow_keys_and_numbers_lead_through_a_lesson(visit: Visit) -> None:
    page = visit("#/lesson/layer?step=2")
    keyboard = page.page.keyboard
    keyboard.press("2")
    page.page.wait_for_selector("[data-figure=parameters] .main-svg")
    assert "Right." in (page.page.locator("[data-verdict]").text_content() or "")
    keyboard.press("ArrowRight")
    page.settled()
    assert page.hash().startswith("#/lesson/layer?step=3")
    keyboard.press("ArrowRight")  # shows the answer, without a score
    page.page.wait_for_selector("[data-option][data-right]")
    assert page.page.locator("[data-option][data-right]").text_content() == "embedding"
    assert page.page.locator("[data-score]").text_content() == "1 of 1 right"
    keyboard.press("ArrowLeft")
    page.page.wait_for_selector("[data-option][data-right] >> text=feed-forward networks")
    assert page.page.locator("[data-mark=right]").text_content() == "2"


@pytest.mark.long
def test_the_room_lists_the_lessons_and_a_lesson_leads_back_to_it(visit: Visit) -> None:
    page = visit("#/lesson")
    assert page.page.locator("[data-lesson]").count() == len(lesson_files())
    page.page.get_by_role("link", name="Gates", exact=True).click()
    page.page.wait_for_selector(".question")
    assert page.hash().startswith("#/lesson/gates?step=1")
    page.page.get_by_role("link", name="All lessons").click()
    page.page.wait_for_selector("[data-lesson=gates]")


@pytest.mark.long
def test_a_step_that_needs_a_run_says_how_to_make_it(visit: Visit) -> None:
    page = visit("#/lesson/gates?step=2")  # char is a GRU
    assert page.page.locator("[data-lacking]").text_content() == "This step needs a run of LSTM. firth tour makes one."
    page.page.keyboard.press("ArrowRight")
    page.settled()
    assert "step=3" in page.hash()


@pytest.mark.long
def test_a_class_answers_on_phones_and_the_projector_counts(visit: Visit, chromium: Any, library: RunLibrary) -> None:
    library.classroom = Classroom()
    phone = chromium.new_page(viewport={"width": 390, "height": 800})
    try:
        with listening(build_classroom(library.classroom)) as address:
            library.classroom.address = address
            page = visit("#/lesson/query-key-value?step=2&projector=true&answer=").page
            assert library.classroom.code in (page.locator("[data-classroom]").text_content() or "")
            phone.goto(f"{address}/?code={library.classroom.code}")
            phone.get_by_role("button", name="1.00 and 0.00").click()
            phone.wait_for_selector("[aria-pressed=true]")
            page.wait_for_selector("[data-answers] >> text=1 answer")
            assert page.locator("[data-count]").count() == 0  # nobody sees what the others chose before the answer is shown
            page.get_by_role("button", name="Show the answer").click()
            page.wait_for_selector("[data-option='1.00 and 0.00'][data-count='1']")
            page.get_by_role("button", name="Next").click()
            phone.wait_for_selector("#question >> text=without the division")
    finally:
        library.classroom = None
        phone.close()
