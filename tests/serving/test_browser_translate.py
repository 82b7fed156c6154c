"""The room Translate in a browser: what a beam finds, and the alignment that Model.align tells."""

from __future__ import annotations

from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed, serving

from firth.api import load
from firth.serving.lab.library import RunLibrary


def _rows(library: RunLibrary, run: str, text: str, beam: int, penalty: float = 0.6) -> list[list[str]]:
    model = load(library.path(run))
    (found,) = model.translations([text], model.decoding({"beam": beam, "penalty": penalty}))
    return [
        [f"{n}", one.text, f"{one.score:.4f}", f"{one.log_probability:.4f}", "yes" if one.finished else "no, cut off"]
        for n, one in enumerate(found, start=1)
    ]


def _assert_alignment(page: Watched, library: RunLibrary, run: str, text: str, target: str, name: str | None = None) -> None:
    found = load(library.path(run)).align(text, target)
    (cells,) = page.plot("alignment")["data"]
    np.testing.assert_allclose(cells["z"], found.best if name is None else found.weights[name], atol=1e-5)


def test_the_best_of_a_beam_and_the_alignment_of_each(
    visit: Visit, pair_library: RunLibrary, pair_lab: str, screenshot: Screenshot
) -> None:
    page = visit("#/translate?run=rnnsearch&text=4+7+1&beam=3", at=pair_lab)
    expected = _rows(pair_library, "rnnsearch", "4 7 1", 3)
    assert expected[0][1] == "four seven one"
    assert page.table("translations") == expected
    _assert_alignment(page, pair_library, "rnnsearch", "4 7 1", "four seven one")
    screenshot(page, "translate")
    page.set("pick", "1")
    _assert_alignment(page, pair_library, "rnnsearch", "4 7 1", expected[1][1])
    again = visit(page.hash(), at=pair_lab)
    _assert_alignment(again, pair_library, "rnnsearch", "4 7 1", expected[1][1])
    figure = executed(again.python("alignment"))["figure"]
    np.testing.assert_allclose(figure.plot.data[0].z, again.plot("alignment")["data"][0]["z"], atol=1e-6)
    (found,) = [executed(again.python())["translations"]]
    assert [one.text for one in found] == [row[1] for row in expected]


@pytest.mark.long
def test_a_word_of_the_sentence_marks_its_column_and_a_word_of_the_translation_its_row(visit: Visit, pair_lab: str) -> None:
    page = visit("#/translate?run=rnnsearch&text=4+7+1&beam=3", at=pair_lab)
    source = page.page.locator("[data-tokens] [aria-label='tokens: source'] button")
    target = page.page.locator("[data-tokens] [aria-label='tokens: target'] button")
    assert source.all_text_contents() == ["4", "7", "1", "<eos>"]
    assert target.all_text_contents() == ["four", "seven", "one", "<eos>"]
    shapes = "document.querySelector('[data-figure=alignment] .plot').layout.shapes"
    marked = f"{shapes}?.map(({{ x0, x1, y0, y1 }}) => [x0, x1, y0, y1].join()).join()"
    source.nth(1).hover()
    page.until(f"{marked} === '0.5,1.5,0,1'")  # the column of 7, from edge to edge
    target.nth(2).focus()
    page.page.mouse.move(0, 0)
    target.nth(2).hover()
    page.until(f"{marked} === '0,1,1.5,2.5'")  # the row of "one"


@pytest.mark.long
def test_beam_penalty_and_a_translation_of_ones_own(visit: Visit, pair_library: RunLibrary, pair_lab: str) -> None:
    page = visit("#/translate?run=transformer", at=pair_lab)
    assert page.page.locator("[data-hint]").text_content() == "Type a sentence to translate."  # these pairs are of no known kind
    page.set("text", "1 2")
    page.set("beam", "2")
    page.set("penalty", "0")
    assert page.table("translations") == _rows(pair_library, "transformer", "1 2", 2, 0.0)
    page.set("target", "nine eight")
    _assert_alignment(page, pair_library, "transformer", "1 2", "nine eight")
    page.set("map", "layer 2, head 1")
    _assert_alignment(page, pair_library, "transformer", "1 2", "nine eight", "layer 2, head 1")


@pytest.mark.long
def test_a_run_without_attention_translates_and_says_that_it_has_no_alignment(
    visit: Visit, pair_library: RunLibrary, pair_lab: str
) -> None:
    page = visit("#/translate?run=rnnenc&text=4+7+1&beam=2&target=one", at=pair_lab)
    assert page.table("translations") == _rows(pair_library, "rnnenc", "4 7 1", 2)
    assert '(model.attention = "none")' in page.alert()
    assert not page.page.locator("[data-figure=alignment]").is_visible()
    page.set("run", "rnnsearch")
    assert page.page.locator("[role=alert]").count() == 0
    _assert_alignment(page, pair_library, "rnnsearch", "4 7 1", _rows(pair_library, "rnnsearch", "4 7 1", 2)[0][1])
    page.set("run", "rnnenc")
    page.set("target", "one")
    assert '(model.attention = "none")' in page.alert()
    assert not page.page.locator("[data-figure=alignment]").is_visible()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of words that the model does not know
def test_bad_input_is_told_and_the_room_stays_usable(visit: Visit, pair_library: RunLibrary, pair_lab: str) -> None:
    page = visit("#/", at=pair_lab)
    for address, message in (
        (f"#/translate?run=rnnsearch&text={'1' * 100_000}", "text has 100,000 characters; the limit is 20,000"),
        (f"#/translate?run=rnnsearch&text={'1+' * 1000}", "the text has 1,000 tokens; this room takes at most 256"),
        ("#/translate?run=rnnsearch&text=1&beam=0", "beam is 0; expected a whole number from 1 to 32"),
        ("#/translate?run=rnnsearch&text=1&map=layer+9", 'has no alignment "layer 9"'),
    ):
        page.open(address)
        page.page.locator("[role=alert]", has_text=message).wait_for()
    page.open("#/translate?run=rnnsearch&text=4+7+1&beam=3")
    page.page.locator("[role=alert]").wait_for(state="detached")
    assert page.settled().table("translations") == _rows(pair_library, "rnnsearch", "4 7 1", 3)


@pytest.mark.long
def test_an_emptied_box_and_an_error_leave_nothing_of_the_sentence_before(visit: Visit, pair_lab: str) -> None:
    page = visit("#/translate?run=rnnsearch&text=4+7+1&beam=3", at=pair_lab)
    parts = ("[data-table=translations]", "[data-figure=alignment]", "[data-search]", "[data-tokens]", "[data-control=pick]")

    def there() -> list[bool]:
        return [page.page.locator(part).is_visible() for part in parts]

    assert there() == [True] * 5
    for text, told in (("  ", "[data-hint]"), ("1" * 20_001, "[role=alert]")):
        page.set("text", text)
        assert page.page.locator(told).count() == 1
        assert there() == [False] * 5
        page.set("text", "4 7 1")
        assert there() == [True] * 5
        assert page.page.locator(told).count() == 0


@pytest.mark.long
def test_an_error_leaves_nothing_of_the_walk_before(visit: Visit, pair_lab: str) -> None:
    page = visit("#/walk?run=rnnsearch&text=4+7+1", at=pair_lab)
    picture = page.page.locator("[data-look=whole] [data-scrub]")
    assert picture.is_visible()
    page.set("text", "")
    assert "the text is empty" in page.alert()
    assert not picture.is_visible()
    page.set("text", "4 7 1")
    assert picture.is_visible()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_text_that_looks_like_a_script_is_shown(visit: Visit, pair_lab: str) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    page = visit(f"#/translate?run=rnnsearch&text={quote(text)}&target={quote('<b>x</b>')}", at=pair_lab)
    assert page.page.locator("main img, main b").count() == 0
    assert len(page.table("alignment")) > 0


@pytest.mark.long
def test_without_a_run_that_translates_the_room_says_what_to_do(visit: Visit, lab: str) -> None:
    page = visit("#/translate")  # of language models only
    assert "There is no run that translates" in page.page.locator("[data-if-none]").text_content()
    with serving(RunLibrary()) as address:
        page = visit("#/attention", at=address)
        assert "There is no run with attention" in page.page.locator("[data-if-none]").text_content()
