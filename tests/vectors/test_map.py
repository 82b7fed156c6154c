"""Maps: PCA is scikit-learn's, and a page can be searched and does not take words for markup."""

from __future__ import annotations

import builtins
import importlib
from typing import Any

import numpy as np
import pytest

from firth.errors import ConfigError, DataError, FirthError
from firth.figures.figure import Table
from firth.figures.page import Section, page
from firth.figures.word_map import LABELLED, embedding_map
from firth.vectors import WordVectors
from firth.vectors.map import nearest_on_map, pca, word_map


def made(count: int = 40) -> WordVectors:
    vectors = np.random.default_rng(0).standard_normal((count, 10)) * np.linspace(3, 0.2, 10)
    return WordVectors([f"w{n}" for n in range(count)], vectors.astype(np.float32))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_pca_is_scikit_learns(dimensions: int) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    x_Nd = made().vectors.astype(np.float64)
    point_Nk, explained = pca(x_Nd, dimensions)
    oracle = decomposition.PCA(dimensions).fit(x_Nd)
    theirs = oracle.transform(x_Nd)
    theirs *= np.sign((theirs * point_Nk).sum(0))  # the sign of an axis is free
    np.testing.assert_allclose(point_Nk, theirs, atol=1e-9)
    np.testing.assert_allclose(explained, oracle.explained_variance_ratio_, atol=1e-12)


def test_neighbours_on_a_map_are_those_of_the_vectors_among_its_words() -> None:
    vectors = made()
    whole = nearest_on_map(vectors, vectors.words, 4)
    for word, near in zip(vectors.words, whole, strict=True):
        expected = vectors.most_similar(word, topn=4)
        assert [name for name, _ in near] == [name for name, _ in expected]
        assert [cosine for _, cosine in near] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    some = ["w3", "w17", "w30", "w8"]
    for word, near in zip(some, nearest_on_map(vectors, some), strict=True):
        others = sorted((other for other in some if other != word), key=lambda other: -vectors.similarity(word, other))
        assert [name for name, _ in near] == others


def test_the_sign_of_an_axis_does_not_depend_on_the_order_of_the_words() -> None:
    x_Nd = made().vectors.astype(np.float64)
    order = np.random.default_rng(1).permutation(len(x_Nd))
    np.testing.assert_allclose(pca(x_Nd[order], 3)[0], pca(x_Nd, 3)[0][order], atol=1e-9)


def test_a_map_of_words_on_a_line_has_no_second_axis() -> None:
    point_Nk, explained = pca(np.outer(np.arange(5.0), [1.0, 2.0]), 3)
    assert explained == pytest.approx((1, 0, 0))
    np.testing.assert_allclose(point_Nk[:, 1:], 0, atol=1e-12)


def test_length_does_not_matter_on_a_map() -> None:
    vectors = made()
    scaled = WordVectors(vectors.words, vectors.vectors * np.linspace(1, 9, 40, dtype=np.float32)[:, None])
    words = [f"w{n}" for n in range(30)]
    np.testing.assert_allclose(word_map(vectors, words).point_Nk, word_map(scaled, words).point_Nk, atol=1e-5)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_tsne_keeps_clusters_together_and_repeats_itself(dimensions: int) -> None:
    pytest.importorskip("sklearn")
    generator = np.random.default_rng(2)
    centres = generator.standard_normal((3, 10)) * 5
    vectors = WordVectors(
        [f"w{n}" for n in range(30)], (np.repeat(centres, 10, 0) + 0.1 * generator.standard_normal((30, 10))).astype(np.float32)
    )
    first, second = (word_map(vectors, list(vectors.words), "tsne", dimensions, seed=3).point_Nk for _ in range(2))
    assert first.shape == (30, dimensions)
    np.testing.assert_array_equal(first, second)
    distance = np.linalg.norm(first[:, None] - first[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (distance.argmin(1) // 10 == np.arange(30) // 10).all()


def test_without_scikit_learn_tsne_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(FirthError, match=r'pip install "firth\[map\]"'):
        word_map(made(), [f"w{n}" for n in range(9)], "tsne")


def test_what_cannot_be_drawn_is_told() -> None:
    vectors = made()
    for words, dimensions, message in ((["w1", "w2"], 2, "Give at least 3"), (["w1", "w1", "w1"], 2, "1 words")):
        with pytest.raises(ConfigError, match=message):
            word_map(vectors, words, "pca", dimensions)
    with pytest.raises(ConfigError, match="expected 2 or 3"):
        word_map(vectors, ["w1", "w2", "w3"], "pca", 4)
    with pytest.raises(DataError, match='"w99" is not in the vocabulary'):
        word_map(vectors, ["w1", "w2", "w99"])


EVIL = ["</script><script>alert(1)</script>", "<b>bold</b>", '"quoted"', "a&b"]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_table_and_the_points_are_the_numbers_given(dimensions: int) -> None:
    points = [[0.5 * n + k for k in range(dimensions)] for n in range(4)]
    axes = ["one", "two", "three"][:dimensions]
    figure = embedding_map(EVIL, points, axes)
    (trace,) = figure.plot.data
    columns = [list(getattr(trace, name)) for name in "xyz"[:dimensions]]
    assert [list(point) for point in zip(*columns, strict=True)] == points
    assert figure.table == Table(("word", *axes), [(w, *(f"{v:.4f}" for v in p)) for w, p in zip(EVIL, points, strict=True)])
    assert list(trace.customdata) == EVIL


def test_a_page_holds_a_search_box_and_no_markup_out_of_words() -> None:
    figure = embedding_map(EVIL, [[0.0, 1.0]] * 4, ["one", "two"])
    html = page("title", [Section("Words", "", Table((), []), [figure])], "")
    assert html.count('<input id="find"') == 1
    assert html.index('<input id="find"') < html.index('id="word-map"') < html.index('getElementById("find")')
    assert "<script>alert" not in html
    assert list(figure.plot.data[0].text)[1] == "&lt;b&gt;bold&lt;/b&gt;"  # Plotly would set it in bold
    plain = page(
        "title", [Section("Words", "", Table((), []), [embedding_map(list("abcd"), [[0.0, 1.0]] * 4, ["one", "two"])])], ""
    )
    assert html.count("<script") == plain.count("<script")


def test_a_large_map_writes_names_only_where_asked() -> None:
    words = [f"w{n}" for n in range(LABELLED + 1)]
    (trace,) = embedding_map(words, [[0.0, 0.0]] * len(words), ["one", "two"]).plot.data
    assert set(trace.text) == {""}
    assert list(trace.hovertext) == words


def test_every_name_in_the_script_is_filled_in() -> None:
    script = embedding_map(["a", "b", "c"], [[0.0, 0.0]] * 3, ["one", "two"]).html().split("<script>")[-1]
    assert not [name for name in ("LABELLED", "ORANGE", "BLUE", "DOT", "HIT") if name in script]
    assert builtins.all(part in script for part in ('"word-map"', f"<= {LABELLED}", "#D55E00", "#0072B2"))
