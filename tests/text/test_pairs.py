"""Batches of sentence pairs: what they hold, how they are put together, and that they depend on seed and position alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import DataError
from firth.text.batches.pairs import BucketedPairs, PairBatch, Pairs, packed, similar
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.data.pairs import prepare_pairs
from firth.training.feed import Feed

EOS = 1
Lengths = list[tuple[int, int]]  # of source and target, <eos> included

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60)


def numbered(lengths: Lengths) -> Pairs:
    """Pair n is made of the number n + 2 on both sides, and <eos>."""
    sources, targets = (
        [np.array([n + 2] * (pair[side] - 1) + [EOS], np.uint16) for n, pair in enumerate(lengths)] for side in (0, 1)
    )
    return Pairs.of(sources, targets)


def mixture(count: int, seed: int = 0) -> Lengths:
    """Lengths of both sides that go together, as those of translations do."""
    rng = np.random.default_rng(seed)
    source = rng.integers(2, 30, count)
    return list(zip(source.tolist(), (source + rng.integers(-1, 5, count)).clip(1).tolist(), strict=True))


def rows_of(batch: PairBatch, pairs: Pairs) -> list[int]:
    """The numbers of the pairs of `numbered` in a batch, read from their first token."""
    return [int(row[0]) - 2 for row in batch.source_BS]


def test_a_batch_is_sorted_padded_and_shifted() -> None:
    pairs = Pairs.of(
        [np.array([5, 6, EOS]), np.array([7, EOS]), np.array([EOS])],
        [np.array([8, EOS]), np.array([9, 10, 11, EOS]), np.array([12, EOS])],
    )
    batch = pairs.batch(np.array([1, 0]))
    assert batch.source_BS.tolist() == [[7, EOS, 0], [5, 6, EOS]]
    assert batch.source_length_B.tolist() == [2, 3]
    assert batch.input_BT.tolist() == [[EOS, 9, 10, 11], [EOS, 8, 0, 0]]
    assert batch.target_BT.tolist() == [[9, 10, 11, EOS], [8, EOS, -1, -1]]
    assert batch.target_length_B.tolist() == [4, 2]
    assert batch.tokens == 6
    assert batch.fresh


@given(lengths, st.data())
def test_a_batch_is_what_a_plain_loop_makes_of_the_sentences(lengths: Lengths, data: st.DataObject) -> None:
    pairs = numbered(lengths)
    row_B = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8)))
    batch = pairs.batch(row_B)
    widest_S, widest_T = (max(lengths[row][side] for row in row_B) for side in (0, 1))
    for place, row in enumerate(row_B.tolist()):
        source, target = ([row + 2] * (length - 1) + [EOS] for length in lengths[row])
        assert batch.source_BS[place].tolist() == source + [0] * (widest_S - len(source))
        assert batch.target_BT[place].tolist() == target + [-1] * (widest_T - len(target))
        assert batch.input_BT[place].tolist() == [EOS, *target[:-1]] + [0] * (widest_T - len(target))
        assert (batch.source_length_B[place], batch.target_length_B[place]) == (len(source), len(target))
    assert batch.tokens == (batch.target_BT != -1).sum()
    assert {array.dtype for array in (batch.source_BS, batch.input_BT, batch.target_BT)} == {np.dtype(np.int64)}


def test_a_batch_of_nothing_is_empty() -> None:
    batch = numbered([(2, 2)]).batch(np.zeros(0, np.int64))
    assert (batch.source_BS.shape, batch.input_BT.shape, batch.target_BT.shape, batch.tokens) == ((0, 0), (0, 0), (0, 0), 0)


def test_sides_of_unequal_number_are_refused() -> None:
    with pytest.raises(DataError, match="2 source and 1 target sentences"):
        Pairs.of([np.array([EOS]), np.array([EOS])], [np.array([EOS])])


@given(lengths, st.integers(1, 120))
def test_packing_is_greedy_and_stays_within_the_tokens(lengths: Lengths, tokens: int) -> None:
    length_N = np.array([max(pair) for pair in lengths])
    order = np.arange(len(lengths))[::-1].copy()
    expected: list[list[int]] = []
    for row in order.tolist():
        fits = expected and (len(expected[-1]) + 1) * max(length_N[[*expected[-1], row]]) <= tokens
        if fits:
            expected[-1].append(row)
        else:
            expected.append([row])
    assert [rows.tolist() for rows in packed(order, length_N, tokens)] == expected


def test_neighbours_are_similar_on_both_sides_and_no_stripe_begins_with_a_jump() -> None:
    source, target = (np.array(side, np.float64) for side in ([9, 1, 5, 2, 8, 4], [2, 2, 3, 4, 5, 4]))
    assert similar(source, target).tolist() == [0, 2, 1, 3, 5, 4]  # targets of 2 and 3: sources fall; of 4 and 5: they rise


@given(lengths, st.integers(1, 120))
def test_a_sweep_has_every_pair_once_and_says_which(lengths: Lengths, tokens: int) -> None:
    pairs = numbered(lengths)
    seen: list[int] = []
    for row_B, batch in pairs.sweep(tokens):
        assert len(row_B) == 1 or max(batch.target_BT.size, batch.source_BS.size) <= tokens
        assert np.array_equal(batch.target_BT, pairs.batch(row_B).target_BT)
        seen += row_B.tolist()
    assert sorted(seen) == list(range(len(lengths)))


def test_a_sweep_pads_little() -> None:
    pairs = numbered(mixture(400))
    cells = sum(batch.source_BS.size + batch.target_BT.size for _, batch in pairs.sweep(128))
    assert len(pairs.source_ids) + len(pairs.target_ids) >= 0.9 * cells


@given(lengths, st.integers(1, 120), st.integers(0, 5))
def test_an_epoch_has_every_pair_once_in_batches_within_the_tokens(lengths: Lengths, tokens: int, seed: int) -> None:
    lengths = [(max(2, source), target) for source, target in lengths]  # so that each says who it is
    pairs, seen = numbered(lengths), []
    batches = BucketedPairs(pairs, tokens, seed)
    for _ in range(batches.per_epoch):
        batch = batches.next()
        assert len(batch.source_BS) == 1 or max(batch.source_BS.size, batch.target_BT.size) <= tokens
        seen += rows_of(batch, pairs)
    assert sorted(seen) == list(range(len(lengths)))


def test_every_epoch_has_every_pair_once_although_epochs_differ_in_batches() -> None:
    pairs = numbered(mixture(300))
    batches, seen = BucketedPairs(pairs, tokens=64, seed=3), Counter[int]()
    while seen.total() < 4 * 300:
        seen.update(rows_of(batches.next(), pairs))
        if seen.total() % 300 == 0:
            assert set(seen.values()) == {seen.total() // 300}
    assert seen.total() == 1200


def test_pairs_meet_others_in_each_epoch_and_batches_come_in_random_order() -> None:
    pairs = numbered(mixture(400))
    batches = BucketedPairs(pairs, tokens=128, seed=0)
    first = [batches.next() for _ in range(batches.per_epoch)]
    second = [batches.next() for _ in range(batches.per_epoch)]
    met, again = (
        {(a, b) for batch in epoch for a in rows_of(batch, pairs) for b in rows_of(batch, pairs) if a < b}
        for epoch in (first, second)
    )
    assert len(met & again) < len(met) / 2
    longest = np.array([batch.source_BS.shape[1] for batch in first])
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.5
    assert longest.tolist() != [batch.source_BS.shape[1] for batch in second]


def same(one: PairBatch, other: PairBatch) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("source_BS", "input_BT", "target_BT"))


def test_a_batch_depends_on_seed_and_position_alone() -> None:
    pairs = numbered(mixture(200))
    batches = BucketedPairs(pairs, tokens=64, seed=1)
    straight = [batches.next() for _ in range(5 * batches.per_epoch)]
    again = BucketedPairs(pairs, tokens=64, seed=1)
    for position in (3 * batches.per_epoch + 1, 2, 5 * batches.per_epoch - 1, 0, batches.per_epoch):
        again.seek(position)
        assert same(again.next(), straight[position])
        assert again.position == position + 1
    other = BucketedPairs(pairs, tokens=64, seed=2)
    together, apart = (
        {frozenset(rows_of(batch, pairs)) for batch in epoch}
        for epoch in (straight[: batches.per_epoch], [other.next() for _ in range(other.per_epoch)])
    )
    assert len(together & apart) < len(together) / 2


def test_a_pair_longer_than_the_tokens_is_a_batch_of_its_own() -> None:
    batches = BucketedPairs(numbered([(3, 3), (50, 4), (3, 3)]), tokens=10, seed=0)
    shapes = sorted(batches.next().source_BS.shape for _ in range(batches.per_epoch))
    assert (1, 50) in shapes


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(DataError, match="no sentence pairs"):
        BucketedPairs(Pairs.of([], []), tokens=10, seed=0)
    with pytest.raises(DataError, match="batches of 0 tokens"):
        BucketedPairs(numbered([(2, 2)]), tokens=0, seed=0)


def test_a_feed_takes_every_array_of_a_batch() -> None:
    pairs = numbered(mixture(20))
    fed = Feed(BucketedPairs(pairs, tokens=64, seed=0), torch.device("cpu")).next()
    expected = BucketedPairs(pairs, tokens=64, seed=0).next()
    assert set(fed.arrays) == {"source_BS", "source_length_B", "input_BT", "target_BT", "target_length_B"}
    assert fed.arrays["target_BT"].tolist() == expected.target_BT.tolist()
    assert (fed.rows, fed.tokens, fed.fresh) == (len(expected.target_BT), expected.tokens, True)


@pytest.mark.long
@pytest.mark.parametrize("tokens", [1024, 4096, 8192])
def test_at_most_a_tenth_of_an_epoch_of_multi30k_is_padding(tokens: int, firth_data: Path) -> None:
    data = prepare_pairs(PairsConfig(name="multi30k", source="de", target="en"), TokenizerConfig(kind="word", vocab=1000))
    batches = BucketedPairs(data.train, tokens, seed=0)
    cells = real = 0
    for _ in range(batches.per_epoch):
        batch = batches.next()
        cells += batch.source_BS.size + batch.target_BT.size
        real += int(batch.source_length_B.sum() + batch.target_length_B.sum())
    assert real == len(data.train.source_ids) + len(data.train.target_ids)
    assert 1 - real / cells <= 0.1
