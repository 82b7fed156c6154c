"""Vectors by counting: a known sentence, a loop over the skip-gram pairs, and scipy's SVD."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import svds
from shell import Firth

import firth as toolkit
from firth.errors import ConfigError, DataError
from firth.oracles import cooccurrence as loops
from firth.oracles import word2vec
from firth.vectors.cooccurrence import cooccur, ppmi, reduced

CAT = "there is a cat on the mat"
LINES = ["the cat sat on the mat", "a dog sat on a log", "the dog saw the cat", "cat"]


def by_loop(lines: list[str], window: int) -> Counter[tuple[str, str]]:
    return Counter(pair for line in lines for pair in word2vec.pairs(line.split(), window))


@pytest.mark.parametrize("window", [1, 2, 5])
def test_the_matrix_counts_the_skip_gram_pairs(window: int) -> None:
    matrix = cooccur(LINES, window=window, weight="raw")
    expected = by_loop(LINES, window)
    for a in matrix.words:
        for b in matrix.words:
            assert matrix[a][matrix.id(b)] == expected[a, b], (a, b)
    assert matrix.counts is not None
    assert dict(zip(matrix.words, matrix.counts.tolist(), strict=True)) == Counter(" ".join(LINES).split())


def test_a_known_sentence_has_22_pairs_and_a_symmetric_matrix() -> None:
    matrix = cooccur([CAT], window=2, weight="raw")
    assert matrix.vectors.sum() == 22
    assert (matrix.vectors == matrix.vectors.T).all()
    assert {word for word in matrix.words if matrix["cat"][matrix.id(word)]} == {"is", "a", "on", "the"}


@pytest.mark.parametrize("settings", [{"dynamic": True}, {"sample": 0.05}, {"window": 2, "dynamic": True, "sample": 0.01}])
def test_weighted_counts_are_the_loop(settings: dict[str, Any]) -> None:
    matrix = cooccur(LINES, **{"window": 3, "weight": "raw"} | settings)
    expected = loops.counts([line.split() for line in LINES], **{"window": 3} | settings)
    plain = cooccur(LINES, window=settings.get("window", 3), weight="raw")
    for a in matrix.words:
        for b in matrix.words:
            assert matrix[a][matrix.id(b)] == pytest.approx(expected.get((a, b), 0.0), rel=1e-6)
    assert not np.allclose(matrix.vectors, plain.vectors)


def test_chunks_of_the_text_count_every_pair_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cooccur(LINES, window=3, weight="raw")
    monkeypatch.setattr("firth.vectors.cooccurrence._AT_ONCE", 2)
    assert (cooccur(LINES, window=3, weight="raw").vectors == whole.vectors).all()


def test_ppmi_is_the_loop() -> None:
    count = by_loop(LINES, 2)
    total = sum(count.values())
    left: Counter[str] = Counter()
    for (a, _), n in count.items():
        left[a] += n
    matrix = cooccur(LINES, window=2)
    for a in matrix.words:
        for b in matrix.words:
            expected = max(0.0, math.log(count[a, b] * total / (left[a] * left[b]))) if count[a, b] else 0.0
            assert matrix[a][matrix.id(b)] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("smoothing", "negatives"), [(0.75, 1), (1.0, 3), (0.5, 2), (0.0, 1)])
def test_smoothed_and_shifted_ppmi_is_the_loop(smoothing: float, negatives: int) -> None:
    matrix = cooccur(LINES, window=2, smoothing=smoothing, negatives=negatives)
    expected = loops.shifted_ppmi(loops.counts([line.split() for line in LINES], 2), smoothing, negatives)
    for a in matrix.words:
        for b in matrix.words:
            assert matrix[a][matrix.id(b)] == pytest.approx(expected.get((a, b), 0.0), abs=1e-6)
    assert any(expected.values())


def test_independent_words_have_no_mutual_information() -> None:
    assert ppmi(np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("dimensions", [2, 10])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_svd_is_scipys(dimensions: int, power: float) -> None:
    """Not symmetric, as with smoothing, so that contexts differ from words."""
    x_VV = np.random.default_rng(0).poisson(0.3, (60, 60)).astype(float) * np.linspace(1, 3, 60)
    u_Vd, s_d, v_dV = svds(x_VV, dimensions)
    word_Vd, context_Vd = reduced(x_VV, dimensions, power)
    assert np.linalg.norm(word_Vd, axis=0) == pytest.approx(s_d[::-1] ** power, rel=1e-3)
    assert np.linalg.norm(context_Vd, axis=0) == pytest.approx(s_d[::-1] ** power, rel=1e-3)
    for side_Vd, expected_Vd in ((word_Vd, u_Vd), (context_Vd, v_dV.T)):  # without signs
        expected_VV = (expected_Vd * s_d ** (2 * power)) @ expected_Vd.T
        assert side_Vd @ side_Vd.T == pytest.approx(expected_VV, rel=1e-3, abs=2e-2 * np.abs(expected_VV).max())
    assert word_Vd @ context_Vd.T == pytest.approx(  # both have the same signs
        (u_Vd * s_d ** (2 * power)) @ v_dV, rel=1e-3, abs=2e-2 * s_d.max() ** (2 * power)
    )


def test_a_dimension_that_the_matrix_lacks_is_zero_with_every_power() -> None:
    x_VV = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    for part_Vd in reduced(x_VV, 2, power=0.0):
        assert np.linalg.norm(part_Vd, axis=0) == pytest.approx([1, 0])


def test_contexts_are_added_to_the_words() -> None:
    own = cooccur(LINES, window=2, svd=3, smoothing=0.75, power=0.5)
    both = cooccur(LINES, window=2, svd=3, smoothing=0.75, power=0.5, add_contexts=True)
    whole = cooccur(LINES, window=2, smoothing=0.75).vectors.astype(float)
    _, context_Vd = reduced(whole, 3, 0.5)
    assert both.vectors == pytest.approx(own.vectors + context_Vd, abs=1e-5)


def test_all_dimensions_keep_every_cosine() -> None:
    whole = cooccur(LINES, window=2)
    rotated = cooccur(LINES, window=2, svd=len(whole))
    for a in whole.words:
        for b in whole.words:
            assert rotated.similarity(a, b) == pytest.approx(whole.similarity(a, b), abs=1e-5)


def test_what_cannot_be_counted_is_refused() -> None:
    for given, message in (
        ({"weight": "tfidf"}, 'unknown weight "tfidf"; expected raw or ppmi'),
        ({"svd": 12}, "svd is 12, but the text has 9 words"),
        ({"window": 0}, "window is 0"),
        ({"negatives": 0}, "negatives is 0; expected at least 1"),
        ({"sample": -1.0}, "sample is -1.0; expected a number ≥ 0"),
        ({"smoothing": math.inf}, "smoothing is inf"),
        ({"weight": "raw", "smoothing": 0.75}, 'smoothing is 0.75, which only applies to the weight "ppmi". Remove it'),
        ({"weight": "raw", "negatives": 5}, 'negatives is 5, which only applies to the weight "ppmi"'),
        ({"power": 0.5}, "power is 0.5, which only applies to svd. Remove it, or set svd."),
        ({"add_contexts": True}, "add_contexts is True, which only applies to svd"),
    ):
        with pytest.raises(ConfigError, match=message):
            cooccur(LINES, **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the matrix of 20,001 words is too large"):
        cooccur([" ".join(str(n) for n in range(20_001))], max_vocab=30_000)
    with pytest.raises(DataError, match="no two words"):
        cooccur(["one", "two"])


def test_the_verb_prints_and_saves_what_python_gives(firth: Firth, tmp_path: Path) -> None:
    table = firth("vectors", "cooccur", CAT, "--window", "2", "--weight", "raw").out.splitlines()
    assert table[0].split() == ["a", "cat", "is", "mat", "on", "the", "there"]
    assert table[2].split() == ["cat", "1", "0", "1", "0", "1", "1", "0"]
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    out = tmp_path / "v.firth"
    answer = firth("vectors", "cooccur", tmp_path / "text.txt", "--svd", "3", "--out", out)
    assert answer.out == f"{out}: 9 words, dimension 3. Next: firth vectors neighbors {out} WORD\n"
    expected = toolkit.vectors.cooccur(LINES, svd=3)
    assert np.array_equal(toolkit.vectors.load(out).vectors, expected.vectors)
    assert firth("vectors", "similarity", out, "cat", "dog").out == f"{expected.similarity('cat', 'dog'):.4f}\n"
    again = firth("vectors", "cooccur", CAT, "--out", out)
    assert (again.code, "already exists" in again.err) == (2, True)
    printed = json.loads(firth("vectors", "cooccur", CAT, "--weight", "raw", "--window", "2", "--json").out)
    assert np.sum(printed["matrix"]) == 22
    many = firth("vectors", "cooccur", " ".join(f"w{n}" for n in range(20))).out
    assert many.endswith("… the 12 most frequent of 20 words; --out keeps all\n")
