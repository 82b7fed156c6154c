from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firth.errors import ConfigError, DataError
from firth.vectors import contexts
from firth.vectors.contexts import log_likelihood_ratio, shared_collocates, word_contexts
from firth.vectors.encoding import encoded

# Jurafsky & Martin's example: its contexts show a reader who has never heard of ong choy that it is a leafy green.
GREENS = [
    "ong choy is delicious sauteed with garlic",
    "ong choy is superb over rice",
    "ong choy leaves with salty sauces",
    "spinach sauteed with garlic over rice",
    "chard stems and leaves are delicious",
    "collard greens and other salty leafy greens",
]


def test_the_places_of_a_word_are_its_places_in_the_text() -> None:
    concordance = word_contexts(encoded(GREENS), "choy", lines=10)
    assert concordance.count == 3
    assert [" ".join([*line.left, "choy", *line.right]) for line in concordance.lines] == GREENS[:3]


def test_lines_are_spread_over_the_text_and_never_twice() -> None:
    text = encoded([f"place{n} word" for n in range(100)])
    assert [line.left for line in word_contexts(text, "word", lines=3).lines] == [["place0"], ["place49"], ["place99"]]
    assert [line.left for line in word_contexts(text, "place7", lines=3).lines] == [[]]
    assert word_contexts(text, "word", lines=0).lines == []


def near_by_hand(sentences: list[str], word: str, window: int) -> tuple[dict[str, int], int]:
    """The number of places near `word` where each word occurs, and the number of all such places."""
    counts: dict[str, int] = {}
    for sentence in sentences:
        words = sentence.split()
        here = [n for n, other in enumerate(words) if other == word]
        for n, other in enumerate(words):
            if any(0 < abs(n - place) <= window for place in here):
                counts[other] = counts.get(other, 0) + 1
    return counts, sum(counts.values())


def test_scores_are_the_likelihood_ratio_of_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is the oracle")
    generator = np.random.default_rng(0)
    sentences = [" ".join(f"w{int(n)}" for n in generator.geometric(0.1, 15)) for _ in range(80)]
    words = " ".join(sentences).split()
    for window in (1, 3):
        concordance = word_contexts(encoded(sentences), "w2", window=window, topn=1000)
        counts, places = near_by_hand(sentences, "w2", window)
        expected = {}
        for word, together in counts.items():
            elsewhere, others = words.count(word) - together, len(words) - places
            if together / places > elsewhere / others:
                table = [[together, places - together], [elsewhere, others - elsewhere]]
                expected[word] = float(scipy_stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")[0])
        assert {near.word: near.score for near in concordance.collocates} == pytest.approx(expected, abs=1e-9)
        assert {near.word: near.together for near in concordance.collocates} == {word: counts[word] for word in expected}
        scores = [near.score for near in concordance.collocates]
        assert scores == sorted(scores, reverse=True)


def test_the_ratio_is_zero_where_nothing_differs() -> None:
    assert log_likelihood_ratio(np.array([5, 0]), 10, np.array([50, 0]), 100) == pytest.approx([0, 0])


def test_shared_company_shows_what_two_words_have_in_common() -> None:
    text = encoded(GREENS * 3)
    both = shared_collocates([word_contexts(text, "choy", topn=20), word_contexts(text, "spinach", topn=20)])
    assert {"sauteed", "garlic"} <= both
    assert "leafy" not in both


def test_looking_in_small_steps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = encoded(GREENS)
    whole = word_contexts(text, "leaves")
    monkeypatch.setattr(contexts, "_AT_ONCE", 3)
    assert word_contexts(text, "leaves") == whole


def test_a_word_that_does_not_occur_gets_near_spellings() -> None:
    with pytest.raises(DataError, match=r'"spinich" does not occur in the list of sentences. Did you mean "spinach"'):
        word_contexts(encoded(GREENS), "spinich")
    with pytest.raises(ConfigError, match="window is 0; expected at least 1"):
        word_contexts(encoded(GREENS), "spinach", window=0)


def test_plain_contexts_have_no_markup_and_count_a_word_in_any_markup_as_one(tmp_path: Path) -> None:
    path = tmp_path / "docs.txt"
    lines = [
        "shape",
        "the shape :math:`(n)` of ``input``,",
        "the shape (n) of :attr:`input`",
        "a shape of input.",
        *["other words"] * 9,
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    raw, found = (word_contexts(encoded(str(path)), "shape", plain=plain) for plain in (False, True))
    assert raw.lines[1].right == [":math:`(n)`", "of", "``input``,"]
    assert [line.right for line in found.lines] == [["(n)", "of", "input,"], ["(n)", "of", "input"], ["of", "input."]]
    assert {one.word: one.together for one in found.collocates} == {"the": 2, "n": 2, "of": 3, "input": 3, "a": 1}
    assert {one.word for one in raw.collocates} >= {":math:`(n)`", "``input``,", ":attr:`input`"}
