"""The tokens of a subword tokenizer that form a word. Letters: B rows, T tokens, V vocabulary."""

from __future__ import annotations

import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.tokenizers.special_tokens import EOS, UNKNOWN, Ids
from firth.text.tokenizers.tokenizer import Tokenizer

_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")  # how Tokenizer.token spells bytes that are no text by themselves
# Scripts written without spaces: kana, Han. Their pieces are not joined; joined they would form whole clauses.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

_LIKE = (EOS, "\n", " ", "x", ".", "\u3042")  # a representative of each class; the members of a class begin and end words alike


def words_of(pieces: Sequence[str], *, merged: bool = True) -> tuple[list[str], list[int]]:
    """The words, and for each piece the number of its word. Pieces are tokens as spelled by `Tokenizer.token`.

    [" un", "able", ".", "<eos>"] → ["unable", ".", "<eos>"], [0, 0, 1, 2]: white space begins a word, and so does a change
    between letters and punctuation; <eos>, <unk> and a newline are words by themselves. With `merged` = False, for tokenizers of
    characters or words, each token is a word.
    """
    if not merged:
        return list(pieces), list(range(len(pieces)))
    words: list[str] = []
    numbers: list[int] = []
    before, waiting = "", 0
    for text in _texts(pieces):
        waiting += 1
        if not text:
            continue  # the piece that completes the character decides which word it belongs to
        if not words or _begins(before, text):
            words.append("")
        words[-1] += text
        numbers += [len(words) - 1] * waiting
        before, waiting = text, 0
    return [word.strip() or word for word in words], numbers


class WordStarts:
    """The beginnings of words, for many tokens at once. Whether a word begins between two tokens depends on the last character of
    one and the first of the other, which fall into a few classes: a table over pairs of classes is computed once.

    It agrees with `words_of`, except that bytes that are no text by themselves count as letters here. With a word tokenizer
    every token begins a word."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._words = tokenizer.whole_words
        tokens = [tokenizer.token(id) for id in range(tokenizer.vocab)]
        parts = [(token, token) if token in (EOS, UNKNOWN) else (token[0], token[-1]) for token in map(_no_bytes, tokens)]
        number = {like: n for n, like in enumerate(_LIKE)}
        self._start_V, self._end_V = (np.array([number[_like(part)] for part in ends]) for ends in zip(*parts, strict=True))
        self._table = np.array([[_begins(before, text) for text in _LIKE] for before in _LIKE])

    def __call__(self, token_BT: Ids) -> NDArray[np.bool_]:
        begins_BT = np.ones(token_BT.shape, np.bool_)
        if not self._words:
            begins_BT[:, 1:] = self._table[self._end_V[token_BT[:, :-1]], self._start_V[token_BT[:, 1:]]]
        return begins_BT


def _no_bytes(token: str) -> str:
    return "x" if _BYTES.fullmatch(token) else token


def _like(part: str) -> str:
    """The representative in _LIKE of a character, <eos> or <unk>."""
    if part in (EOS, UNKNOWN):
        return EOS
    if part.isspace():
        return "\n" if part == "\n" else " "
    return {"letters": "x", "punctuation": ".", "unspaced": "\u3042"}[_kind(part)]


def _texts(pieces: Sequence[str]) -> Iterator[str]:
    """The text that each piece completes: "" for bytes of a character that a later piece completes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, following in itertools.zip_longest(pieces, pieces[1:], fillvalue=""):
        if not piece:
            raise DataError("a piece of a word is empty; expected tokens as spelled by Tokenizer.token")
        if not _BYTES.fullmatch(piece):
            yield piece
        else:
            yield decoder.decode(bytes.fromhex(re.sub("<0x|>", "", piece)), final=not _BYTES.fullmatch(following))


def _begins(before: str, text: str) -> bool:
    """True if a word begins between the two."""
    if text[0].isspace() or before.endswith("\n") or {before, text} & {EOS, UNKNOWN}:
        return True
    if before[-1].isspace():
        return False  # the space already began the word
    kind = _kind(text[0])
    return kind != _kind(before[-1]) or kind == "unspaced"


def _kind(character: str) -> str:
    if _UNSPACED.match(character):
        return "unspaced"
    return "punctuation" if unicodedata.category(character)[0] in "PS" else "letters"
