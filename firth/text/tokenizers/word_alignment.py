"""Words → the tokens of their sentence, and which token is the first of each word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer


class WordAligner:
    """Encodes each word as within a sentence, words separated by spaces, so that the pieces of all words are those of the
    sentence. An imported tokenizer puts its special tokens around them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, bool], tuple[Ids, int]] = {}
        self._spaced = not tokenizer.unseen(" ") or tokenizer.unknown is not None

    def __call__(self, words: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
        """The pieces, and the position of the first piece of each word."""
        pieces_of_words = [self._pieces(word, begins=n == 0) for n, word in enumerate(words)]
        before = len(self._tokenizer.begin) + np.cumsum([0, *(len(ids) for ids, _ in pieces_of_words[:-1])])
        pieces = self._tokenizer.surrounded(np.concatenate([ids for ids, _ in pieces_of_words]))
        return pieces, before + [offset for _, offset in pieces_of_words]

    def _pieces(self, word: str, *, begins: bool) -> tuple[Ids, int]:
        if (word, begins) not in self._known:
            self._known[word, begins] = self._encoded(word, begins)
        return self._known[word, begins]

    def _encoded(self, word: str, begins: bool) -> tuple[Ids, int]:
        tokenizer = self._tokenizer
        match tokenizer.spaces:
            case "dropped":
                ids = tokenizer.encode(word)
                # A word of nothing but unusual white space has no pieces, but still a tag.
                return (ids if len(ids) else np.array([tokenizer.unknown], tokenizer.dtype)), 0
            case "in the next token":
                return tokenizer.encode(word if begins else f" {word}"), 0
            case "tokens":
                spaced = self._spaced and not begins
                return tokenizer.encode(f" {word}" if spaced else word), int(spaced)
