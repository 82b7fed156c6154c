"""Encode much text quickly: every distinct chunk of it is encoded once, by the tokenizer, and looked up from then on.

A chunk is a newline, or white space with the word after it, as in " cat": see `lexicon`. No token of our own tokenizers reaches
across the border of two chunks, so that the tokens of a text are those of its chunks. Words repeat (Zipf's law), and a lookup is
several times faster than Hugging Face's tokenizers and than a Python dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.text.compilation import compiled_without_allocation
from firth.text.lexicon import BREAK, END, MISSING, CountedWords, Lexicon
from firth.text.tokenizers.kind import EncodeChunks
from firth.text.tokenizers.special_tokens import Ids

_HELD = 1 << 20  # chunks; beyond that the memo starts again


class SharedChunks:
    """The ids of chunks that some thread has met: no other has to encode them again."""

    _lexicon: Lexicon
    _start_W: NDArray[np.int64]
    _id_A: NDArray[np.uint32]

    def __init__(self, encode_chunks: EncodeChunks) -> None:
        self._encode_chunks, self._lock = encode_chunks, Lock()
        self._forget()

    def encode(self, words: CountedWords) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of these chunks one after the other, and the number of ids of each."""
        with self._lock:
            place_W, start_W, id_A = self._lexicon.find(words), self._start_W, self._id_A  # these two grow, or are replaced
        new_W = place_W == MISSING
        added = words.selected(new_W)
        new_A, length_N = np.zeros(0, np.uint32), np.zeros(0, np.int64)
        if len(added):
            found_A, length_N = self._encode_chunks(added.lines())
            new_A = found_A.astype(np.uint32)
            self._add(added, new_A, length_N)
        known_W = np.where(new_W, 0, place_W)
        length_W = start_W[known_W + 1] - start_W[known_W]
        length_W[new_W] = length_N
        ids = np.empty(int(length_W.sum()), np.uint32)
        _merge(place_W, start_W, id_A, new_A, length_W, ids)
        return ids, length_W

    def _add(self, words: CountedWords, id_A: Ids, length_W: NDArray[np.int64]) -> None:
        with self._lock:
            if len(self._lexicon) > _HELD:
                self._forget()
            fresh_W = self._lexicon.find(words) == MISSING  # another thread may have been faster
            known = len(self._lexicon)
            self._lexicon.add(words.selected(fresh_W))
            first = int(self._start_W[known])
            self._start_W = _with(self._start_W, known + 1, first + np.cumsum(length_W[fresh_W]))
            self._id_A = _with(self._id_A, first, id_A[np.repeat(fresh_W, length_W)])

    def _forget(self) -> None:
        self._lexicon = Lexicon()
        self._start_W, self._id_A = np.zeros(2, np.int64), np.zeros(1, np.uint32)


def _with(array: NDArray[Any], used: int, added: NDArray[Any]) -> NDArray[Any]:
    """The array with `added` after its first `used` numbers; a longer copy where there is no room."""
    if used + len(added) > len(array):
        array = np.concatenate((array, np.zeros(max(len(array), len(added)), array.dtype)))
    array[used : used + len(added)] = added
    return array


class ChunkMemo:
    """Not thread-safe: each thread needs its own."""

    def __init__(self, shared: SharedChunks, newline: Ids, eos: int | None, dtype: type[np.unsignedinteger[Any]]) -> None:
        self._shared, self._newline, self._dtype = shared, newline, dtype
        self._eos = np.array([] if eos is None else [eos], dtype)
        self._forget()

    def encode(self, texts: Sequence[tuple[str, bool]]) -> Ids:
        """The ids of all texts, each of them followed by <eos> where it is marked so."""
        if len(self._lexicon) > _HELD:
            self._forget()
        text = b"".join([text.encode("utf-8", "surrogatepass") + (END if ends else BREAK) for text, ends in texts])
        chunk_N, _ = self._lexicon.read(text, chunks=True)
        if len(self._lexicon) > len(self._start_W) - 1:
            self._learn(*self._shared.encode(self._lexicon.words(len(self._start_W) - 1)))
        ids = np.empty(_length(chunk_N, self._start_W), self._dtype)
        _spell(chunk_N, self._start_W, self._id_A, ids)
        return ids

    def _forget(self) -> None:
        self._lexicon = Lexicon()
        self._lexicon.read(BREAK + END + b"\n", chunks=True)  # chunks 0, 1 and 2
        self._start_W, self._id_A = np.zeros(1, np.int64), np.zeros(0, self._dtype)
        self._learn(np.concatenate((self._eos, self._newline)), np.array([0, len(self._eos), len(self._newline)]))

    def _learn(self, id_A: Ids, length_W: NDArray[np.int64]) -> None:
        self._start_W = np.concatenate((self._start_W, self._start_W[-1] + np.cumsum(length_W)))
        self._id_A = np.concatenate((self._id_A, id_A.astype(self._dtype)))


@compiled_without_allocation
def _merge(
    place_W: NDArray[np.uint32], start_W: NDArray[np.int64], id_A: Ids, new_A: Ids, length_W: NDArray[np.int64], ids_N: Ids
) -> None:
    """The ids of known chunks, from `id_A`, and of new ones, from `new_A`, in the order of the chunks."""
    at = new = 0
    for word in range(len(place_W)):
        for n in range(length_W[word]):
            ids_N[at + n] = new_A[new + n] if place_W[word] == MISSING else id_A[start_W[place_W[word]] + n]
        new += length_W[word] if place_W[word] == MISSING else 0
        at += length_W[word]


@compiled_without_allocation
def _length(chunk_N: NDArray[np.uint32], start_W: NDArray[np.int64]) -> int:
    length = 0
    for chunk in chunk_N:
        length += start_W[chunk + 1] - start_W[chunk]
    return length


@compiled_without_allocation
def _spell(chunk_N: NDArray[np.uint32], start_W: NDArray[np.int64], id_A: Ids, ids_N: Ids) -> None:
    """Write the ids of the chunks one after the other."""
    at = 0
    for chunk in chunk_N:
        for place in range(start_W[chunk], start_W[chunk + 1]):
            ids_N[at] = id_A[place]
            at += 1
