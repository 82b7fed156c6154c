"""Opening a room: its notice, examples that suit the run, and runs listed by family."""

from __future__ import annotations

import dataclasses

import pytest
from browsing import Visit, serving

from firth.serving.lab.examples import TAGGED_ENGLISH, TAGGED_PYTHON
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms import ROOMS, rooms

OPTIONS = (
    "select => [...select.querySelectorAll('optgroup')].map(one => [one.label, [...one.children].map(option => option.value)])"
)


def test_every_room_says_what_to_notice_and_offers_examples() -> None:
    for name, room in rooms().items():
        assert room.notice.endswith("."), name
        assert len(room.examples) >= 2 or room.texts_into, name


@pytest.mark.long
def test_runs_are_listed_by_family(visit: Visit, library: RunLibrary, pair_library: RunLibrary) -> None:
    both = RunLibrary([*library.places, *pair_library.places[:1]])
    with serving(both) as address:
        page = visit("#/walk", at=address)
        families = {"Recurrent language models": ["char"], "Transformers": ["transformer", "bpe"], "Translators": ["rnnsearch"]}
        assert dict(page.page.locator("[data-control=run]").evaluate(OPTIONS)) == families
        page.open("#/attention")
        shown = page.page.locator("[data-control=run]").evaluate(OPTIONS)
        assert shown == [["Transformers", ["transformer", "bpe"]], ["Translators", ["rnnsearch"]]]  # char has no attention
        page.open("#/training")
        assert page.page.locator("fieldset .group > span").all_text_contents() == list(families)
        page.page.get_by_role("group", name="Translators").get_by_role("checkbox", name="rnnsearch").check()
        page.until("decodeURIComponent(location.hash).includes('rnnsearch')")
        page.open("#/describe")
        groups = page.page.locator("[data-control=of]").evaluate(OPTIONS)
        assert [label for label, _ in groups] == ["Presets", "Recipes", "Runs"]
        page.open("#/translate")
        assert page.page.locator("[data-control=run] optgroup").count() == 0  # a single family needs no heading


@pytest.mark.long
def test_translate_opens_with_an_attention_model(visit: Visit, pair_library: RunLibrary) -> None:
    with serving(RunLibrary(pair_library.places[::-1])) as address:  # rnnenc, which has none, comes first
        page = visit("#/translate", at=address)
        assert page.page.locator("[data-control=run]").input_value() == "transformer"


@pytest.mark.long
def test_examples_follow_the_run(visit: Visit, pair_library: RunLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, texts = pair_library.facts, {"rnnsearch": TAGGED_ENGLISH, "transformer": TAGGED_PYTHON}
    with monkeypatch.context() as patch, serving(pair_library) as address:
        patch.setattr(pair_library, "facts", lambda name: dataclasses.replace(facts(name), texts=texts.get(name, ())))
        page = visit("#/translate?run=rnnsearch&text=4", at=address)
        own = [example.label for example in ROOMS["translate"].examples]
        for name in ("rnnsearch", "transformer", "rnnenc", "rnnsearch"):
            page.set("run", name)
            shown = page.page.locator("[data-example]").all_text_contents()
            assert shown == [*(one.label for one in texts.get(name, ())), *own], name


@pytest.mark.long
def test_an_example_fills_in_the_message(visit: Visit, chat_library: RunLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = chat_library.facts
    with monkeypatch.context() as patch, serving(chat_library) as address:
        patch.setattr(chat_library, "facts", lambda name: dataclasses.replace(facts(name), texts=TAGGED_ENGLISH))
        page = visit("#/chat", at=address)
        label, text, _ = TAGGED_ENGLISH[0]
        page.page.get_by_role("button", name=label).click()
        page.settled()
        assert page.page.locator("[data-control=message]").input_value() == text
        assert page.page.evaluate("document.activeElement.dataset.control") == "message"
        assert "message=" not in page.hash().replace("messages=", "")
        page.page.get_by_role("button", name="Always the most probable answer").click()
        page.until("location.hash.includes('temperature=0')")
