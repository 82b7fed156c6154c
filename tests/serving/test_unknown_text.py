"""Text that a run does not know: marked in every room, with the reason, and never in the way of the result."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from browsing import Screenshot, Visit, serving
from questions import answer_table, write_questions
from reviews import trained_on_reviews
from tags import tagger_table
from tags import write as write_tags
from translations import trained_on_numbers

from firth.api import compose, load, train_recipe
from firth.errors import DataError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.rooms import ROOMS
from firth.serving.lab.streaming import warnings_as_notes
from firth.tasks.abilities.unseen_words import UnseenWarning
from firth.text.tokenizers.unseen_spans import unseen_spans

LEFT_OUT = "This character is not in the vocabulary of the run. It is left out."
UNK = "This word is not in the vocabulary of the run. The run reads it as <unk>."


def test_the_spans_are_what_the_tokenizer_has_not_seen(word_run: Path, char_run: Path, bpe_run: Path) -> None:
    text = "the zoo  list,\nof Q the zoo 日本 ☃"
    for run in (word_run, char_run, bpe_run, trained_on_reviews()):
        tokenizer = load(run).tokenizer
        found = [text[start:end] for start, end in unseen_spans(tokenizer, text)]
        assert {one.lower() for one in found} == {one.lower() for one in tokenizer.unseen(text)}, run
    assert unseen_spans(load(trained_on_reviews()).tokenizer, "A great Zoo!") == [(8, 12)]
    assert unseen_spans(load(char_run).tokenizer, "a Zebra aZ") == [(2, 3), (4, 5), (9, 10)]


@pytest.mark.parametrize(
    ("room", "view", "run", "name"),
    [
        ("generate", "next", "char", "prompt"),
        ("generate", "state", "char", "prompt"),
        ("inspect", "predictions", "char", "text"),
        ("inspect", "states", "char", "text"),
        ("inspect", "flow", "char", "text"),
        ("attention", "overview", "transformer", "text"),
        ("walk", "whole", "transformer", "text"),
    ],
)
def test_unknown_characters_are_marked_and_left_out(library: RunLibrary, room: str, view: str, run: str, name: str) -> None:
    request = ViewRequest({"run": run, name: "the Zlist"})
    result = ROOMS[room].views[view](request, library, lambda *_: None)
    unknown = request.unknown[name]
    assert unknown is not None
    assert (unknown.parts, unknown.reason) == ((("the ", False), ("Z", True), ("list", False)), LEFT_OUT)
    known = ViewRequest({"run": run, name: "the list"})
    again = ROOMS[room].views[view](known, library, lambda *_: None)
    assert known.unknown[name] is None
    assert (result.python, {one: figure.plot for one, figure in result.figures.items()}) == (
        again.python,
        {one: figure.plot for one, figure in again.figures.items()},
    )


def test_a_text_without_any_known_character_is_an_error(library: RunLibrary) -> None:
    with pytest.raises(DataError, match=r"the run knows no character of this text: ZZ\. Write another one"):
        ROOMS["inspect"].views["predictions"](ViewRequest({"run": "char", "text": "ZZ"}), library, lambda *_: None)


def test_unknown_words_are_marked_and_read_as_unk() -> None:
    library = RunLibrary([trained_on_reviews()])
    request = ViewRequest({"run": "run", "text": "A great\nZoo"})
    with pytest.warns(UnseenWarning):
        result = ROOMS["classify"].views["classes"](request, library, lambda *_: None)
    unknown = request.unknown["text"]
    assert unknown is not None
    assert (unknown.parts, unknown.reason) == ((("A great\n", False), ("Zoo", True)), UNK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (expected,) = load(trained_on_reviews()).classify(["A great\nZoo"])
    assert result.facts["probability"] == pytest.approx(expected.probability)


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> RunLibrary:
    """Runs that know few words or characters, for the rooms of all tasks."""
    folder = tmp_path_factory.mktemp("readers")
    average = {"family": "encoder", "kind": "average", "width": 8}
    train_recipe(compose(tagger_table(write_tags(folder / "tags.conll"), average, steps=2)), folder / "tagger")
    train_recipe(compose(answer_table(write_questions(folder / "questions.jsonl"), steps=2)), folder / "answers")
    return RunLibrary([folder / "tagger", folder / "answers", trained_on_reviews(), trained_on_numbers()])


@pytest.mark.long
def test_every_room_marks_what_it_does_not_know(visit: Visit, library: RunLibrary, readers: RunLibrary) -> None:
    both = RunLibrary([*library.places, *readers.places])
    names = {path: name for name, path in both.runs.items()}
    reviews, numbers = names[trained_on_reviews()], names[trained_on_numbers()]
    rooms = (
        (f"classify?run={reviews}&text=a+great+Qzoo", "text", "[data-figure=classes]"),
        ("tag?run=tagger&text=the+Qzoo", "text", "[data-sentence]"),
        ("answer?run=answers&question=Who+Qzoos?&context=Anna+is+here", "question", "[data-answered]"),
        (f"translate?run={numbers}&text=4+Q7", "text", "[data-table=translations]"),
        ("generate?run=char&prompt=the+Qlist", "prompt", "[data-figure=next]"),
        ("inspect?run=char&look=states&text=the+Qlist", "text", "[data-figure]"),
        ("attention?run=transformer&text=the+Qlist", "text", "[data-figure=overview]"),
        ("walk?run=transformer&text=the+Qlist", "text", "[data-scrub]"),
    )
    with warnings_as_notes(), serving(both) as address:
        page = visit("#/", at=address)
        for room, name, result in rooms:
            page.open(f"#/{room}")
            marks = page.page.locator(f"[data-unknown-in={name}] mark").all_text_contents()
            assert "Q" in {mark[0] for mark in marks}, room
            assert page.page.locator(result).first.is_visible(), room
            assert page.page.locator("[role=alert], [data-note]").count() == 0, room


@pytest.mark.long
def test_the_reason_is_told_to_the_pointer_the_keyboard_and_the_screen_reader(visit: Visit, screenshot: Screenshot) -> None:
    with warnings_as_notes(), serving(RunLibrary([trained_on_reviews()])) as address:
        page = visit("#/classify?run=run&text=a+great+Qzoo", at=address)
        mark, why = page.page.locator("[data-unknown-in=text] mark"), page.page.locator("[data-unknown-in=text] [role=tooltip]")
        assert not why.is_visible()
        mark.hover()
        assert why.is_visible()
        assert why.text_content() == UNK
        screenshot(page, "unknown-text")
        assert mark.get_attribute("aria-describedby") == why.get_attribute("id")
        page.page.mouse.move(0, 0)
        assert not why.is_visible()
        page.page.locator("[data-control=text]").focus()
        page.page.keyboard.press("Tab")
        assert why.is_visible()
        page.page.keyboard.press("Escape")
        assert not why.is_visible()
        page.set("text", "a great film")
        assert mark.count() == 0
        page.set("text", "a Qzoo")
        assert mark.all_text_contents() == ["Qzoo"]
        page.set("text", "")
        assert mark.count() == 0
