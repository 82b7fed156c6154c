"""The room Search in a browser: methods side by side, with the words of the query marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from browsing import Screenshot, Visit, serving

import firth
from firth.serving.lab.library import RunLibrary
from firth.vectors import WordVectors


def test_documents_are_shown_with_their_scores_and_marked_words(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/search?query=hotel+in+Seattle&vectors=&run=&top=3")
    hits = firth.search.build(firth.search.paraphrases()[0]).search("hotel in Seattle", top=3)["tfidf"]
    shown = page.page.locator("[data-method=tfidf] li")
    assert shown.count() == len(hits)
    assert shown.nth(0).locator(".score").text_content() == f"{hits[0].score:.4f}"
    assert shown.nth(0).locator("p").text_content() == hits[0].document.text
    marked = {text.lower() for text in shown.nth(0).locator("mark").all_text_contents()}
    assert marked
    assert marked <= {"hotel", "in", "seattle"}
    screenshot(page, "search")


def test_a_run_adds_a_column_and_the_recall(visit: Visit) -> None:
    page = visit("#/search?query=rain&vectors=&run=bpe")
    assert page.page.locator("[data-method]").count() == 2
    page.set("look", "recall")
    assert [row[0] for row in page.table("recall")] == ["TF-IDF", "contextual vectors"]
    page.set("run", "")
    assert [row[0] for row in page.table("recall")] == ["TF-IDF"]


def test_html_in_a_query_is_text(visit: Visit) -> None:
    page = visit("#/search?query=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&vectors=&run=")
    assert "<img" in (page.page.locator("[data-summary]").text_content() or "")
    assert not page.page.locator("main img").count()


def test_the_room_opens_with_a_query_of_its_own_that_the_address_names(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "towers.firth"
    WordVectors(["skyscraper", "tower"], np.array([(1.0, 0.0), (1.0, 0.1)], np.float32)).save(path)
    with serving(RunLibrary([], [path])) as address:
        page = visit("#/search", at=address)
        assert page.page.locator("[data-control=query]").input_value() == "skyscraper"
        assert "query=skyscraper" in page.hash()
        assert "tower" in (page.page.locator("[data-method=vectors] li").first.text_content() or "")
        page.set("vectors", "")
        assert page.page.locator("[data-control=query]").input_value() == "Seattle motel"
        page.set("query", "motel")
        page.set("vectors", path.name)
        assert page.page.locator("[data-control=query]").input_value() == "motel", "what somebody wrote stays"
        named = page.page.locator("[data-method=vectors] [data-unknown]").text_content()
        assert named == "The vocabulary of these vectors has no word of the query: motel."
