"""Span corruption: what is cut out can be put back, and the cuts are drawn as published."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from corrupted_windows import assert_a_batch_is_a_function_of_its_position
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firth.errors import DataError
from firth.text.batches.span_corruption import CorruptedWindows, Corruption, corrupted_sweep, restore, span_counts

VOCAB = 40
UNLIKELY = 1e-4


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(2, 60),
    st.floats(0.01, 0.99),
    st.floats(1.0, 9.0),
    st.integers(0, 2**63),
    st.integers(0, 10**9),
)
def test_the_window_is_put_back_together(rows: int, context: int, share: float, length: float, seed: int, window: int) -> None:
    token_BT = np.random.default_rng(context).integers(VOCAB, size=(rows, context))
    corruption = Corruption(VOCAB, context, share, length, seed)
    made = corruption(token_BT, np.arange(window, window + rows, dtype=np.uint64))
    cut, spans = span_counts(context, share, length)
    assert made.source_BS.shape == (rows, context - cut + spans)
    assert made.target_BT.shape == made.input_BT.shape == (rows, cut + spans + 1)
    for row in range(rows):
        source, target = made.source_BS[row].tolist(), made.target_BT[row].tolist()
        assert restore(source, target, VOCAB) == token_BT[row].tolist()
        sentinels = list(range(VOCAB, VOCAB + spans))
        assert [token for token in source if token >= VOCAB] == sentinels, "in order"
        assert [token for token in target if token >= VOCAB] == [*sentinels, corruption.end]
        assert made.input_BT[row].tolist() == [corruption.end, *target[:-1]]
    assert corruption.end == VOCAB + corruption.sentinels - 1
    assert made.source_length_B.tolist() == [made.source_BS.shape[1]] * rows
    assert made.target_length_B.tolist() == [made.target_BT.shape[1]] * rows


def test_the_example_of_the_paper_is_put_back_together() -> None:
    """Thank you for inviting me to your party last week . → Thank you <X> me to your party <Y> week ."""
    source = [0, 1, VOCAB, 4, 5, 6, 7, VOCAB + 1, 9, 10]
    target = [VOCAB, 2, 3, VOCAB + 1, 8, VOCAB + 2]
    assert restore(source, target, VOCAB) == list(range(11))


@pytest.mark.parametrize(
    ("tokens", "share", "length", "expected"),
    [
        (512, 0.15, 3.0, (77, 26)),
        (128, 0.15, 3.0, (19, 6)),
        (100, 0.5, 10.0, (50, 5)),
        (2, 0.15, 3.0, (1, 1)),
        (9, 0.99, 1.0, (8, 1)),
    ],
)
def test_tokens_and_spans_are_as_many_as_published(tokens: int, share: float, length: float, expected: tuple[int, int]) -> None:
    assert span_counts(tokens, share, length) == expected


def lengths(token_T: list[int]) -> list[int]:
    """Lengths of the spans of a target."""
    starts = [place for place, token in enumerate(token_T) if token >= VOCAB]
    return (np.diff(starts) - 1).tolist()


def test_all_compositions_are_equally_probable() -> None:
    """6 tokens in 3 spans: 10 ways; the 6 others in 3 stretches: 10 ways, independent of those."""
    corruption, windows = Corruption(VOCAB, 12, 0.5, 2.0, seed=5), 6000
    made = corruption(np.tile(np.arange(12), (windows, 1)), np.arange(windows, dtype=np.uint64))
    spans = [tuple(lengths(row)) for row in made.target_BT.tolist()]
    stretches = []
    for row in made.source_BS.tolist():
        ends = [place for place, token in enumerate(row) if token >= VOCAB]
        stretches.append(tuple((np.diff(ends, prepend=-1) - 1).tolist()))
    for compositions in (spans, stretches):
        counts = Counter(compositions)
        assert len(counts) == 10
        assert all(sum(parts) == 6 and min(parts) >= 1 for parts in counts)
        assert stats.chisquare(list(counts.values())).pvalue > UNLIKELY
    both = Counter(zip(spans, stretches, strict=True))
    assert len(both) == 100
    assert stats.chisquare(list(both.values())).pvalue > UNLIKELY


def test_spans_have_the_mean_length_and_are_anywhere() -> None:
    corruption, windows = Corruption(VOCAB, 512), 400
    made = corruption(np.zeros((windows, 512), np.int64), np.arange(windows, dtype=np.uint64))
    length_NS = np.array([lengths(row) for row in made.target_BT.tolist()])
    assert length_NS.shape == (windows, 26)
    assert length_NS.mean() == 77 / 26
    assert length_NS.min() == 1
    assert stats.ttest_ind(length_NS[:, 0], length_NS[:, -1]).pvalue > UNLIKELY, "the last is not what the others left"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(2, 12), st.integers(0, 2**63), st.integers(0, 3000))
def test_a_batch_is_a_function_of_seed_and_position(batch: int, context: int, seed: int, position: int) -> None:
    corruption = Corruption(VOCAB, context, 0.3, 2.0, seed)
    assert_a_batch_is_a_function_of_its_position(corruption, np.arange(300) % VOCAB, batch, position)


def test_each_epoch_and_each_seed_cuts_anew() -> None:
    def cuts(seed: int) -> list[str]:
        windows = CorruptedWindows(np.arange(25) % 24, 1, Corruption(VOCAB, 24, 0.3, 2.0, seed))
        return [str(lengths(windows.next().target_BT[0].tolist())) for _ in range(8)]

    assert len(set(cuts(0))) > 4
    assert cuts(0) != cuts(1)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 100), st.integers(1, 5), st.integers(2, 30))
def test_a_sweep_cuts_every_window_once_whatever_the_batch(length: int, batch: int, context: int) -> None:
    ids, corruption = np.arange(length) % VOCAB, Corruption(VOCAB, context, 0.3, 2.0)
    rows, alone = (
        [
            (source_S.tolist(), target_T.tolist())
            for part in corrupted_sweep(ids, size, corruption)
            for source_S, target_T in zip(part.source_BS, part.target_BT, strict=True)
        ]
        for size in (batch, 1)
    )
    assert rows == alone
    read = [token for source, target in rows for token in restore(source, target, VOCAB)]
    assert read == ids[: length - (length % context == 1)].tolist(), "a single token at the end has nothing beside it"
    assert {target[-1] for _, target in rows} == {corruption.end}, "in the shorter window, too"


def test_a_text_of_one_token_cannot_be_cut() -> None:
    with pytest.raises(DataError, match="the text has 1 tokens; corrupting it needs at least 2"):
        next(corrupted_sweep(np.zeros(1, np.int64), 1, Corruption(VOCAB, 8)))
