"""firth search: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Firth, assert_refused

from firth.search import build, measure, paraphrases
from firth.vectors import WordVectors


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """notes.txt and v.firth in the folder in which the commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "notes.txt").write_text("A hotel in Seattle.\nRain in\tSeattle.\nHotel rooms.\n", encoding="utf-8")
    rows = [[1, 0, 0.1], [1, 0.1, 0], [0, 1, 0]]
    WordVectors(["motel", "hotel", "rain"], np.array(rows, np.float32)).save("v.firth")
    return tmp_path


def test_methods_stand_side_by_side(firth: Firth, place: Path) -> None:
    answer = firth("search", "notes.txt", "Seattle motel", "--vectors", "v.firth", "--top", "2")
    assert (answer.code, answer.err) == (0, "")
    head, *lines = answer.out.splitlines()
    assert head.split() == ["tfidf", "vectors"]
    assert head.index("vectors") == (100 - 3) // 2 + 3
    by_method = build("notes.txt", vectors="v.firth").search("Seattle motel", top=2)
    assert [len(hits) for hits in by_method.values()] == [2, 2]
    for line, left, right in zip(lines, by_method["tfidf"], by_method["vectors"], strict=True):
        for hit in (left, right):
            assert f"{hit.score:.4f}  {hit.document.name}  {' '.join(hit.document.text.split())}" in line


def test_in_a_narrow_terminal_methods_stand_below_each_other(firth: Firth, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = firth("search", "notes.txt", "motel", "--vectors", "v.firth", "--top", "1").out.splitlines()
    assert lines[:3] == ["tfidf", "  nothing found", "vectors"]
    assert max(map(len, lines)) <= 40


def test_json_has_the_hits_of_each_method(firth: Firth, place: Path, bpe_run: Path) -> None:
    asked = ("search", "notes.txt", "hotel", "--vectors", "v.firth", "--run", bpe_run, "--index", "notes.firthindex", "--json")
    for _ in range(2):  # the second time from the index
        told = json.loads(firth(*asked).out)
        assert (told["query"], told["documents"], list(told["hits"])) == ("hotel", 3, ["tfidf", "vectors", "contextual"])
        expected = build("notes.txt", vectors="v.firth", run=bpe_run).search("hotel")
        for name, hits in expected.items():
            assert [row["document"] for row in told["hits"][name]] == [hit.document.name for hit in hits]
            assert [row["score"] for row in told["hits"][name]] == pytest.approx([hit.score for hit in hits], abs=1e-5)
    assert (place / "notes.firthindex").is_file()
    only = json.loads(firth("search", "notes.txt", "hotel", "--vectors", "v.firth", "--method", "vectors", "--json").out)
    assert list(only["hits"]) == ["vectors"]


def test_recall_is_measured_on_shipped_and_on_own_queries(firth: Firth, place: Path) -> None:
    documents, queries = paraphrases()
    expected = measure(build(documents), queries)["tfidf"]
    lines = firth("search", "--evaluate").out.splitlines()
    assert lines[0].split() == ["30", "queries", "recall@10", "recall@1", "MRR"]
    assert lines[1].split() == ["tfidf", *(f"{value:.3f}" for value in (expected.recall, expected.first, expected.mrr))]
    (place / "queries.jsonl").write_text('{"query": "motel rooms", "document": "notes.txt:3"}\n', encoding="utf-8")
    asked = ("search", "notes.txt", "--evaluate", "--queries", "queries.jsonl", "--top", "1", "--json")
    assert json.loads(firth(*asked).out) == {"tfidf": {"recall": 1.0, "first": 1.0, "mrr": 1.0, "queries": 1, "top": 1}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to search. Give a folder or file, and a query"),
        (("notes.txt",), "there is no query. Add one in quotes"),
        (("absent.txt", "x"), "absent.txt does not exist"),
        (("notes.txt", "x", "--method", "contextual"), 'method "contextual" needs a run'),
        (("notes.txt", "x", "--format", "pdf"), "format is 'pdf'"),
        (("notes.txt", "x", "--queries", "q.csv"), "--queries q.csv only applies to --evaluate"),
        (("notes.txt", "x", "--evaluate"), '--evaluate has its own queries. Remove "x"'),
        (("notes.txt", "--evaluate"), "--evaluate needs both DOCUMENTS and --queries"),
        (("notes.txt", "x", "--index", "v.firth"), "v.firth is not an index of `firth search`"),
        (("notes.txt", "x", "--vectors", "w.firth"), "w.firth does not exist"),
    ],
    ids=range(10),
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, firth: Firth, place: Path) -> None:
    assert_refused(firth("search", *arguments), message)
