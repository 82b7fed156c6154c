from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.text.lexicon import BREAK, END, MISSING, CountedWords, Lexicon
from firth.text.readers.pieces import cut

TEXT = st.text(st.sampled_from("ab é\n\t 　\x1c\x00\x85中") | st.characters(exclude_categories=["Cs"]), max_size=60)


def read(lexicon: Lexicon, text: str) -> tuple[list[str], list[int]]:
    """The words of `text` as the lexicon spells them, and where its newlines are."""
    ids, ends = lexicon.read(text.encode())
    known = lexicon.words().spelled()
    return [known[id] for id in ids.tolist()], ends.tolist()


@given(st.lists(TEXT, max_size=4))
def test_words_and_counts_are_those_of_str_split(texts: list[str]) -> None:
    lexicon = Lexicon()
    for text in texts:
        words, ends = read(lexicon, text)
        assert words == text.split()
        lines = text.split("\n")[:-1]
        assert ends == [len(" ".join(lines[: n + 1]).split()) for n in range(len(lines))]
    known = lexicon.words()
    expected = Counter(word for text in texts for word in text.split())
    assert dict(zip(known.spelled(), known.count_W.tolist(), strict=True)) == expected
    assert known.spelled() == list(expected)  # numbered by first appearance


def test_every_white_space_of_python_is_one() -> None:
    spaces = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()]
    assert read(Lexicon(), "a".join(spaces))[0] == ["a"] * (len(spaces) - 1)
    others = [character for character in map(chr, range(0x3100)) if not character.isspace()]
    assert read(Lexicon(), "".join(others))[0] == ["".join(others)]


def chunks_of(text: bytes) -> list[bytes]:
    lexicon = Lexicon()
    ids, _ = lexicon.read(text, chunks=True)
    words = lexicon.words()
    starts, lengths = words.entry_W4[:, 1].tolist(), (words.entry_W4[:, 2] & np.uint64(0xFFFFFFFF)).tolist()
    return [words.arena_A[starts[id] : starts[id] + lengths[id]].tobytes() for id in ids.tolist()]


@given(TEXT)
def test_chunks_begin_where_a_text_may_be_cut(text: str) -> None:
    expected, begun = [], 0
    for at in range(1, len(text) + 1):
        newline = at < len(text) and "\n" in text[at - 1 : at + 1]
        if at == len(text) or newline or (text[at] == " " and cut(text[begun : at + 1], at + 1 - begun) == at - begun > 0):
            expected.append(text[begun:at].encode())
            begun = at
    assert chunks_of(text.encode()) == expected


def test_a_break_is_a_chunk() -> None:
    assert chunks_of(b"a b" + BREAK + END + " é\n".encode()) == [b"a", b" b", BREAK, END, " é".encode(), b"\n"]


def test_words_with_the_same_hash_are_told_apart() -> None:
    words = [f"{n}" * 9 + "x" for n in range(50)]
    known = CountedWords.of(words)
    known.entry_W4[:, 2] = np.uint64(7 << 32) | (known.entry_W4[:, 2] & np.uint64(0xFFFFFFFF))  # all have hash 7
    known.entry_W4[:, 0] = 0  # and begin alike
    lexicon = Lexicon()
    lexicon.add(known)
    lexicon.add(known)
    assert lexicon.words().spelled() == words
    assert lexicon.find(known).tolist() == list(range(50))


@given(st.lists(TEXT, max_size=4), st.integers(1, 5))
def test_lexicons_add_up_in_any_number_of_shares(texts: list[str], shares: int) -> None:
    parts = []
    for text in texts:
        lexicon = Lexicon()
        lexicon.read(text.encode())
        parts.append(lexicon.words())
    total: Counter[str] = Counter()
    for share in range(shares):
        merged = Lexicon()
        for part in parts:
            merged.add(part, share, shares)
        words = merged.words()
        assert not total.keys() & set(words.spelled())
        total.update(dict(zip(words.spelled(), words.count_W.tolist(), strict=True)))
    assert total == Counter(word for text in texts for word in text.split())


@given(st.lists(st.text(max_size=12), unique=True, max_size=9))
def test_words_are_found_by_number_or_missing(words: list[str]) -> None:
    lexicon = Lexicon()
    lexicon.add(CountedWords.of(words[::2]))
    assert lexicon.find(CountedWords.of(words)).tolist() == [n // 2 if n % 2 == 0 else MISSING for n in range(len(words))]


def test_more_words_than_there_was_room_for() -> None:
    lexicon = Lexicon()
    words = [f"w{n}" for n in range(100_000)]
    assert read(lexicon, " ".join(words))[0] == words
    assert read(lexicon, " ".join(reversed(words)))[0] == words[::-1]
    assert len(lexicon) == 100_000
    assert set(lexicon.words().count_W.tolist()) == {2}


def test_a_word_longer_than_all_the_room_there_was() -> None:
    long = "x" * 2_000_000
    assert read(Lexicon(), f"a {long} b {long}y")[0] == ["a", long, "b", long + "y"]


def test_a_table_on_disk_is_the_same_table(tmp_path: Path) -> None:
    lexicon = Lexicon()
    lexicon.read("to be or not to be, ß".encode())
    words = lexicon.words()
    spilled = words.spilled(str(tmp_path / "part"))
    assert spilled.spelled() == ["to", "be", "or", "not", "be,", "ß"]
    for field in ("arena_A", "entry_W4"):
        assert getattr(spilled, field).tolist() == getattr(words, field).tolist()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["", " ", "\n", "\n\n \n"])
def test_white_space_has_no_words(text: str) -> None:
    lexicon = Lexicon()
    assert read(lexicon, text) == ([], [0] * text.count("\n"))
    assert len(lexicon.words()) == 0
