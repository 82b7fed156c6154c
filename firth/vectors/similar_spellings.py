"""Suggest similarly spelled words for an unknown word; fast for vocabularies of half a million words."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

_COMPARED = 2000  # words with the same prefix to compare letter by letter, the most frequent ones
_ALPHABET_FROM = 1000  # words whose letters are tried as replacements


def near_spellings(word: str, words: Sequence[str], index: Mapping[str, int], limit: int = 3) -> list[str]:
    """Up to `limit` words of the vocabulary, likeliest first: different case, then one edit away, then the same prefix.

    Within each group, words keep the order of `words`, which is by frequency in every trained file."""
    spellings = [other for other in dict.fromkeys((word.lower(), word.capitalize(), word.upper())) if other in index]
    spellings += sorted(
        (other for other in set(_one_edit(word, _alphabet(word, words))) if other in index), key=index.__getitem__
    )
    if len(spellings) < limit:
        spellings += difflib.get_close_matches(word, list(islice(_begin_alike(word, words), _COMPARED)), n=limit, cutoff=0.7)
    return list(dict.fromkeys(other for other in spellings if other != word))[:limit]


def _alphabet(word: str, words: Sequence[str]) -> set[str]:
    return set(word).union(*words[:_ALPHABET_FROM])


def _one_edit(word: str, alphabet: set[str]) -> Iterator[str]:
    """All strings one deletion, transposition, replacement or insertion away."""
    if len(word) > 40:  # most likely a file name
        return
    for n in range(len(word) + 1):
        left, right = word[:n], word[n:]
        if right:
            yield left + right[1:]
        if len(right) > 1:
            yield left + right[1] + right[0] + right[2:]
        for letter in alphabet:
            yield left + letter + right[1:]
            yield left + letter + right


def _begin_alike(word: str, words: Sequence[str]) -> Iterator[str]:
    shortest, longest, start = len(word) - 2, len(word) + 2, word[:2]
    return (other for other in words if shortest <= len(other) <= longest and other.startswith(start))
