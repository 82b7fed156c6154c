"""From pieces of words to words: the tokens of a subword tokenizer, and attention between them. Letters: T target, S source."""

from __future__ import annotations

import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.text.special import EOS, UNKNOWN

_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")  # how Tokenizer.token writes bytes that are no text by themselves
# Scripts written without spaces: kana, Han. Their pieces stay as they are; joined they would be whole clauses.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def words_of(pieces: Sequence[str], *, merged: bool = True) -> tuple[list[str], list[int]]:
    """The words, and for each piece the number of its word. Pieces are tokens as `Tokenizer.token` writes them.

    [" un", "able", ".", "<eos>"] → ["unable", ".", "<eos>"], [0, 0, 1, 2]: white space begins a word, and so does a change
    between letters and punctuation; <eos>, <unk> and a newline are words by themselves. `merged` is False for tokenizers whose
    tokens are no pieces of words but characters, or words already: each then is a word.
    """
    if not merged:
        return list(pieces), list(range(len(pieces)))
    words: list[str] = []
    numbers: list[int] = []
    before, waiting = "", 0
    for text in _texts(pieces):
        waiting += 1
        if not text:
            continue  # which word it belongs to is told by the piece that completes its character
        if not words or _begins(before, text):
            words.append("")
        words[-1] += text
        numbers += [len(words) - 1] * waiting
        before, waiting = text, 0
    return [word.strip() or word for word in words], numbers


def merge(weights_TS: npt.ArrayLike, rows: Sequence[int], columns: Sequence[int]) -> npt.NDArray[np.float64]:
    """α between words from α between pieces; rows[t] and columns[s] are the numbers of the words they belong to, from 0.

    A_ij = 1/|i| Σ_{t∈i} Σ_{s∈j} α_ts: what a word takes from another is the sum over the other's pieces, averaged over its own.
    Rows that sum to 1 still do. There may be axes before T and S, as of layers and heads.
    """
    alpha_TS = np.asarray(weights_TS, np.float64)
    if alpha_TS.shape[-2:] != (len(rows), len(columns)):
        raise DataError(
            f"weights of shape {alpha_TS.shape} but {len(rows)} pieces of target and {len(columns)} of source words; "
            "pass a word number for each token the model saw, specials included"
        )
    member_iT, member_jS = _membership(rows), _membership(columns)
    merged: npt.NDArray[np.float64] = (member_iT / member_iT.sum(-1, keepdims=True)) @ alpha_TS @ member_jS.T
    return merged


def _membership(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
    """1 where the piece of the column belongs to the word of the row."""
    words = sorted(set(numbers))
    if words != list(range(len(words))):
        raise DataError(f"the word numbers are {words}; expected 0, 1, 2 … with none left out, as words_of gives them")
    member_iT: npt.NDArray[np.float64] = np.eye(len(words))[:, list(numbers)]
    return member_iT


def _texts(pieces: Sequence[str]) -> Iterator[str]:
    """The text that is certain after each piece: "" for bytes of a character that a later piece completes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, following in itertools.zip_longest(pieces, pieces[1:], fillvalue=""):
        if not piece:
            raise DataError("a piece of a word is empty; expected each token as Tokenizer.token writes it")
        if not _BYTES.fullmatch(piece):
            yield piece
        else:
            yield decoder.decode(bytes.fromhex(re.sub("<0x|>", "", piece)), final=not _BYTES.fullmatch(following))


def _begins(before: str, text: str) -> bool:
    """Whether a word begins between the two."""
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
