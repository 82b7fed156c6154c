from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import DataError
from firth.text.batches.windows import Streams, TokenBatch, Windows, sweep, sweep_streams

Loader = type[Windows] | type[Streams]
BOTH = pytest.mark.parametrize("loader", [Windows, Streams])


def equal(left: TokenBatch, right: TokenBatch) -> bool:
    return (
        np.array_equal(left.input_BT, right.input_BT)
        and np.array_equal(left.target_BT, right.target_BT)
        and left.fresh == right.fresh
    )


@BOTH
def test_the_target_is_the_input_shifted_by_one(loader: Loader) -> None:
    batches = loader(np.arange(1000, dtype=np.uint16), batch=4, context=16, seed=0)
    for _ in range(100):
        batch = batches.next()
        assert batch.input_BT.shape == batch.target_BT.shape == (4, 16)
        assert batch.input_BT.dtype == batch.target_BT.dtype == np.int64
        assert np.array_equal(batch.target_BT, batch.input_BT + 1)
        assert np.array_equal(batch.input_BT, batch.input_BT[:, :1] + np.arange(16))
        assert batch.input_BT.flags.c_contiguous
        assert batch.target_BT.flags.c_contiguous


@BOTH
@given(st.integers(6, 200), st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**63), st.integers(0, 5000))
def test_a_batch_depends_on_seed_and_position_alone(
    loader: Loader, length: int, batch: int, context: int, seed: int, position: int
) -> None:
    ids = np.arange(length, dtype=np.uint16)
    walked, sought = loader(ids, batch, context, seed), loader(ids, batch, context, seed)
    for _ in range(3):
        walked.next()
    walked.seek(position)
    for at in range(position, position + 3):
        sought = loader(ids, batch, context, seed)
        sought.seek(at)
        assert walked.position == at
        assert equal(walked.next(), sought.next())


@BOTH
def test_another_seed_gives_other_batches(loader: Loader) -> None:
    ids = np.arange(10_000, dtype=np.uint16)
    first, second = (loader(ids, 4, 16, seed) for seed in (0, 1))
    assert not np.array_equal(first.next().input_BT, second.next().input_BT)


@given(st.integers(2, 300), st.integers(1, 8), st.integers(0, 99), st.integers(0, 20))
def test_windows_predict_each_token_about_once_an_epoch(length: int, context: int, seed: int, epoch: int) -> None:
    if length < context + 1:
        return
    count = (length - 1) // context
    windows = Windows(np.arange(length), batch=1, context=context, seed=seed)
    windows.seek(epoch * count)
    drawn = [windows.next() for _ in range(count)]
    predicted = Counter(int(token) for batch in drawn for token in batch.target_BT.ravel())
    starts = sorted(int(batch.input_BT[0, 0]) for batch in drawn)
    inside = range(context + 1, length - context)  # only the two ends may be met twice or missed
    assert windows.per_epoch == count
    assert all(predicted[token] == 1 for token in inside if count > 2)
    assert max(predicted.values()) <= 2
    assert len(set(starts)) == count


def test_windows_reach_both_ends_and_every_cut_over_the_epochs() -> None:
    windows = Windows(np.arange(33), batch=4, context=8, seed=5)  # 32 tokens to predict: no slack at all
    drawn = [windows.next().input_BT for _ in range(400)]
    assert {int(start) for batch in drawn for start in batch[:, 0]} == set(range(25))
    for end in (0, 24):  # 1/8 of the epochs by the offset, and half of the rest in turn
        assert 0.45 < np.mean([end in batch[:, 0] for batch in drawn]) < 0.67


def test_windows_come_in_another_order_each_epoch() -> None:
    windows = Windows(np.arange(8 * 64 + 8), batch=64, context=8, seed=0)
    orders = [tuple((windows.next().input_BT[:, 0] // 8).tolist()) for _ in range(20)]
    assert len(set(orders)) == 20
    assert list(orders[0]) != sorted(orders[0])


def test_a_text_with_fewer_windows_than_rows_is_drawn_from_again() -> None:
    windows = Windows(np.frombuffer(b"hello", np.uint8), batch=16, context=4, seed=0)
    batch = windows.next()
    assert {bytes(row.astype(np.uint8)) for row in batch.input_BT} == {b"hell"}
    assert {bytes(row.astype(np.uint8)) for row in batch.target_BT} == {b"ello"}


@BOTH
def test_a_text_shorter_than_one_context_is_refused(loader: Loader) -> None:
    loader(np.zeros(9, np.uint16), 2, 8, 0).next()
    with pytest.raises(DataError, match=r"has 8 tokens, but training\.context = 8 needs at least 9\. Use a smaller"):
        loader(np.zeros(8, np.uint16), 2, 8, 0)


@given(st.integers(3, 400), st.integers(1, 6), st.integers(1, 8), st.integers(0, 99))
def test_each_stream_goes_on_where_it_stopped_and_starts_fresh_each_epoch(
    length: int, batch: int, context: int, seed: int
) -> None:
    if length < context + 1:
        return
    streams = Streams(np.arange(length), batch, context, seed)
    for _ in range(3):
        seen = [streams.next() for _ in range(streams.per_epoch)]
        assert [one.fresh for one in seen] == [True] + [False] * (streams.per_epoch - 1)
        rows = np.concatenate([one.input_BT for one in seen], axis=1)
        assert np.array_equal(rows, rows[:, :1] + np.arange(rows.shape[1]))
        if length - 1 >= batch * context:
            assert len(np.unique(rows)) == rows.size  # no token twice
            assert length - 1 - rows.size < batch * context


def test_streams_cut_at_other_places_each_epoch() -> None:
    streams = Streams(np.arange(1000), batch=4, context=16, seed=0)
    first = set()
    for epoch in range(50):
        streams.seek(epoch * streams.per_epoch)
        first.add(int(streams.next().input_BT[0, 0]))
    assert len(first) > 8
    assert max(first) < 16


@given(st.integers(2, 300), st.integers(1, 7), st.integers(1, 9))
def test_a_sweep_predicts_every_token_but_the_first_exactly_once(length: int, batch: int, context: int) -> None:
    ids = np.arange(length, dtype=np.uint16)
    for swept in (list(sweep(ids, batch, context)), list(sweep_streams(ids, batch, context))):
        predicted = np.concatenate([one.target_BT.ravel() for one in swept])
        assert sorted(predicted.tolist()) == list(range(1, length))
        for one in swept:
            assert np.array_equal(one.target_BT, one.input_BT + 1)
            assert one.input_BT.shape[0] <= batch
            assert one.input_BT.shape[1] <= context


@given(st.integers(2, 300), st.integers(1, 7), st.integers(1, 9))
def test_swept_streams_are_contiguous_until_the_next_fresh_batch(length: int, batch: int, context: int) -> None:
    swept = list(sweep_streams(np.arange(length), batch, context))
    assert swept[0].fresh
    for before, after in itertools.pairwise(swept):
        if not after.fresh:
            assert np.array_equal(after.input_BT[:, 0], before.target_BT[:, -1])
    later = [i for i, one in enumerate(swept) if one.fresh][1:]
    assert len(later) <= 1
    assert all(len(one.input_BT) == 1 for i in later for one in swept[i:])
    assert sum(one.input_BT.size for i in later for one in swept[i:]) < batch


def test_one_token_cannot_be_evaluated() -> None:
    for evaluate in (sweep, sweep_streams):
        with pytest.raises(DataError, match="at least 2"):
            list(evaluate(np.zeros(1, np.uint16), 2, 4))


def varied(seed: int = 0) -> Streams:
    return Streams(np.arange(50_000), batch=4, context=70, seed=seed, deviation=5.0)


def test_windows_of_varying_length_follow_each_other_without_a_gap_until_the_next_epoch() -> None:
    streams, before = varied(), None
    fresh = 0
    for _ in range(600):
        batch = streams.next()
        fresh += batch.fresh
        assert batch.rate_factor == batch.input_BT.shape[1] / 70
        if not batch.fresh:
            assert before is not None
            assert (batch.input_BT[:, 0] == before.target_BT[:, -1]).all()
        before = batch
    assert fresh == 4  # 50,000 / 4 / about 68 tokens are 183 windows


def test_their_lengths_have_the_distribution_of_the_paper() -> None:
    """Merity et al. 2018, §4.1: N(70, 5) with probability 0.95, otherwise N(35, 5)."""
    streams = varied()
    lengths = np.array([streams.next().input_BT.shape[1] for _ in range(4000)])
    usual = lengths[lengths > 52]
    assert len(usual) / 4000 == pytest.approx(0.95, abs=0.02)
    assert usual.mean() == pytest.approx(69.2, abs=0.4)  # rounded down, and without the longest
    assert usual.std() == pytest.approx(4.8, abs=0.3)
    assert lengths[lengths <= 52].mean() == pytest.approx(34.5, abs=1.5)
    assert lengths.max() == 80


def test_any_of_them_can_be_sought_and_another_seed_or_epoch_has_others() -> None:
    streams = varied()
    whole = [streams.next().input_BT for _ in range(400)]
    for position in (399, 0, 250, 183, 184, 1):
        streams.seek(position)
        np.testing.assert_array_equal(streams.next().input_BT, whole[position])
    other = varied(seed=1)
    lengths = [len(batch_BT[0]) for batch_BT in whole]
    assert [len(other.next().input_BT[0]) for _ in range(20)] != lengths[:20]
    fresh = next(n for n in range(100, 400) if abs(int(whole[n][0, 0])) < 70)
    assert lengths[fresh : fresh + 20] != lengths[:20]


def test_streams_of_a_short_text_still_have_windows_of_varying_length() -> None:
    streams = Streams(np.arange(22), batch=2, context=20, seed=0, deviation=3.0)
    assert {streams.next().input_BT.shape[1] for _ in range(50)} <= set(range(5, 21))
