"""The first page in a browser: drawings, what works, and a button that trains what a room lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Screenshot, Visit, workshop_in

from firth import vectors
from firth.api import load
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms import ROOMS, rooms
from firth.serving.lab.starters import CAPTIONER, CHAT, CLASSIFIER, DATES, TAGGER, WORDS
from firth.text.datasets.scenes import scenes

pytestmark = pytest.mark.long


@pytest.fixture
def empty(lab: str, tmp_path: Path) -> Iterator[tuple[str, RunLibrary]]:
    """A lab without runs, whose workshop writes to a folder of the test."""
    with workshop_in(tmp_path / "runs", RunLibrary()) as lent:
        yield lent


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_card_has_a_drawing_in_the_pages_colours(
    visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot, scheme: str
) -> None:
    page = visit("#/", at=empty[0], color_scheme=scheme, viewport={"width": 1440, "height": 900})
    drawings = page.page.locator(".cards svg[data-thumbnail]")
    assert [one.get_attribute("data-thumbnail") for one in drawings.all()] == list(ROOMS.kinds)
    assert min(one.locator("*").count() for one in drawings.all()) >= 3
    fill = page.page.locator(".thumbnail .accent").first.evaluate("shape => getComputedStyle(shape).fill")
    assert fill == {"light": "rgb(0, 96, 160)", "dark": "rgb(124, 192, 238)"}[scheme]
    screenshot(page, f"home-{scheme}")


def test_a_card_says_what_works_and_copies_the_command(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    page = visit("#/", at=empty[0])
    for name, room in rooms().items():
        told, card = room.json(RunLibrary()), page.page.locator(f"[data-card={name}]")
        expected = "Works now" if told["works"] else f"Needs {told['needs']}"
        assert card.locator("[data-works]").text_content() == expected
        assert card.locator("[data-command]").all_text_contents() == ([] if told["works"] else [told["command"]])
        assert card.locator("[data-make]").count() == bool(told["starter"])
    page.page.locator("[data-card=translate] [data-testid=copy-command]").click()
    page.page.get_by_text("Copied").wait_for()
    assert page.page.evaluate("navigator.clipboard.readText()") == DATES.command()


def test_the_button_trains_a_run_that_works_at_once(visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot) -> None:
    address, own = empty
    page = visit("#/", at=address)
    page.page.locator(f"[data-card=classify] [data-make={CLASSIFIER.name}]").focus()
    page.page.keyboard.press("Enter")  # by keyboard alone
    page.page.locator("[data-training]").wait_for()
    page.until("document.querySelector('[data-told]').textContent.includes('is trained')")
    page.page.locator("[data-card=classify] [data-works]", has_text="Works now").wait_for()  # the cards follow a moment later
    assert page.page.locator("[data-card=classify] [data-command]").count() == 0
    assert page.page.locator("[data-card=translate] [data-make]").is_enabled()
    screenshot(page, "home-trained")
    page.page.locator("[data-links] a", has_text="Classify").click()
    page.page.wait_for_selector("[data-figure=classes]")
    page.settled()
    assert own.workshop.job is not None
    text = page.page.locator("[data-control=text]").input_value()
    (found,) = load(own.workshop.job.path).classify([text])
    (bars,) = page.plot("classes")["data"]
    assert dict(zip(bars["customdata"], bars["x"], strict=True)) == pytest.approx(found.probabilities, abs=1e-6)


def test_a_room_without_a_run_has_nothing_to_press_and_says_why(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    page = visit("#/", at=empty[0])
    for name, room in rooms().items():
        if room.ability is None or room.json(RunLibrary())["works"]:
            continue
        page.open(f"#/{name}").until(f"document.body.dataset.ready === '{name}'")
        runs, buttons = page.page.locator("[data-control=run]"), page.page.locator("[data-room] form button").all()
        assert runs.is_disabled(), name
        assert runs.inner_text() == "no run yet", name
        assert buttons, name
        for button in buttons:
            assert button.is_disabled(), (name, button.text_content())
        told = page.page.locator(f"#{runs.get_attribute('aria-describedby')}")
        assert told.text_content() == room.if_none
        assert "firth train" in page.page.locator("[data-command]").text_content(), name


def test_while_a_model_is_trained_the_other_buttons_say_so(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    page = visit("#/", at=empty[0])
    page.page.locator("[data-card=translate] [data-make]").click()
    page.page.locator("[data-told]", has_text="dates: ").wait_for()
    busy = page.page.locator("[data-card=classify] [data-busy-with]")
    assert busy.text_content() == "“dates” is being trained: wait until it ends, or stop it."
    page.page.locator("[data-control=stop]").click()
    busy.wait_for(state="detached")
    assert page.page.locator("[data-card=classify] [data-make]").is_enabled()


def test_a_room_that_lacked_a_run_opens_with_it(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    page = visit("#/classify", at=empty[0])
    page.page.get_by_role("button", name="Train a classifier of short reviews").click()
    page.page.wait_for_selector("[data-figure=classes]", timeout=60_000)
    page.settled()
    assert page.page.locator("[data-command], [data-if-none]").count() == 0
    assert page.page.locator("[data-control=run]").input_value() == CLASSIFIER.name
    page.page.get_by_role("button", name="Blame").click()
    page.until("document.querySelector('[data-summary]').textContent.startsWith('bad')")


def test_words_opens_on_vectors_that_were_trained_there(
    visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot
) -> None:
    address, own = empty
    page = visit("#/words", at=address)  # which shows contexts until there are vectors
    assert page.page.locator("[data-command]").text_content() == WORDS.command()
    page.page.get_by_role("button", name="Train word vectors").click()
    page.page.locator("[data-told]", has_text="words: word ").wait_for(timeout=60_000)
    screenshot(page, "words-training")
    page.page.wait_for_selector("[data-figure=neighbours]", timeout=60_000)
    page.settled()
    assert page.page.locator("[data-command], [data-if-none]").count() == 0
    job, word = own.workshop.job, page.page.locator("[data-control=word]").input_value()
    assert job is not None
    (bars,) = page.plot("neighbours")["data"]
    expected = vectors.load(job.path).most_similar(word, topn=10)
    assert dict(zip(bars["customdata"], bars["x"], strict=True)) == pytest.approx(dict(expected), abs=1e-6)
    page.open("#/build")  # where the curve of the latest training is
    lines = [line for line in job.lines if line["loss"] is not None]
    (curve,) = page.plot("curves")["data"]
    assert (curve["x"], curve["y"]) == ([line["tokens"] for line in lines], pytest.approx([line["loss"] for line in lines]))
    page.page.locator("[data-links] a", has_text="Search").click()
    page.page.wait_for_selector("[data-room=search]")
    assert page.settled().page.locator("[data-control=vectors]").input_value() == "words.firth"


def test_vectors_that_are_stopped_can_be_opened_or_say_that_there_are_none(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    page = visit("#/", at=empty[0])
    page.page.locator("[data-card=words] [data-make]").click()
    page.page.locator("[data-told]", has_text="getting ready").wait_for()
    page.page.locator("[data-control=stop]").click()
    page.until("/stopped before its first weights|is trained: word/.test(document.querySelector('[data-told]').textContent)")
    assert page.page.locator("[data-make=words]").count() == (0 if empty[1].vectors else 1)
    assert page.page.locator("[data-failed]").count() == 0


def test_tag_opens_on_a_tagger_that_knows_a_word_by_its_context(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    address, own = empty
    page = visit("#/tag", at=address)
    assert page.page.locator("[data-command]").text_content() == TAGGER.command()
    page.page.get_by_role("button", name="Train a tagger of Python code").click()
    page.page.wait_for_selector("[data-sentence]", timeout=60_000)
    page.settled()
    page.page.get_by_role("button", name="One word in five roles").click()
    page.until("document.querySelectorAll('[data-sentence]').length === 1")
    copies = page.page.locator(".tagged", has_text="copy").evaluate_all("all => all.map(one => one.dataset.tag)")
    assert copies[:3] == ["function", "attribute", "call"]
    assert own.workshop.job is not None
    run = load(own.workshop.job.path)
    (found,) = run.tag([page.page.locator("[data-control=text]").input_value()])
    assert copies == [tag for word, tag in zip(found.words, found.tags, strict=True) if word == "copy"]
    assert run.evaluate(split="test")["accuracy"] > 0.985  # 0.98 if an argument is called a name


def test_chat_opens_on_a_model_that_knows_dates(visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot) -> None:
    address, own = empty
    page = visit("#/chat", at=address)
    assert page.page.locator("[data-command]").text_content() == CHAT.command()
    page.page.locator("[data-make]").click()
    page.page.locator("[data-make]").wait_for(state="detached", timeout=240_000)
    page.settled()
    assert page.page.locator("[data-control=run]").input_value() == CHAT.name
    page.page.get_by_role("button", name="A date").click()
    asked = page.settled().page.locator("[data-control=message]").input_value()
    page.page.locator("[data-control=send]").click()
    page.page.locator("[data-role=assistant]").wait_for()
    page.settled()
    assert own.workshop.job is not None
    run = load(own.workshop.job.path)
    assert page.page.locator("[data-role=assistant] p").text_content() == run.chat(asked)
    assert run.evaluate(split="test")["exact"] > 0.6  # a year or a month by heart would be right in a few of a hundred
    screenshot(page, "chat-trained")


def test_caption_opens_on_a_model_that_knows_shapes(visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot) -> None:
    address, own = empty
    page = visit("#/caption", at=address)
    assert page.page.locator("[data-command]").text_content() == CAPTIONER.command()
    page.page.get_by_role("button", name="Train a captioner of single shapes").click()
    page.page.wait_for_selector("[data-figure=overlay]", timeout=400_000)
    page.settled()
    assert page.page.locator("[data-control=run]").input_value() == CAPTIONER.name
    assert own.workshop.job is not None
    run = load(own.workshop.job.path)
    made = scenes(1, "test", 32, of_kinds=["one"])
    (found,) = run.captions(list(made.image_NHWC), run.decoding({"beam": 3}))
    assert page.page.locator("[data-summary]").text_content() == f"The model’s caption: {found[0].text}"
    assert run.evaluate(split="test")["exact"] > 0.75  # of two sizes and 40 pairs of a colour and a shape
    screenshot(page, "caption-trained")


def test_progress_is_shown_and_stop_stops(visit: Visit, empty: tuple[str, RunLibrary]) -> None:
    address, own = empty
    page = visit("#/translate", at=address)  # the room offers the same button
    assert page.page.locator("[data-command]").text_content() == DATES.command()
    page.page.locator("[data-make]").click()
    page.until("document.querySelector('[data-told]').textContent.startsWith('dates: ')")
    other = visit("#/", at=address)  # a second page shows the same training, and offers no other
    other.page.locator("[data-training] [role=progressbar]").wait_for()
    assert other.page.locator("[data-make]").evaluate_all("all => all.every(one => one.disabled)")
    page.page.locator("[data-control=stop]").click()
    other.until("/stopped before its first weights|is trained: step/.test(document.querySelector('[data-told]').textContent)")
    assert own.workshop.job is not None
    assert not own.workshop.job.running
    assert other.page.locator("[data-make=reviews]").is_enabled()


def test_the_first_page_fits_a_phone(visit: Visit, empty: tuple[str, RunLibrary], screenshot: Screenshot) -> None:
    page = visit("#/", at=empty[0], viewport={"width": 390, "height": 844})
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    screenshot(page, "home-phone")
    page.open("#/translate")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
