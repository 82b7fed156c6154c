"""Search: TF-IDF is scikit-learn's, averages are float64 loops, and an index file is used as long as it fits."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth.search
from firth.api import load
from firth.errors import ConfigError, CorruptFile, DataError
from firth.search import Document, Index, Query, build, measure, paraphrases, read_documents, read_queries
from firth.search.dense import AveragedVectors, ContextualVectors, Dense
from firth.search.tfidf import TfIdf, words_of
from firth.vectors import WordVectors

TEXTS = [
    "The hotel near the station in Seattle.",
    "Heavy rain tonight, and rain tomorrow!",
    "A hotel with a view of the rain.",
    "Roast the chicken for an hour.",
]
# motel and hotel are near each other, and so are downpour and rain; chicken is by itself
VECTORS = {
    "motel": [1.0, 0.1, 0.0],
    "hotel": [1.0, 0.0, 0.1],
    "downpour": [0.0, 1.0, 0.1],
    "rain": [0.1, 1.0, 0.0],
    "chicken": [-0.1, 0.0, 2.0],
}


@pytest.fixture
def vectors() -> WordVectors:
    return WordVectors(list(VECTORS), np.array(list(VECTORS.values()), np.float32))


def names(hits: Sequence[firth.search.Hit]) -> list[str]:
    return [hit.document.name for hit in hits]


# TF-IDF


def test_tfidf_is_scikit_learns() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    queries = ["rain in Seattle", "the hotel the view", "nothing known", "chicken hour an the hotel"]
    oracle = text.TfidfVectorizer(analyzer=words_of).fit(TEXTS)
    expected_NQ = (oracle.transform(TEXTS) @ oracle.transform(queries).T).toarray()
    index = TfIdf.of(TEXTS)
    np.testing.assert_allclose(np.stack([index.scores(query) for query in queries], 1), expected_NQ, atol=1e-6)


def test_tfidf_knows_no_synonyms_and_ignores_case_and_punctuation() -> None:
    index = build(TEXTS)
    assert index.search("motel") == {"tfidf": []}
    assert names(index.search("SEATTLE!")["tfidf"]) == ["1"]


# Dense vectors


def test_averages_are_weighted_by_idf_like_the_loops_in_float64(vectors: WordVectors) -> None:
    def unit(word: str) -> list[float]:
        length = math.sqrt(math.fsum(x * x for x in VECTORS[word]))
        return [x / length for x in VECTORS[word]]

    def idf(word: str) -> float:
        return 1 + math.log((1 + len(TEXTS)) / (1 + sum(word in words_of(text) for text in TEXTS)))

    def mean(text: str) -> list[float]:
        known = [word for word in words_of(text) if word in VECTORS]
        total = math.fsum(idf(word) for word in known)
        return [math.fsum(idf(word) * unit(word)[d] for word in known) / total for d in range(3)]

    def cosine(x: Sequence[float], y: Sequence[float]) -> float:
        return math.fsum(a * b for a, b in zip(x, y, strict=True)) / math.hypot(*x) / math.hypot(*y)

    expected = [cosine(mean("a Motel in the rain"), mean(text)) for text in TEXTS]
    embedder = AveragedVectors(vectors, TfIdf.of(TEXTS))
    cosines = Dense(embedder, embedder(TEXTS)).scores("a Motel in the rain")
    np.testing.assert_allclose(cosines, expected, atol=1e-6)


def test_a_word_is_looked_up_as_it_is_written_and_then_in_lower_case() -> None:
    vectors = WordVectors(["Rice", "rice"], np.array([[1, 0], [0, 1]], np.float32))
    embedder = AveragedVectors(vectors, TfIdf.of(["rice"]))
    np.testing.assert_array_equal(embedder(["Rice", "rice", "RICE.", "oats"]), [[1, 0], [0, 1], [0, 1], [0, 0]])


def test_a_motel_is_found_by_its_meaning(vectors: WordVectors) -> None:
    hits = build(TEXTS, vectors=vectors).search("Seattle motel")
    assert names(hits["tfidf"]) == ["1"]
    assert names(hits["vectors"])[:2] == ["1", "3"]
    assert names(build(TEXTS, vectors=vectors).search("downpour", top=1)["vectors"]) == ["2"]


def test_a_query_without_a_known_word_finds_nothing_and_says_so(vectors: WordVectors) -> None:
    with pytest.warns(UserWarning, match="no word of the query is in the vocabulary, so vectors finds nothing"):
        assert build(TEXTS, vectors=vectors).search("xyzzy") == {"tfidf": [], "vectors": []}


def test_a_document_without_a_known_word_is_like_nothing(vectors: WordVectors) -> None:
    scores = build([*TEXTS, "xyzzy"], vectors=vectors).methods["vectors"].scores("motel")
    assert scores is not None
    assert scores[-1] == 0
    assert (scores[:-2] != 0).all()


def test_contextual_vectors_are_those_of_the_run(bpe_run: Path) -> None:
    run = load(bpe_run)
    texts = ["the list is empty.", "a name is in the list", "the name"]
    for layer in (0, -1):
        index = build(texts, run=run, methods=["contextual"], layer=layer)
        x_Nd = run.embed([*texts, "the list"], layer=layer).astype(np.float64)
        x_Nd /= np.linalg.norm(x_Nd, axis=1, keepdims=True)
        scores = {hit.document.text: hit.score for hit in index.search("the list")["contextual"]}
        np.testing.assert_allclose([scores[text] for text in texts], x_Nd[:3] @ x_Nd[3], atol=1e-5)


def test_texts_are_prepared_for_the_run(bpe_run: Path) -> None:
    run = load(bpe_run)
    prepared = ContextualVectors(run, lower=True, strip_punctuation=True)
    np.testing.assert_array_equal(prepared(["The List.", "..."]), ContextualVectors(run)(["the list ", "..."]))


def test_a_long_document_is_read_in_passages_and_never_cut(bpe_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.search import dense

    run = load(bpe_run)
    embedder, text = ContextualVectors(run), "the list is empty and the name is in the list of names"
    whole = embedder([text])[0]
    monkeypatch.setattr(dense, "_PASSAGE", 8)
    passages = embedder._passages(text)
    assert len(passages) > 1
    assert " ".join(passages) == text
    assert max(len(run.tokenizer.encode(passage)) for passage in passages) < 8
    np.testing.assert_allclose(embedder([text])[0], run.embed(passages).mean(0), atol=1e-6)
    assert not np.allclose(whole, embedder([text])[0])


# Documents


def test_documents_are_files_lines_or_records(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("one\n\ntwo\n", encoding="utf-8")
    (tmp_path / "sub" / "b.csv").write_text("text,n\nthree,1\nfour,2\n", encoding="utf-8")
    assert read_documents(tmp_path / "a.txt") == [Document("a.txt:1", "one"), Document("a.txt:3", "two")]
    assert read_documents(tmp_path) == [
        Document("a.txt", "one\n\ntwo\n"),
        Document("sub/b.csv:2", "three"),
        Document("sub/b.csv:3", "four"),
    ]
    assert [document.text for document in read_documents(tmp_path / "sub" / "b.csv", field="n")] == ["1", "2"]
    (tmp_path / "sub" / "a.txt").write_text("five", encoding="utf-8")
    documents = read_documents(f"{tmp_path}/**/a.txt")
    assert len({document.name for document in documents}) == 2, "files of one name in two folders are told apart"
    assert [document.text for document in documents] == ["one\n\ntwo\n", "five"]


def test_a_folder_of_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no text"):
        read_documents(tmp_path / "empty.txt")
    with pytest.raises(DataError, match="does not exist"):
        read_documents(tmp_path / "absent.txt")
    (tmp_path / "a.csv").write_text("text,n\nthree,1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r'has no column "body".* Choose one with field'):
        read_documents(tmp_path / "a.csv", field="body")


# The index file


class Counting:
    """An embedder that counts the texts it embeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts = 0
        embed = AveragedVectors.__call__

        def counted(this: AveragedVectors, texts: Sequence[str]) -> Any:
            self.texts += len(texts)
            return embed(this, texts)

        monkeypatch.setattr(AveragedVectors, "__call__", counted)

    def since(self) -> int:
        seen, self.texts = self.texts, 0
        return seen


def test_an_index_is_made_once_and_again_when_documents_or_vectors_change(
    tmp_path: Path, vectors: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, file = Counting(monkeypatch), tmp_path / "notes.firthindex"
    fresh = build(TEXTS, vectors=vectors).search("motel in Seattle")
    counting.since()
    assert build(TEXTS, vectors=vectors, file=file).search("motel in Seattle") == fresh
    assert counting.since() == len(TEXTS) + 1
    written = file.stat().st_mtime_ns
    assert build(TEXTS, vectors=vectors, file=file).search("motel in Seattle") == fresh
    assert counting.since() == 1, "only the query"
    assert file.stat().st_mtime_ns == written
    build([*TEXTS, "Rain."], vectors=vectors, file=file)
    assert counting.since() == len(TEXTS) + 1
    build(TEXTS, vectors=vectors, file=file)
    other = WordVectors(vectors.words, vectors.vectors[::-1].copy())
    expected = build(TEXTS, vectors=other).search("motel")
    counting.since()
    assert build(TEXTS, vectors=other, file=file).search("motel") == expected
    assert counting.since() == len(TEXTS) + 1


def test_an_index_keeps_the_methods_that_were_not_asked_for(
    tmp_path: Path, vectors: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, file = Counting(monkeypatch), tmp_path / "notes.firthindex"
    build(TEXTS, vectors=vectors, file=file)
    build(TEXTS, file=file)
    counting.since()
    build(TEXTS, vectors=vectors, file=file)
    assert counting.since() == 0


def test_a_run_of_other_weights_or_another_layer_is_noticed(tmp_path: Path, bpe_run: Path) -> None:
    run = load(bpe_run)
    one, other = ContextualVectors(run), ContextualVectors(run, layer=0)
    before = one.sha256
    assert before == ContextualVectors(load(bpe_run)).sha256
    assert before != other.sha256
    next(run.network.parameters()).data[0, 0] += 1
    assert one.sha256 != before


def test_another_file_is_never_overwritten(tmp_path: Path, vectors: WordVectors) -> None:
    vectors.save(tmp_path / "v.firth")
    (tmp_path / "notes.txt").write_text("mine, and no index", encoding="utf-8")
    for path in (tmp_path / "v.firth", tmp_path / "notes.txt", tmp_path):
        with pytest.raises(DataError, match=r"is not an index of `firth search`\. Choose another file"):
            build(TEXTS, file=path)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine, and no index"


def test_a_damaged_index_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "notes.firthindex"
    build(TEXTS, file=file)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFile, match="checksum"):
        build(TEXTS, file=file)


# Recall


class Fixed:
    """Ranks documents in a given order."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.given = scores

    def scores(self, query: str) -> Any:
        return np.array(self.given, np.float32)


def test_recall_and_mrr_are_known() -> None:
    documents = [Document(name, name) for name in "abcd"]
    index = Index(documents, {"vectors": Fixed([0.1, 0.4, 0.3, 0.2])})  # b c d a
    queries = [Query("1", ("b",)), Query("2", ("d",)), Query("3", ("a",)), Query("4", ("c", "d")), Query("5", ("b", "a"))]
    measured = measure(index, queries, top=3)["vectors"]
    assert measured.recall == pytest.approx((1 + 1 + 0 + 1 + 0.5) / 5)
    assert measured.first == pytest.approx(2 / 5)
    assert measured.mrr == pytest.approx((1 + 1 / 3 + 0 + 1 / 2 + 1) / 5)
    with pytest.raises(DataError, match='there is no document "e"'):
        measure(index, [Query("1", ("e",))])


def test_equal_scores_keep_the_order_of_the_documents() -> None:
    documents = [Document(name, name) for name in "abcd"]
    assert names(Index(documents, {"vectors": Fixed([0, 1, 0, 1])}).search("x", top=3)["vectors"]) == ["b", "d", "a"]


def test_queries_with_several_documents_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "queries.csv").write_text("query,document\nx,a\ny,b\nx,c\n", encoding="utf-8")
    assert read_queries(tmp_path / "queries.csv") == [Query("x", ("a", "c")), Query("y", ("b",))]


def test_the_shipped_queries_are_paraphrases() -> None:
    """30 queries over 100 documents; half of them share a word with their document that is not in 5 others."""
    documents, queries = paraphrases()
    text = {document.name: document.text for document in documents}
    assert (len(documents), len(set(text.values())), len(queries)) == (100, 100, 30)
    assert all(len(query.relevant) == 1 for query in queries)
    everywhere = [words_of(one) for one in text.values()]
    content = [
        [
            word
            for word in words_of(query.text)
            if word in words_of(text[query.relevant[0]]) and sum(word in w for w in everywhere) < 6
        ]
        for query in queries
    ]
    assert 12 <= sum(map(bool, content)) <= 18
    measured = measure(build(documents), queries)["tfidf"]
    assert 0.4 < measured.recall < 0.6, "TF-IDF finds those that share a word, and hardly any other"


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["vector"]}, 'unknown method "vector". Did you mean "vectors"?'),
        ({"methods": ["vectors"]}, 'method "vectors" needs word vectors. Give a file with vectors'),
        ({"methods": ["contextual"]}, 'method "contextual" needs a run. Give one with run'),
    ],
)
def test_a_method_without_its_model_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        build(TEXTS, **arguments)
    assert str(error.value) == message


def test_empty_queries_and_empty_lists_are_refused() -> None:
    with pytest.raises(DataError, match="the query is empty"):
        build(TEXTS).search("  ")
    with pytest.raises(ConfigError, match="top is 0"):
        build(TEXTS).search("x", top=0)
    with pytest.raises(DataError, match="the list of documents is empty"):
        build([])


def test_the_index_is_plain_safetensors(tmp_path: Path) -> None:
    from safetensors import safe_open

    build(TEXTS, file=tmp_path / "i.firthindex")
    with safe_open(tmp_path / "i.firthindex", framework="np") as file:
        assert json.loads(file.metadata()["made_from"]) == {"tfidf": ""}
        assert bytes(file.get_tensor("tfidf.words")).decode().split("\n")[0] == "a"
