"""The rooms Tag, Classify, Answer and Caption in a browser: what they show is what the run says in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed, serving
from questions import RECORDS

from firth.api import compose, find_recipe, load, train_recipe
from firth.serving.lab.examples import ASKED_ENGLISH, ASKED_STORIES, TAGGED_ENGLISH
from firth.serving.lab.library import RunLibrary
from firth.text.datasets.digits import digits
from firth.text.datasets.scenes import scenes

pytestmark = pytest.mark.long


@pytest.fixture
def task_lab(lab: str, task_library: RunLibrary) -> Iterator[str]:
    with serving(task_library) as address:
        yield address


def test_a_text_is_classified_as_in_python(visit: Visit, task_lab: str, task_library: RunLibrary, screenshot: Screenshot) -> None:
    page = visit(f"#/classify?run=classifier&text={quote('a dull film')}", at=task_lab)
    (found,) = load(task_library.path("classifier")).classify(["a dull film"])
    (bars,) = page.plot("classes")["data"]
    assert dict(zip(bars["customdata"], bars["x"], strict=True)) == pytest.approx(found.probabilities, abs=1e-6)
    assert (
        page.page.locator("[data-summary]").text_content()
        == f"{found.label}, with a probability of {100 * found.probability:.1f} %"
    )
    assert page.plot("classes")["layout"]["xaxis"]["range"] == [0, 1]
    screenshot(page, "classify")
    figure = executed(page.python("classes"))["figures"]["classes"]
    np.testing.assert_allclose(figure.plot.data[0].x, bars["x"])
    effects = page.plot("effects")["data"][0]
    assert effects["customdata"] == ["a", "dull", "film"]
    (without,) = load(task_library.path("classifier")).classify(["a film"])
    moved = f"from {100 * found.probability:.1f} % to {100 * without.probabilities[found.label]:.1f} %."
    why = page.page.locator("[data-why]").text_content()
    assert why == f"Without “dull”, the probability of {found.label} falls {moved}"
    assert effects["x"][1] == pytest.approx(found.probability - without.probabilities[found.label], abs=1e-6)
    before = page.hash()
    page.page.get_by_role("button", name="Praise").focus()
    page.page.keyboard.press("Enter")
    page.until("location.hash.includes('warm')")
    page.page.go_back()
    page.until(f"location.hash === {before!r}")


def test_words_are_tagged_as_in_python(visit: Visit, task_lab: str, task_library: RunLibrary, screenshot: Screenshot) -> None:
    text = "the light bag falls\nshe sees <b>the</b> light"
    page = visit(f"#/tag?run=tagger&text={quote(text)}", at=task_lab)
    found = load(task_library.path("tagger")).tag(text.splitlines())
    shown = page.page.locator("[data-sentence]").all()
    assert [[one.get_attribute("data-tag") for one in line.locator("[data-tag]").all()] for line in shown] == [
        list(one.tags) for one in found
    ]
    rows = page.table("tags")
    assert [row[1] for row in rows] == [word for one in found for word in one.words]
    np.testing.assert_allclose([float(row[3]) for row in rows], [p for one in found for p in one.probabilities], atol=5e-5)
    assert "<b>the</b>" in page.page.locator("[data-sentence]").nth(1).text_content()
    screenshot(page, "tag")
    assert page.page.locator("[data-example]").all_text_contents() == [one.label for one in TAGGED_ENGLISH]
    page.page.get_by_role("button", name=TAGGED_ENGLISH[1].label).click()
    page.until("document.querySelectorAll('[data-sentence]')[1]?.textContent.includes('table')")
    assert page.page.locator("[data-control=text]").input_value() == TAGGED_ENGLISH[1].text


def shown(page: Watched) -> list[str]:
    """What the room shows below its controls."""
    script = "all => all.filter(one => one.checkVisibility()).flatMap(one => one.innerText.trim() || [])"
    texts: list[str] = page.page.locator("[data-room] > :not(form)").evaluate_all(script)
    return texts


@pytest.mark.parametrize(
    ("address", "box", "hint"),
    [
        ("classify?run=classifier&text=a+dull+film", "text", "Type a text to classify."),
        ("tag?run=tagger&text=the+light+bag", "text", "Type one or more sentences to tag."),
        ("answer?run=answers", "question", "Type a question, and a text that contains its answer."),
        ("search?query=Seattle&run=", "query", "Type a query: one or more words."),
    ],
)
def test_an_emptied_box_and_an_error_leave_nothing_of_the_text_before(
    visit: Visit, task_lab: str, address: str, box: str, hint: str
) -> None:
    page = visit(f"#/{address}", at=task_lab)
    before = shown(page)
    assert before
    assert hint not in before
    text = page.page.locator(f"[data-control={box}]").input_value()
    page.set(box, "  ")
    assert shown(page) == [hint]
    page.set(box, text)
    assert shown(page) == before
    page.set(box, "x" * 20_001)
    assert page.page.locator("[role=alert]").text_content() in shown(page)
    assert len(shown(page)) == 1
    page.set(box, text)
    assert shown(page) == before


def test_an_answer_is_marked_in_its_text(visit: Visit, task_lab: str, task_library: RunLibrary, screenshot: Screenshot) -> None:
    question, context = RECORDS[0]["question"], RECORDS[0]["context"]
    page = visit(f"#/answer?run=answers&question={quote(question)}&context={quote(context)}", at=task_lab)
    found = load(task_library.path("answers")).answer(question, context)
    assert page.page.locator("[data-answered]").text_content() == context
    assert page.page.locator("[data-answered] mark").text_content() == found.text
    assert f"{100 * found.probability:.1f} %" in page.page.locator("[data-summary]").text_content()
    screenshot(page, "answer")
    assert page.page.locator("[data-example]").all_text_contents() == ["Who?", "When?", "Not in the text"]


@pytest.mark.filterwarnings("ignore:read as <unk>")  # the small model knows few words
def test_question_and_text_suit_the_chosen_run(visit: Visit, task_library: RunLibrary, tmp_path: Path) -> None:
    short = find_recipe("stories-questions", ["training.steps=1", "training.evaluate_every=0"])
    stories = train_recipe(short, tmp_path / "stories")
    with serving(RunLibrary([task_library.path("answers"), stories.path])) as address:
        page = visit("#/answer", at=address)

        def shown() -> tuple[str, ...]:
            return tuple(page.page.locator(f"[data-control={name}]").input_value() for name in ("question", "context"))

        for name, texts in (("answers", ASKED_ENGLISH), ("stories", ASKED_STORIES), ("answers", ASKED_ENGLISH)):
            page.set("run", name)
            assert shown() == texts[0][1:], name
            assert page.page.locator("[data-example]").all_text_contents() == [one.label for one in texts]
            assert page.page.locator("[data-answered]").text_content() == texts[0].context
        page.set("question", "Who sleeps?")
        page.set("run", "stories")
        assert shown() == ("Who sleeps?", ASKED_ENGLISH[0].context), "what somebody wrote stays"
        page.page.get_by_role("button", name=ASKED_STORIES[2].label).click()
        page.settled()
        assert shown() == ASKED_STORIES[2][1:]
        assert page.page.locator("[data-answered]").text_content() == ASKED_STORIES[2].context


def test_a_scene_is_captioned_and_each_word_attends(
    visit: Visit, task_lab: str, task_library: RunLibrary, screenshot: Screenshot
) -> None:
    page = visit("#/caption?run=captioner&number=3", at=task_lab)
    model, made = load(task_library.path("captioner")), scenes(3, "test", 24, of_kinds=["one", "relation"])
    (found,) = model.captions([made.image_NHWC[-1]], model.decoding({"beam": 3}))
    assert [row[1] for row in page.table("captions")] == [one.text for one in found]
    assert made.captions[-1] in page.page.locator("[data-truth]").text_content()
    assert page.page.locator(".scene img").evaluate("image => image.naturalWidth") == 24
    assert page.page.locator("[data-figure=overlay]").count() == bool(found[0].text)
    screenshot(page, "caption")
    assert [one.text for one in executed(page.python())["captions"]] == [one.text for one in found]
    page.press("next")
    assert "number=4" in page.hash()


def test_the_images_are_those_of_the_data_set_that_the_run_was_trained_on(visit: Visit, task_lab: str) -> None:
    page = visit("#/caption?run=digits&number=2", at=task_lab)
    assert page.page.locator("[data-truth]").text_content() == f"The correct caption: {digits()['test'].captions[1]}"
    assert page.page.locator(".scene img").evaluate("image => image.naturalWidth") == 8


def test_without_such_a_run_the_card_and_the_room_say_how_to_train_one(visit: Visit, library: RunLibrary) -> None:
    page = visit("#/")
    for name in ("tag", "classify", "answer", "caption"):
        card = page.page.locator(f"[data-card={name}]")
        assert card.locator("[data-works]").text_content() == "Needs a run"
        assert "firth " in card.locator("[data-command]").text_content()
    assert page.page.locator("[data-card=walk] [data-works]").text_content() == "Works now"
    page.page.get_by_role("link", name="Classify").first.click()
    page.until("document.querySelectorAll('[data-if-none]').length === 1")  # the cards of the home page each had one
    assert not page.settled().page.locator("[data-notice]").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_rooms_fit_a_phone(visit: Visit, task_lab: str, screenshot: Screenshot, scheme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    rooms = ("classify?run=classifier", "tag?run=tagger", "answer?run=reader", "caption?run=captioner", "build")
    page = visit("#/", at=task_lab, **phone)
    for room in rooms:
        page.open(f"#/{room}")
        page.settled()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 390, room
        screenshot(page, f"phone-{room.partition('?')[0]}-{scheme}")


def test_rooms_from_files_and_of_abilities_from_files_show_their_results(visit: Visit, tmp_path: Path, use: Any) -> None:
    ideas = Path(__file__).parents[1] / "ideas"
    use(ideas / "room.py")
    use(ideas / "task.py")
    settings = {"objective": {"kind": "surprisal"}, "model": {"kind": "gru", "width": 8}, "training": {"steps": 2, "context": 8}}
    recipe = compose({"data": {"text": "the list is set. a name"}, "tokenizer": {"kind": "char"}, **settings})
    run: Any = train_recipe(recipe, tmp_path / "odd")
    text = "the list\na name"
    with serving(RunLibrary([tmp_path / "odd"])) as address:
        page = visit(f"#/likelihood?run=odd&text={quote(text)}", at=address)
        scores = [one.log_probability for one in run.score(text.splitlines())]
        np.testing.assert_allclose(page.plot("lines")["data"][0]["x"], scores, rtol=1e-5)
        page.open(f"#/surprise?run=odd&text={quote(text)}")
        assert page.settled().table("results") == [
            list(row) for row in zip(text.splitlines(), run.oddest(text.splitlines()), strict=True)
        ]
    with serving(RunLibrary()) as address:
        page = visit("#/likelihood", at=address)
        assert page.page.locator("[data-if-none]").text_content() == "There is no language model."
        assert page.page.locator("[data-command]").count() == 0
