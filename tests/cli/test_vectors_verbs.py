"""firth vectors neighbors, similarity, analogy, evaluate, map, convert, counts: as the shell sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shell import Answer, Firth

from firth.vectors import WordVectors, load

WORDS = ["spain", "madrid", "france", "paris", "lyon", "apple", "banana"]
ROWS = [[1, 0, 1, 0], [1, 1, 1, 0], [1, 0, -1, 0], [1, 1, -1, 0], [1, -1, -1, 0], [0, 0, 0, 1], [0.1, 0, 0, 1]]


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WordVectors:
    """v.firth in the folder in which the commands are given."""
    monkeypatch.chdir(tmp_path)
    made = WordVectors(WORDS, np.array(ROWS, np.float32), np.arange(7, 0, -1))
    made.save("v.firth")
    return made


def said(answer: Answer) -> str:
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def mistake(answer: Answer) -> str:
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert "internal error" not in answer.err
    return answer.err


def test_neighbors_lists_the_nearest_words_of_each_word(firth: Firth, vectors: WordVectors) -> None:
    lines = said(firth("vectors", "neighbors", "v.firth", "apple", "paris", "--top", "2")).splitlines()
    assert (lines[0], lines[3], len(lines)) == ("apple", "paris", 6)
    assert lines[1].split() == [f"{vectors.similarity('apple', 'banana'):.4f}", "banana"]
    neighbors = json.loads(said(firth("vectors", "neighbors", "v.firth", "apple", "paris", "--top", "2", "--json")))
    assert {word: [row["word"] for row in rows] for word, rows in neighbors.items()} == {
        word: [near for near, _ in vectors.most_similar(word, topn=2)] for word in ("apple", "paris")
    }
    only = json.loads(said(firth("vectors", "neighbors", "v.firth", "apple", "--restrict-vocab", "3", "--json")))
    assert {row["word"] for row in only["apple"]} <= set(WORDS[:3])


def test_similarity_prints_the_cosine(firth: Firth, vectors: WordVectors) -> None:
    assert said(firth("vectors", "similarity", "v.firth", "spain", "madrid")) == f"{vectors.similarity('spain', 'madrid'):.4f}\n"
    similarity = json.loads(said(firth("vectors", "similarity", "v.firth", "spain", "madrid", "--json")))
    assert similarity == {"a": "spain", "b": "madrid", "cosine": pytest.approx(vectors.similarity("spain", "madrid"))}


@pytest.mark.parametrize("method", ["add", "mul"])
def test_analogy_answers_with_the_fourth_word(method: str, firth: Firth, vectors: WordVectors) -> None:
    asked = ("vectors", "analogy", "v.firth", "spain", "madrid", "france", "--method", method)
    assert said(firth(*asked)).splitlines()[0].split()[1] == "paris"
    analogy = json.loads(said(firth(*asked, "--json", "--top", "2")))
    assert analogy["answers"][0]["word"] == "paris"
    assert (len(analogy["answers"]), analogy["method"]) == (2, method)


def test_evaluate_reports_similarity_analogies_and_composition(firth: Firth, vectors: WordVectors) -> None:
    Path("pairs.txt").write_text("apple banana 9\nspain madrid 7\nspain apple 1\nspain nobody 2\n")
    Path("questions.txt").write_text(
        ": capitals\nspain madrid france paris\nspain madrid france nobody\n: gram1\nspain madrid paris lyon\n"
    )
    asked = ("vectors", "evaluate", "v.firth", "--similarity", "pairs.txt", "--analogy", "questions.txt", "--composition")
    scores = json.loads(said(firth(*asked, "--json")))
    assert scores["similarity"] == [
        {"name": "pairs.txt", "spearman": pytest.approx(1.0), "covered": 3, "pairs": 4, "coverage": 0.75}
    ]
    add, mul = scores["analogy"]
    assert (add["method"], mul["method"]) == ("add", "mul")
    assert add["semantic"] == {"name": "semantic", "correct": 1, "covered": 1, "questions": 2, "accuracy": 1.0}
    assert (add["syntactic"]["accuracy"], add["total"]["accuracy"]) == (0.0, 0.5)
    assert [section["name"] for section in add["sections"]] == ["capitals", "gram1"]
    assert [one["rank"] for one in scores["composition"]] == [None] * 4
    text = said(firth(*asked))
    for part in ("pairs.txt", "1.0000", "3 of 4 pairs", "100.0%", "2 of 3", "czech + currency"):
        assert part in text


def test_evaluate_folds_case_unless_told_otherwise(firth: Firth, vectors: WordVectors) -> None:
    Path("pairs.txt").write_text("Apple banana 9\nSpain Madrid 7\n")
    for option, covered in ([], 2), (["--case-sensitive"], 0):
        scores = json.loads(said(firth("vectors", "evaluate", "v.firth", "--similarity", "pairs.txt", "--json", *option)))
        assert scores["similarity"][0]["covered"] == covered


def test_map_writes_a_page_with_the_words_asked_for(firth: Firth, vectors: WordVectors) -> None:
    assert said(firth("vectors", "map", "v.firth", "--words", "spain,madrid, apple", "--out", "map.html")).startswith(
        "map.html: 3 words"
    )
    html = Path("map.html").read_text(encoding="utf-8")
    assert '<input id="find"' in html
    assert "<td>madrid</td>" in html
    assert "<td>paris</td>" not in html
    drawn = json.loads(said(firth("vectors", "map", "v.firth", "--top", "4", "--dimensions", "3", "--out", "map.html", "--json")))
    assert [point["word"] for point in drawn["points"]] == WORDS[:4]
    assert {len(point["point"]) for point in drawn["points"]} == {len(drawn["explained"])} == {3}
    read = json.loads(
        said(firth("vectors", "map", "v.firth", "--words", "-", "--out", "m.html", "--json", stdin=b"lyon\nparis\nspain\n"))
    )
    assert [point["word"] for point in read["points"]] == ["lyon", "paris", "spain"]


@pytest.mark.parametrize(("out", "option"), [("v.bin", []), ("v.vec", []), ("v.txt", []), ("g.txt", ["--to", "glove"])])
def test_convert_there_and_back_gives_the_same_vectors(out: str, option: list[str], firth: Firth, vectors: WordVectors) -> None:
    assert said(firth("vectors", "convert", "v.firth", out, *option)).startswith(f"{out}: 7 words, dimension 4, format ")
    facts = json.loads(said(firth("vectors", "convert", out, "back.firth", "--json")))
    assert facts == {"out": "back.firth", "format": "firth", "words": 7, "dim": 4, "width": 4}
    assert load("back.firth").vectors.tobytes() == vectors.vectors.tobytes()
    assert list(load("back.firth").words) == WORDS


def test_counts_shows_the_known_answers(firth: Firth) -> None:
    text = said(firth("vectors", "counts", "I feel good", "I feel sad", "I have cats"))
    assert [line.split()[0] for line in text.splitlines()[-3:]] == ["0.6667", "0.3333", "0.3333"]
    counted = json.loads(said(firth("vectors", "counts", "I feel good", "I feel sad", "--json")))
    assert counted["counts"] == [[1, 1, 1, 0], [1, 1, 0, 1]]
    assert counted["cosines"][0][1] == pytest.approx(2 / 3)


MISTAKES: dict[str, tuple[list[str], list[str]]] = {
    "unknown word": (["neighbors", "v.firth", "aple"], ['"aple" is not in the vocabulary of 7 words', 'Did you mean "apple"?']),
    "missing file": (["similarity", "w.firth", "a", "b"], ["w.firth does not exist", "expected a word-vectors file"]),
    "unknown method": (
        ["analogy", "v.firth", "spain", "madrid", "france", "--method", "div"],
        ['method "div"', "add or mul"],
    ),
    "nothing to evaluate on": (["evaluate", "v.firth"], ["--similarity FILE", "firth data get wordsim"]),
    "missing pairs": (["evaluate", "v.firth", "--similarity", "pairs"], ["pairs does not exist"]),
    "unknown projection": (
        ["map", "v.firth", "--out", "x.html", "--projection", "umap"],
        ['unknown projection "umap"', "pca or tsne"],
    ),
    "words and top": (
        ["map", "v.firth", "--out", "x.html", "--words", "a", "--top", "5"],
        ["cannot be combined"],
    ),
    "too few words": (["map", "v.firth", "--out", "x.html", "--words", "apple,banana"], ["Give at least 3"]),
    "unknown format": (["convert", "v.firth", "x.txt", "--to", "glov"], ['unknown format "glov"', 'Did you mean "glove"?']),
    "unknown suffix": (["convert", "v.firth", "x.abc"], ["does not determine a format", "--to"]),
    "broken file": (["convert", "broken.txt", "x.bin"], ["broken.txt", "line 2"]),
    "pickle": (["neighbors", "model.kv", "apple"], ["pickle", "save_word2vec_format"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(case: str, firth: Firth, vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_text("a 1 2\nb 1\n")
    (tmp_path / "model.kv").write_bytes(b"\x80\x04\x95 anything")
    before = sorted(tmp_path.iterdir())
    arguments, parts = MISTAKES[case]
    message = mistake(firth("vectors", *arguments))
    for part in parts:
        assert part in message
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_file_is_not_converted(firth: Firth, vectors: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.vectors import firth_file

    monkeypatch.setattr(firth_file, "CHEAP", 0)  # as if it were a large one
    content = bytearray(Path("v.firth").read_bytes())
    content[-60] ^= 1
    Path("v.firth").write_bytes(content)
    assert "its checksum does not match" in mistake(firth("vectors", "convert", "v.firth", "v.bin"))
    assert not Path("v.bin").exists()
