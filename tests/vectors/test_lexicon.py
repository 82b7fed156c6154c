from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.vectors.lexicon import Lexicon, to_bytes

TEXT = st.text(st.sampled_from("ab é\n\t 　\x1c\x00\x85中") | st.characters(exclude_categories=["Cs"]), max_size=60)


def read(lexicon: Lexicon, text: str) -> tuple[list[str], list[int]]:
    """The words of `text` as the lexicon spells them, and where its newlines are."""
    ids, ends = lexicon.read(to_bytes(text))
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


def test_words_with_the_same_hash_are_told_apart() -> None:
    lexicon = Lexicon()
    words = ["w268973", "w300994", "w120", "w225563"]  # the first two collide, and so do the others
    assert read(lexicon, " ".join(words * 2))[0] == words * 2
    hashes = lexicon.words().hash_W.tolist()
    assert (hashes[0], hashes[2]) == (hashes[1], hashes[3])


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
    lexicon.read(to_bytes("to be or not to be, ß"))
    words = lexicon.words()
    spilled = words.spilled(str(tmp_path / "part"))
    assert spilled.spelled() == ["to", "be", "or", "not", "be,", "ß"]
    for field in ("arena_A", "start_W", "count_W", "hash_W"):
        assert getattr(spilled, field).tolist() == getattr(words, field).tolist()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("text", ["", " ", "\n", "\n\n \n"])
def test_no_words(text: str) -> None:
    lexicon = Lexicon()
    assert read(lexicon, text) == ([], [0] * text.count("\n"))
    assert len(lexicon.words()) == 0
