"""Stop strings: the same text, wherever it is cut into pieces."""

from __future__ import annotations

import itertools

import pytest

from firth.tasks.abilities.stop_strings import stop_at, until_stop

CASES = [
    ("one. two", ["."], "one"),
    ("one two", ["."], "one two"),
    ("abcabd", ["abd"], "abc"),
    ("aaab", ["ab"], "aa"),
    ("aab", ["aac"], "aab"),  # it only began like a stop string
    ("xabcd", ["abcd", "c"], "xab"),  # "c" is complete first
    ("xabcd", ["bcd", "abcd"], "x"),  # both complete at d; the longer one began first
    ("stop", ["stop"], ""),
    ("a\n\nb", ["\n\n"], "a"),
    ("ab", [], "ab"),
    ("", ["x"], ""),
]


@pytest.mark.parametrize(("text", "stops", "expected"), CASES)
def test_a_text_ends_at_its_first_stop_string_however_it_is_cut(text: str, stops: list[str], expected: str) -> None:
    for cuts in itertools.product([False, True], repeat=max(0, len(text) - 1)):
        places = [0, *(n + 1 for n, cut in enumerate(cuts) if cut), len(text)]
        pieces = [text[a:b] for a, b in itertools.pairwise(places)]
        assert "".join(until_stop(pieces, stops)) == expected


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    assert list(until_stop(["the li", "st", " is", " e", "mpty"], ["is empty"])) == ["the l", "ist", " "]
    assert list(until_stop(["the li", "st"], ["isle"])) == ["the l", "ist"]


def test_nothing_is_asked_for_after_the_stop() -> None:
    asked = iter(["a", "b.", "c"])
    assert "".join(until_stop(asked, ["."])) == "ab"
    assert list(asked) == ["c"]


def test_where_a_stop_begins() -> None:
    assert stop_at("one. two.", ["."]) == 3
    assert stop_at("one", ["."]) is None
