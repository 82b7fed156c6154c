"""Denoising: each noise equals a plain loop, the shares and lengths are as published, and the target is the original."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from corrupted_windows import assert_a_batch_is_a_function_of_its_position
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firth.errors import DataError
from firth.text.batches.denoising import Denoising, Noise
from firth.text.batches.pairs import PairBatch
from firth.text.batches.permutation import keys
from firth.text.batches.span_corruption import CorruptedWindows, corrupted_sweep
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

UNLIKELY = 1e-4
OFF = Noise(infill=0.0, permute=False)
WORDS = " ".join(f"w{n}" for n in range(300))


def words(text: str = f"{WORDS} . ! ?\n") -> Tokenizer:
    return Tokenizer.train(TokenizerConfig(kind="word"), [Piece(text, True)], 1)


TOKENIZER = words()
ID = {TOKENIZER.token(id): id for id in range(TOKENIZER.vocab)}
MASK, EOS = TOKENIZER.vocab, ID["<eos>"]


def ids(text: str) -> list[int]:
    return [ID[word] for word in text.split()]


def sources(made: PairBatch) -> list[list[int]]:
    """Without padding and <eos>, which every source must have."""
    rows = [row[:length] for row, length in zip(made.source_BS.tolist(), made.source_length_B.tolist(), strict=True)]
    assert all(row[-1] == EOS for row in rows)
    assert not any(any(row[len(kept) :]) for row, kept in zip(made.source_BS.tolist(), rows, strict=True)), "padded with 0"
    return [row[:-1] for row in rows]


def corrupted(text: str | list[int], noise: Noise, windows: int = 1, seed: int = 0) -> list[list[int]]:
    token_T = ids(text) if isinstance(text, str) else text
    numbers = np.arange(windows, dtype=np.uint64)
    return sources(Denoising(TOKENIZER, len(token_T), noise, seed)(np.tile(token_T, (windows, 1)), numbers))


def shown(row: list[int]) -> str:
    return " ".join("_" if id == MASK else TOKENIZER.token(id) for id in row)


# The oracle: one window at a time, one token at a time


def looped(token_T: list[int], window: int, context: int, noise: Noise, seed: int) -> list[int]:
    def key(place: int, purpose: int) -> int:
        return int(keys(seed, np.array([window * context + place], np.uint64), purpose)[0])

    T = len(token_T)
    if noise.permute:
        sentences: list[list[int]] = [[]]
        for before, token in zip([None, *token_T], token_T, strict=False):
            if before is not None and final(before) and not final(token):
                sentences.append([])
            sentences[-1].append(token)
        order = sorted(range(len(sentences)), key=lambda n: key(n, 2))
        token_T = [token for n in order for token in sentences[n]]
    if noise.rotate:
        start = int(keys(seed, np.array([window], np.uint64), 3)[0]) % T
        token_T = token_T[start:] + token_T[:start]
    infilled, masked, deleted = noise.counts(T)
    lengths: list[int] = []
    while sum(lengths) < infilled:
        drawn = poisson(key(len(lengths), 4) / 2**64, noise.length)
        left = infilled - sum(lengths)
        lengths.append(left if len(lengths) == infilled - 1 else min(drawn, left))
    slots = T - infilled + len(lengths)
    by_key = sorted(range(slots), key=lambda slot: key(slot, 5))
    spans = {slot: lengths[n] for n, slot in enumerate(by_key[: len(lengths)])}
    chosen = sorted(range(T - infilled), key=lambda place: key(place, 6))
    source, place, alone = [], 0, 0
    for slot in range(slots):
        if slot in spans:
            source.append(MASK)
            place += spans[slot]
            continue
        if alone in chosen[:masked]:
            source.append(MASK)
        elif alone not in chosen[masked : masked + deleted]:
            source.append(token_T[place])
        place, alone = place + 1, alone + 1
    assert place == T
    return source


def final(token: int) -> bool:
    return TOKENIZER.token(token) in ("<eos>", ".", "!", "?")


def poisson(uniform: float, mean: float) -> int:
    length, below = 0, math.exp(-mean)
    term = below
    while uniform >= below:
        length += 1
        term *= mean / length
        below += term
    return length


NOISES = st.builds(
    Noise,
    mask=st.sampled_from((0.0, 0.05, 0.3)),
    delete=st.sampled_from((0.0, 0.05, 0.3)),
    infill=st.sampled_from((0.0, 0.05, 0.39)),
    length=st.sampled_from((1.0, 3.0, 8.0)),
    permute=st.booleans(),
    rotate=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(NOISES, st.integers(1, 3), st.integers(2, 50), st.integers(0, 20), st.integers(0, 2**63), st.integers(0, 10**9))
def test_every_noise_equals_a_loop_and_the_target_is_the_window(
    noise: Noise, rows: int, length: int, more: int, seed: int, window: int
) -> None:
    token_BT = np.random.default_rng(length).integers(TOKENIZER.vocab, size=(rows, length))
    token_BT[:, ::5] = ID["."]
    denoising = Denoising(TOKENIZER, length + more, noise, seed)
    made = denoising(token_BT, np.arange(window, window + rows, dtype=np.uint64))
    expected = [looped(row, window + n, length + more, noise, seed) for n, row in enumerate(token_BT.tolist())]
    assert sources(made) == expected
    assert made.source_BS.shape == (rows, length - noise.counts(length)[2] + 1), "one shape, and never longer than the window"
    assert made.target_BT.tolist() == [[*row, EOS] for row in token_BT.tolist()]
    assert made.input_BT.tolist() == [[EOS, *row] for row in token_BT.tolist()]
    assert made.target_length_B.tolist() == [length + 1] * rows
    assert all(any(token != MASK for token in row) for row in expected), "one token of the text stays"
    assert {array.dtype for array in (made.source_BS, made.source_length_B, made.target_length_B)} == {np.dtype(np.int64)}


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 0.99), st.floats(0, 0.99), st.floats(0, 0.99), st.floats(1, 20), st.booleans(), st.integers(0, 2**63))
def test_a_window_of_two_tokens_keeps_one(
    mask: float, delete: float, infill: float, length: float, flag: bool, seed: int
) -> None:
    noise = Noise(mask, delete, infill, length, permute=flag, rotate=not flag)
    (row,) = corrupted("w1 w2", noise, seed=seed)
    assert 1 <= len(row) <= 2
    assert len([token for token in row if token != MASK]) == (1 if mask or delete or infill else 2)


# Known answers


def test_without_noise_the_source_is_the_window() -> None:
    assert corrupted("w1 w2 . w3 .", OFF, 3) == [ids("w1 w2 . w3 .")] * 3


def test_masking_and_deleting_leave_the_rest_in_order() -> None:
    masked, deleted = Noise(mask=0.5, infill=0, permute=False), Noise(delete=0.5, infill=0, permute=False)
    text = "w1 w2 w3 w4"
    pairs = {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}
    assert {shown(row) for row in corrupted(text, masked, 200)} == {
        " ".join("_" if n in pair else f"w{n}" for n in (1, 2, 3, 4)) for pair in pairs
    }
    assert {shown(row) for row in corrupted(text, deleted, 200)} == {f"w{a} w{b}" for a, b in pairs}


def test_an_infilling_span_is_one_mask_whatever_its_length() -> None:
    """Two of four tokens: one span of both, or two of 1 + 1, 0 + 2."""
    one = {"_ w3 w4", "w1 _ w4", "w1 w2 _"}
    apart = {"_ _ w3 w4", "_ w2 _ w4", "_ w2 w3 _", "w1 _ _ w4", "w1 _ w3 _", "w1 w2 _ _"}
    inserted = {"_ w1 _ w4", "_ w1 w2 _", "w1 _ w2 _", "_ w3 _ w4", "_ w3 w4 _", "w1 _ w4 _"}  # the empty one inserts its <mask>
    texts = {shown(row) for row in corrupted("w1 w2 w3 w4", Noise(infill=0.5, length=1.5, permute=False), 4000)}
    assert texts == one | apart | inserted


def test_sentences_end_at_marks_and_lines_and_are_shuffled_whole() -> None:
    text = "w1 w2 . w3 ! ? w4 <eos> w5"
    orders = Counter(shown(row) for row in corrupted(text, Noise(infill=0), 6000))
    parts = ["w1 w2 .", "w3 ! ?", "w4 <eos>", "w5"]
    assert len(orders) == 24
    assert all(all(part in one for part in parts) for one in orders)
    assert stats.chisquare(list(orders.values())).pvalue > UNLIKELY, "all orders are equally probable"


def test_white_space_after_a_sentence_belongs_to_it_and_within_one_ends_none() -> None:
    text, parts = " a b. c! \n \nd e", [" a b. ", "c! \n \n", "d e"]
    tokenizer = Tokenizer.train(TokenizerConfig(kind="char"), [Piece(text, True)], 2)
    denoising = Denoising(tokenizer, len(text), Noise(infill=0))
    made = denoising(np.tile(tokenizer.encode(text).astype(np.int64), (200, 1)), np.arange(200, dtype=np.uint64))
    texts = {tokenizer.decode(row[:-1]) for row in made.source_BS}
    assert texts == {"".join(order) for order in itertools.permutations(parts)}


def test_a_rotated_window_begins_at_any_token() -> None:
    rotations = Counter(shown(row) for row in corrupted("w1 w2 w3 w4 w5", Noise(infill=0, permute=False, rotate=True), 4000))
    assert rotations.keys() == {"w1 w2 w3 w4 w5", "w2 w3 w4 w5 w1", "w3 w4 w5 w1 w2", "w4 w5 w1 w2 w3", "w5 w1 w2 w3 w4"}
    assert stats.chisquare(list(rotations.values())).pvalue > UNLIKELY


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, TOKENIZER.vocab - 1), min_size=2, max_size=40), st.booleans(), st.integers(0, 2**63))
def test_moving_text_loses_nothing(token_T: list[int], permute: bool, seed: int) -> None:
    noise = Noise(infill=0, permute=permute, rotate=True)
    for row in corrupted(token_T, noise, 3, seed):
        assert Counter(row) == Counter(token_T)


# Distributions


def test_the_shares_hold_for_each_place_of_a_window() -> None:
    """The deleted tokens are drawn anew for each window: each place is chosen with probability `share`."""
    windows, T = 4000, 20
    text = " ".join(f"w{n}" for n in range(T))
    for noise, share in ((Noise(delete=0.3, infill=0, permute=False), 0.3), (Noise(mask=0.15, infill=0, permute=False), 0.15)):
        rows = corrupted(text, noise, windows)
        gone = np.array([[id not in row for id in ids(text)] for row in rows])
        assert gone.sum(axis=1).tolist() == [round(share * T)] * windows
        low, high = stats.binom.interval(1 - UNLIKELY / T, windows, share)
        assert ((low <= gone.sum(axis=0)) & (gone.sum(axis=0) <= high)).all()
    covered = np.array([[id not in row for id in ids(text)] for row in corrupted(text, Noise(permute=False), windows)])
    assert covered.sum(axis=1).tolist() == [6] * windows
    assert abs(covered[:, 1:-1].mean() - 0.3) < 0.03


def test_infilling_spans_have_poisson_lengths() -> None:
    """The first twenty spans of each window count; the one that is shortened comes later."""
    windows = 1000
    denoising = Denoising(TOKENIZER, 512, Noise())
    length_BN, spans_B = denoising._span_lengths(154, np.arange(windows, dtype=np.uint64))
    assert (length_BN.sum(axis=1) == 154).all()
    first = length_BN[:, :20].ravel()
    assert abs(first.mean() - 3) < 4 * math.sqrt(3 / first.size)
    counts = np.bincount(np.minimum(first, 9), minlength=10)
    expected = np.append(stats.poisson.pmf(np.arange(9), 3), stats.poisson.sf(8, 3)) * first.size
    assert stats.chisquare(counts, expected).pvalue > UNLIKELY
    assert abs(spans_B.mean() - 154 / 3) < 2
    source = sources(denoising(np.tile(np.arange(300)[None, :150], (3, 1)), np.arange(3, dtype=np.uint64)))
    assert all(row.count(MASK) < 45 / 2 for row in source), "a shorter window, too"


# Windows


@settings(max_examples=30, deadline=None)
@given(NOISES, st.integers(1, 7), st.integers(2, 12), st.integers(0, 2**63), st.integers(0, 3000))
def test_a_batch_is_a_function_of_seed_and_position(noise: Noise, batch: int, context: int, seed: int, position: int) -> None:
    denoising = Denoising(TOKENIZER, context, noise, seed)
    assert_a_batch_is_a_function_of_its_position(denoising, np.arange(250), batch, position)


def test_each_epoch_and_each_seed_corrupts_anew() -> None:
    def sources_of(seed: int) -> list[str]:
        windows = CorruptedWindows(np.arange(25), 1, Denoising(TOKENIZER, 24, Noise(), seed))
        return [str(sources(windows.next())[0]) for _ in range(8)]

    assert len(set(sources_of(0))) > 4
    assert sources_of(0) != sources_of(1)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 100), st.integers(1, 5), st.integers(2, 30))
def test_a_sweep_corrupts_every_window_once_whatever_the_batch(length: int, batch: int, context: int) -> None:
    denoising = Denoising(TOKENIZER, context, Noise())
    rows, alone = (
        [
            (source, target.tolist())
            for part in corrupted_sweep(np.arange(length), size, denoising)
            for source, target in zip(sources(part), part.target_BT, strict=True)
        ]
        for size in (batch, 1)
    )
    assert rows == alone
    read = [token for _, target in rows for token in target[:-1]]
    assert read == list(range(length - (length % context == 1))), "a single token at the end has nothing beside it"


def test_too_little_text_and_a_vocabulary_without_an_end_are_refused() -> None:
    with pytest.raises(DataError, match="the text has 1 tokens; corrupting it needs at least 2"):
        corrupted_sweep(np.zeros(1, np.int64), 1, Denoising(TOKENIZER, 8, Noise()))
    endless = Tokenizer.train(TokenizerConfig(kind="char"), [Piece("abc", True)], 1)
    with pytest.raises(DataError, match=r"the vocabulary has no <eos>, which ends each target of denoising\."):
        Denoising(endless, 8, Noise())
