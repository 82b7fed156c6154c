"""Masking as published: how many tokens, which, and what becomes of them; and that it is a function of seed and place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firth.errors import DataError
from firth.text.batches.masking import Ints, MaskedBatch, MaskedWindows, Masking, masked_sweep
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.whole_words import words_of

WORDS = " ".join(f"w{n}" for n in range(48))
UNLIKELY = 1e-4  # a p-value below which a draw is not what it should be; the seeds are fixed, so it is so once or never


def word_tokenizer() -> Tokenizer:
    """50 tokens: <unk>, <eos> and 48 words."""
    return Tokenizer.train(TokenizerConfig(kind="word"), [Piece(WORDS, True)], documents=1)


def text_of(words: Ints) -> Ints:
    """Ids of words, by their numbers, 0 … 47 and over again."""
    tokenizer = word_tokenizer()
    ordinary = [id for id in range(tokenizer.vocab) if id not in (tokenizer.eos, tokenizer.unknown)]
    return np.array(ordinary)[words % 48]


def drawn(share: float = 0.15, windows: int = 1500, context: int = 80, seed: int = 0) -> tuple[Ints, MaskedBatch]:
    tokenizer = word_tokenizer()
    token_BT = text_of(np.random.default_rng(seed).integers(48, size=(windows, context)))
    return token_BT, Masking(tokenizer, share, seed=seed)(token_BT, np.arange(windows, dtype=np.uint64))


@pytest.mark.parametrize(("share", "expected"), [(0.15, 12), (0.4, 32), (0.001, 1), (0.999, 80)])
def test_a_fixed_share_of_each_window_is_chosen_and_remembered(share: float, expected: int) -> None:
    token_BT, made = drawn(share, windows=50)
    assert made.place_BM.shape == (50, expected)
    assert (np.diff(made.place_BM, axis=1) > 0).all(), "in order, none twice"
    assert np.array_equal(made.target_BM, np.take_along_axis(token_BT, made.place_BM, 1))
    untouched = np.ones(token_BT.shape, bool)
    np.put_along_axis(untouched, made.place_BM, False, 1)
    assert np.array_equal(made.token_BT[untouched], token_BT[untouched]), "what is not chosen is read as it is"


def test_every_place_is_chosen_equally_often() -> None:
    _, made = drawn()
    counts = np.bincount(made.place_BM.ravel(), minlength=80)
    assert counts.sum() == 1500 * 12
    # A place is in a window or not: the variance is that of draws without replacement, smaller than chisquare's by 1 − share.
    statistic = ((counts - 225.0) ** 2 / (225.0 * (1 - 0.15))).sum() * 79 / 80
    assert stats.chi2.sf(statistic, 79) > UNLIKELY
    assert stats.chi2.cdf(statistic, 79) > UNLIKELY, "nor is it more even than chance"


def test_neighbours_are_chosen_independently() -> None:
    _, made = drawn()
    chosen = np.zeros((1500, 80), bool)
    np.put_along_axis(chosen, made.place_BM, True, 1)
    both = (chosen[:, 1:] & chosen[:, :-1]).sum()
    expected = 1500 * 79 * (12 / 80) * (11 / 79)
    assert abs(both - expected) < 4 * expected**0.5


def test_eighty_percent_are_masked_ten_changed_and_ten_kept() -> None:
    _, made = drawn()
    shown = np.take_along_axis(made.token_BT, made.place_BM, 1)
    masked, kept = shown == 50, shown == made.target_BM
    total = shown.size
    # A changed token is by chance, 1 in 50, the one that stood there, and then looks kept.
    expected = np.array([0.8, 0.1 * 49 / 50, 0.1 + 0.1 / 50]) * total
    counts = np.array([masked.sum(), (~masked & ~kept).sum(), kept.sum()])
    assert stats.chisquare(counts, expected).pvalue > UNLIKELY


def test_changed_tokens_are_any_of_the_vocabulary_whatever_stood_there() -> None:
    _, made = drawn(0.5, windows=2000)
    shown = np.take_along_axis(made.token_BT, made.place_BM, 1)
    changed = (shown != 50) & (shown != made.target_BM)
    counts = np.bincount(shown[changed], minlength=50)
    possible = np.bincount(made.target_BM.ravel(), minlength=50)
    expected = (made.target_BM.size - possible).astype(float)  # a token cannot be seen to change into itself
    assert len(counts) == 50
    assert stats.chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > UNLIKELY


def test_what_becomes_of_a_token_does_not_depend_on_its_place() -> None:
    _, made = drawn(0.5, windows=2000)
    hidden = np.take_along_axis(made.token_BT, made.place_BM, 1) == 50
    table = np.stack([np.bincount(made.place_BM[one], minlength=80) for one in (hidden, ~hidden)])
    assert stats.chi2_contingency(table).pvalue > UNLIKELY


def test_each_epoch_masks_anew_and_a_seed_masks_again_as_before() -> None:
    tokenizer, ids = word_tokenizer(), text_of(np.arange(41))

    def epochs(seed: int) -> list[str]:
        windows = MaskedWindows(ids, 4, 10, Masking(tokenizer, 0.3, seed=seed))
        return [str(windows.next().place_BM.tolist()) for _ in range(6)]

    assert epochs(0) == epochs(0)
    assert epochs(0) != epochs(1)
    assert len(set(epochs(0))) == 6, "not the same places again"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 12), st.integers(0, 2**63), st.integers(0, 3000), st.booleans())
def test_a_batch_is_a_function_of_seed_and_position(batch: int, context: int, seed: int, position: int, whole: bool) -> None:
    tokenizer, ids = word_tokenizer(), text_of(np.arange(300))
    masking = Masking(tokenizer, 0.15, seed=seed, whole_words=whole)
    one, other = (MaskedWindows(ids, batch, context, masking) for _ in range(2))
    one.seek(position)
    other.seek(position + 1)
    one.next(), other.next()
    other.seek(position)
    other.next()
    assert one.position == other.position == position + 1
    left, right = one.next(), other.next()
    assert all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ("token_BT", "place_BM", "target_BM"))


def test_eos_and_unknown_words_are_never_chosen_and_the_list_is_filled_up() -> None:
    tokenizer = word_tokenizer()
    token_BT = np.full((4, 10), tokenizer.unknown, np.int64)
    token_BT[1, ::2] = tokenizer.eos
    token_BT[2:, 3] = token_BT[3, 7] = 9  # a word
    made = Masking(tokenizer, 0.3)(token_BT, np.arange(4, dtype=np.uint64))
    assert made.place_BM.shape == (4, 3)
    assert [sorted(row) for row in made.target_BM.tolist()] == [[-1, -1, -1], [-1, -1, -1], [-1, -1, 9], [-1, 9, 9]]
    assert made.places == 3
    assert (made.place_BM[made.target_BM == -1] == 0).all()
    assert np.array_equal(made.token_BT[:2], token_BT[:2])


def test_a_text_of_nothing_to_mask_is_refused() -> None:
    tokenizer = word_tokenizer()
    windows = MaskedWindows(np.full(50, tokenizer.unknown), 2, 8, Masking(tokenizer, 0.15))
    with pytest.raises(DataError, match="none of the 16 tokens of a batch can be masked"):
        windows.next()


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "char"])
def test_whole_words_are_masked_whole(kind: str) -> None:
    text = "The unbelievable cat sat unquietly on a mat, watching (perhaps) extraordinary birds.\n" * 12
    config = TokenizerConfig(kind=kind, vocab=300)  # type: ignore[arg-type]
    tokenizer = Tokenizer.train(config, [Piece(text, True)], documents=1)
    ids = tokenizer.encode(text).astype(np.int64)
    windows = len(ids) // 60
    token_BT = ids[: windows * 60].reshape(windows, 60)
    places = 0
    for draw in range(20):
        number_B = np.arange(draw * windows, (draw + 1) * windows, dtype=np.uint64)
        made = Masking(tokenizer, 0.25, whole_words=True)(token_BT, number_B)
        places += made.places
        for row in range(windows):
            _, word_T = words_of([tokenizer.token(int(id)) for id in token_BT[row]])
            real_M = made.target_BM[row] != -1
            chosen = set(made.place_BM[row][real_M].tolist())
            assert np.array_equal(token_BT[row][made.place_BM[row][real_M]], made.target_BM[row][real_M])
            for word in {word_T[place] for place in chosen}:
                assert {place for place, number in enumerate(word_T) if number == word} <= chosen
    longest = 15 if kind == "char" else 8
    assert 15 - longest < places / (20 * windows) <= 15, "a word at most is left out"


def test_whole_words_are_chosen_equally_often_whatever_their_length() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="char"), [Piece("ab .", True)], documents=1)
    token_1T = tokenizer.encode(" a bbb" * 20).astype(np.int64)[None]
    masking, counts = Masking(tokenizer, 0.25, whole_words=True), np.zeros(2, int)
    for number in range(600):
        made = masking(token_1T, np.array([number], np.uint64))
        text = [tokenizer.token(int(id)) for id in made.target_BM[0] if id != -1]
        counts += [text.count("a"), text.count("b") // 3]
    assert counts.sum() > 600 * 8
    assert abs(counts[0] / counts[1] - 1) < 0.15, "only the last word drawn is more often left out where it is long"


@given(st.integers(1, 100), st.integers(1, 5), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_a_sweep_reads_every_token_once_and_does_not_depend_on_the_batch(length: int, batch: int, context: int) -> None:
    tokenizer, ids = word_tokenizer(), text_of(np.arange(length))
    masking = Masking(tokenizer, 0.2)
    rows, alone = (
        [
            (token_T.tolist(), place_M.tolist(), target_M.tolist())
            for part in masked_sweep(ids, size, context, masking)
            for token_T, place_M, target_M in zip(part.token_BT, part.place_BM, part.target_BM, strict=True)
        ]
        for size in (batch, 1)
    )
    assert rows == alone
    read = []
    for token_T, place_M, target_M in rows:
        for place, target in zip(place_M, target_M, strict=True):
            token_T[place] = target
        read += token_T
    assert read == ids.tolist()
