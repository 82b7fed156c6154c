"""Subsampling, the distribution of negatives, and the draws the kernels make from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from firth.vectors.config import VectorsConfig
from firth.vectors.huffman import huffman
from firth.vectors.kernels.random_draws import draw_negatives, draw_spans, subsample
from firth.vectors.sampling import alias_table, busy_rows, keep_probability, negative_probability, thresholds

UNLIKELY = 1e-4  # the draws are the same in every run; a right table fails for one seed in ten thousand
ZIPF = (1e5 / np.arange(1, 101)).astype(np.int64)


def test_subsampling_has_gensims_formula():
    from gensim.models import Word2Vec

    counts = {f"w{n}": int(count) for n, count in enumerate(ZIPF)}
    peer = Word2Vec(min_count=1, sample=1e-3)
    peer.build_vocab_from_freq(counts)
    theirs = np.array([peer.wv.get_vecattr(word, "sample_int") for word in counts]) / (2**32 - 1)
    np.testing.assert_allclose(keep_probability(ZIPF, 1e-3), theirs, rtol=1e-6)


def test_sample_zero_keeps_every_word():
    assert (keep_probability(ZIPF, 0.0) == 1).all()
    assert (thresholds(np.ones(3)) == 2**32 - 1).all()


def test_negatives_go_by_the_three_quarters_power():
    np.testing.assert_allclose(negative_probability(np.array([1, 16, 81])), np.array([1, 8, 27]) / 36)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50).filter(any))
def test_the_alias_table_has_the_distribution_to_32_bits(counts):
    p_V = negative_probability(np.array(counts))
    table = alias_table(p_V)
    own_V = (table.own_V.astype(np.float64) + 1) / 2**32
    drawn_V = own_V / len(p_V)
    np.add.at(drawn_V, table.other_V, (1 - own_V) / len(p_V))
    np.testing.assert_allclose(drawn_V, p_V, atol=len(p_V) * 2**-32)


def test_words_stay_with_their_probability():
    times, keep_V = 20_000, keep_probability(ZIPF, 1e-3)
    ids = np.tile(np.arange(100, dtype=np.uint32), times)
    kept = np.empty(len(ids), np.uint32)
    n, _ = subsample(ids, 0, len(ids), thresholds(keep_V), np.uint64(1), kept)
    stayed_V = np.bincount(kept[:n], minlength=100)
    less = keep_V < 1
    assert less.any()
    assert (stayed_V[~less] == times).all()
    z_V = (stayed_V[less] - times * keep_V[less]) / np.sqrt(times * keep_V[less] * (1 - keep_V[less]))
    assert stats.chi2.sf((z_V**2).sum(), less.sum()) > UNLIKELY


def test_every_reach_of_a_window_is_equally_likely():
    span = np.empty(100_000, np.int64)
    draw_spans(len(span), 5, np.uint64(2), span)
    assert (span.min(), span.max()) == (1, 5)
    assert stats.chisquare(np.bincount(span, minlength=6)[1:]).pvalue > UNLIKELY


def test_negatives_follow_their_distribution_without_the_word_itself():
    p_V, K, n, word = negative_probability(ZIPF), 7, 100_000, 3
    negative = np.empty(n * K, np.uint32)
    draw_negatives(np.full(n, word, np.uint32), n, K, *alias_table(p_V), np.uint64(3), negative)
    drawn_V = np.bincount(negative, minlength=100)
    assert drawn_V[word] == 0
    others = np.arange(100) != word
    expected = n * K * p_V[others] / p_V[others].sum()
    assert stats.chisquare(drawn_V[others], expected).pvalue > UNLIKELY


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_successive_negatives_are_independent(seed):
    n = 100_000
    negative = np.empty(2 * n, np.uint32)
    uniform = alias_table(np.full(10, 0.1))
    draw_negatives(np.full(n, 99, np.uint32), n, 2, *uniform, np.uint64(seed), negative)
    pairs = np.histogram2d(negative[::2], negative[1::2], bins=10)[0]
    assert stats.chisquare(pairs.ravel()).pvalue > UNLIKELY


def test_rows_are_as_busy_as_the_words_are_frequent():
    inputs, outputs = busy_rows(VectorsConfig(window=3, negatives=4, sample=0), ZIPF, None)
    share_V = ZIPF / ZIPF.sum()
    np.testing.assert_allclose(inputs, 4 * share_V)  # window 3: one to three words on either side, four on average
    np.testing.assert_allclose(outputs, share_V + 4 * negative_probability(ZIPF))
    tree = huffman(ZIPF)
    nodes = busy_rows(VectorsConfig(loss="hs", sample=0), ZIPF, tree)[1]
    for node in range(len(ZIPF) - 1):
        assert nodes[node] == pytest.approx(sum(share_V[word] for word in range(len(ZIPF)) if node in tree.of(word)[0]))
