"""The views of Search as functions: what they show is what firth.search finds, and so is what their Python makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import executed
from reviews import trained_on_reviews

import firth
from firth.errors import FirthError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.rooms import search
from firth.vectors import WordVectors

NOTES = ["The hotel in Seattle has cheap rooms.", "Snow in Seattle.", "", "A bakery sells bread."]


def ask(view: Callable[..., ViewResult], library: RunLibrary, **given: object) -> ViewResult:
    return view(ViewRequest(given), library, lambda what, done, total: None)


def hits(result: ViewResult, method: str) -> list[dict[str, Any]]:
    (found,) = (one["hits"] for one in result.facts["methods"] if one["name"] == method)  # type: ignore[attr-defined]
    return found  # type: ignore[no-any-return]


def unknown(result: ViewResult) -> list[str]:
    return [one["unknown"] for one in result.facts["methods"]]  # type: ignore[attr-defined]


@pytest.fixture
def meaning(tmp_path: Path) -> Path:
    """motel and hotel point the same way."""
    path = tmp_path / "meaning.firth"
    words = {"motel": (1.0, 0.1), "hotel": (1.0, 0.0), "bread": (0.0, 1.0), "snow": (-1.0, 0.5)}
    WordVectors(list(words), np.array(list(words.values()), np.float32)).save(path)
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("\n".join(NOTES))
    return tmp_path / "notes.txt"


def test_without_anything_the_shipped_documents_are_searched_by_their_words() -> None:
    result = ask(search.ranking, RunLibrary())
    documents, _ = firth.search.paraphrases()
    (expected,) = firth.search.build(documents).search("Seattle motel", top=5).values()
    assert result.facts["documents"] == 100
    assert [(one["document"], one["score"]) for one in hits(result, "tfidf")] == [
        (hit.document.name, hit.score) for hit in expected
    ]
    assert [one["name"] for one in result.facts["methods"]] == ["tfidf"]  # type: ignore[attr-defined]
    assert executed(result.python)["hits_of"].keys() == {"tfidf"}


def test_three_methods_side_by_side_are_those_of_the_package(meaning: Path, notes: Path, bpe_run: Path) -> None:
    library = RunLibrary([bpe_run], [meaning], [str(notes)])
    given = {"query": "cheap motel", "documents": str(notes), "vectors": meaning.name, "run": bpe_run.name, "top": "2"}
    result = ask(search.ranking, library, **given)
    texts = [firth.search.Document(f"notes.txt:{n}", text) for n, text in enumerate(NOTES, start=1) if text]
    index = firth.search.build(texts, vectors=meaning, run=bpe_run, lower=True, strip_punctuation=True)
    expected = index.search("cheap motel", top=2)
    assert [one["name"] for one in result.facts["methods"]] == ["tfidf", "vectors", "contextual"]  # type: ignore[attr-defined]
    again = executed(result.python)["hits_of"]
    for method, found in expected.items():
        for other in (hits(result, method), [{"score": hit.score, "document": hit.document.name} for hit in again[method]]):
            assert [one["score"] for one in other] == pytest.approx([hit.score for hit in found], abs=1e-6)
            assert [str(one["document"]).rpartition(":")[2] for one in other] == [
                hit.document.name.rpartition(":")[2] for hit in found
            ]
    assert "".join(part["text"] for part in hits(result, "vectors")[0]["parts"]) == NOTES[0]  # no word of it is in the query
    assert result.table is not None
    assert len(result.table.rows) == sum(map(len, expected.values()))


def test_the_words_of_the_query_are_marked_whatever_their_case(notes: Path) -> None:
    result = ask(search.ranking, RunLibrary(corpora=[str(notes)]), query="SEATTLE, hotel", documents=str(notes))
    first = hits(result, "tfidf")[0]
    assert [part["text"] for part in first["parts"] if part["mark"]] == ["hotel", "Seattle"]
    assert "".join(part["text"] for part in first["parts"]) == NOTES[0]


def test_a_query_that_a_method_does_not_know_finds_nothing(meaning: Path, notes: Path) -> None:
    library = RunLibrary([], [meaning], [str(notes)])
    result = ask(search.ranking, library, query="zyzzyva", documents=str(notes), vectors=meaning.name)
    assert [one["hits"] for one in result.facts["methods"]] == [[], []]  # type: ignore[attr-defined]
    assert unknown(result) == [
        "No document contains a word of the query: zyzzyva.",
        "The vocabulary of these vectors has no word of the query: zyzzyva.",
    ]


def test_the_words_of_the_query_that_a_method_does_not_know_are_named(meaning: Path, notes: Path) -> None:
    library = RunLibrary([trained_on_reviews()], [meaning], [str(notes)])
    given = {"query": "Motel film, Denver!", "documents": str(notes), "vectors": meaning.name, "run": "run"}
    assert unknown(ask(search.ranking, library, **given)) == [
        "No document contains a word of the query: motel, film, denver.",
        "Not in the vocabulary, and left out: film, Denver.",
        "Unknown to this run: motel, denver.",
    ]
    assert unknown(ask(search.ranking, library, **given | {"query": "bread", "run": ""})) == ["", ""]


def test_documents_of_unknown_words_are_not_like_a_query_of_unknown_words(notes: Path) -> None:
    library = RunLibrary([trained_on_reviews()], [], [str(notes)])
    result = ask(search.ranking, library, query="cheap motel", documents=str(notes), run="run")
    assert hits(result, "contextual") == []
    assert unknown(result)[1] == "This run knows no word of the query: cheap, motel."


def test_the_room_opens_with_a_query_whose_document_is_found_by_its_meaning(tmp_path: Path) -> None:
    words = {"skyscraper": (1.0, 0.1, 0.0), "tower": (1.0, 0.0, 0.0), "seattle": (0.0, 1.0, 0.1), "glass": (1.0, 0.2, 0.0)}
    path = tmp_path / "towers.firth"
    WordVectors(list(words), np.array(list(words.values()), np.float32)).save(path)
    result = ask(search.ranking, RunLibrary([], [path]), vectors=path.name)
    assert result.facts["query"] == "skyscraper"
    assert hits(result, "tfidf") == []
    assert hits(result, "vectors")[0]["document"] == "documents.txt:78"
    assert executed(result.python)["hits_of"]["vectors"][0].document.name == "documents.txt:78"
    assert ask(search.ranking, RunLibrary()).facts["query"] == "Seattle motel"  # found by its words: there is nothing else


def test_the_room_opens_with_documents_in_words_that_the_vectors_know(tmp_path: Path) -> None:
    words = {"random": (1.0, 0.0), "uniform": (1.0, 0.1), "samples": (0.9, 0.0), "numbers": (0.9, 0.1), "lock": (0.0, 1.0)}
    path = tmp_path / "programs.firth"
    WordVectors(list(words), np.array(list(words.values()), np.float32)).save(path)
    library = RunLibrary([], [path])
    result = ask(search.ranking, library, vectors=path.name)
    assert (result.facts["name"], result.facts["query"]) == ("programs", "random numbers")
    assert hits(result, "vectors")[0]["parts"][0]["text"] == "The generator draws uniform samples with a given seed."
    assert executed(result.python)["hits_of"]["vectors"][0].document.name == "programs.txt:3"
    measured = executed(ask(search.recall, library, documents="programs").python)["measured"]
    assert measured["tfidf"].recall == 0, "no query shares a word with its document"
    assert ask(search.ranking, library, vectors=path.name, documents="paraphrases").facts["name"] == "paraphrases"
    with pytest.raises(FirthError, match="recall needs queries, which only firth's own documents have"):
        ask(search.recall, library, documents="docs")


def test_an_empty_query_is_never_taken_for_another() -> None:
    with pytest.raises(FirthError, match="the query is empty; write one or more words"):
        ask(search.ranking, RunLibrary(), query=" ")


def test_the_room_opens_without_a_run_that_was_trained_to_classify(bpe_run: Path) -> None:
    offered = search.offered(RunLibrary([trained_on_reviews(), bpe_run]))["run"]
    assert [one.value for one in offered] == ["", "run", "bpe"]


def test_a_run_that_cannot_read_the_documents_is_left_out_with_a_note(library: RunLibrary) -> None:
    result = ask(search.ranking, library, query="motel", run="transformer")
    assert [one["name"] for one in result.facts["methods"]] == ["tfidf"]  # type: ignore[attr-defined]
    assert str(result.facts["note"]).startswith("The run cannot read these documents: the text has characters that are not")


def test_recall_is_that_of_the_package(library: RunLibrary) -> None:
    result = ask(search.recall, library)
    measured = executed(result.python)["measured"]
    assert result.table is not None
    assert result.table.rows == [("TF-IDF", f"{measured['tfidf'].recall:.3f}", "0.500", "0.507")]
    table = ask(search.recall, library, run="bpe").table
    assert table is not None
    assert [row[0] for row in table.rows] == ["TF-IDF", "contextual vectors"]


def test_a_kept_index_does_not_report_to_an_earlier_request(notes: Path, bpe_run: Path) -> None:
    library, over = RunLibrary([bpe_run], [], [str(notes)]), False

    def earlier(what: str, done: int, total: int) -> None:
        assert not over

    settings = ViewRequest({"run": bpe_run.name, "documents": str(notes)})
    search.ranking(settings, library, earlier)
    over = True
    search.ranking(settings, library, lambda what, done, total: None)


def test_documents_are_embedded_once(meaning: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, built = RunLibrary([], [meaning], [str(notes)]), []
    monkeypatch.setattr(search, "build", lambda *given, **more: built.append(given) or firth.search.build(*given, **more))
    for query in ("motel", "bread"):
        ask(search.ranking, library, query=query, documents=str(notes), vectors=meaning.name)
    assert len(built) == 1
    notes.write_text("Another text.")
    found = ask(search.ranking, library, query="another", documents=str(notes), vectors=meaning.name)
    assert (len(built), found.facts["documents"]) == (2, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"documents": "/etc/passwd"}, r'documents is "/etc/passwd"; expected one of paraphrases, programs, docs'),
        ({"vectors": "../v.firth"}, r'there are no vectors "\.\./v\.firth" in the lab'),
        ({"run": "/tmp"}, 'there is no run "/tmp"'),
        ({"top": 0}, "top is 0; expected a whole number from 1 to 50"),
        ({"query": "x" * 501}, "query has 501 characters; the limit is 500"),
    ],
)
def test_only_what_the_lab_was_started_with_can_be_read(given: dict[str, object], message: str) -> None:
    with pytest.raises(FirthError, match=message):
        ask(search.ranking, RunLibrary(), **given)


def test_first_lines_are_documents(notes: Path) -> None:
    assert [one.text for one in firth.search.first_lines(notes, 2)] == NOTES[:2]
    assert [one.name.rpartition(":")[2] for one in firth.search.first_lines(notes, 9)] == ["1", "2", "4"]
