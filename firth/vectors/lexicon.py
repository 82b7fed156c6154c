"""Number words in order of first appearance and count them: a hash table over UTF-8 bytes, compiled with numba.

This is several times faster than a Python dict. The table assigns ids while it counts, so the text is read once: the caller
stores the ids and renumbers them when the counts are known.

Word w is the bytes arena[start[w] : start[w + 1]]; a slot of the table holds hash·2³² + w + 1, or 0 if it is free.
Letters: W known words, A bytes of the words, S slots (a power of two), N bytes of text.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.vectors.kernels.compilation import compiled

Bytes = NDArray[np.uint8]
_WIDE_SPACE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")  # the non-ASCII white space of str.split
_NEWLINE = 10
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # Fowler, Noll and Vo's hash, 64 bits
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(32)


def to_bytes(text: str) -> bytes:
    """`text` as UTF-8, with all white space replaced by ASCII white space."""
    return (text if text.isascii() else _WIDE_SPACE.sub(" ", text)).encode()


@dataclass(frozen=True)
class Words:
    """The words and counts of a finished lexicon."""

    arena_A: Bytes
    start_W: NDArray[np.int64]  # W + 1 entries
    count_W: NDArray[np.int64]
    hash_W: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.count_W)

    def spelled(self) -> list[str]:
        """All words as strings, in order."""
        arena, start_W = self.arena_A.tobytes(), self.start_W.tolist()
        return [arena[start:end].decode() for start, end in itertools.pairwise(start_W)]

    def spilled(self, prefix: str) -> Words:
        """A memory-mapped copy on disk, in files whose names begin with `prefix`."""
        arrays = []
        for field in ("arena_A", "start_W", "count_W", "hash_W"):
            path = Path(f"{prefix}-{field}.npy")
            np.save(path, getattr(self, field))
            arrays.append(np.load(path, mmap_mode="r"))
        return Words(*arrays)


class Lexicon:
    """`read` turns text into ids and adds new words; `words` returns all words so far with their counts."""

    def __init__(self) -> None:
        self._slot_S = np.zeros(1 << 16, np.uint64)
        self._start_W = np.zeros((1 << 15) + 1, np.int64)
        self._count_W = np.zeros(1 << 15, np.int64)
        self._hash_W = np.zeros(1 << 15, np.uint32)
        self._arena_A = np.zeros(1 << 18, np.uint8)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def read(self, text: bytes) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of the words in `text`, and the number of words before each newline. The end of the text ends a word."""
        text_N = np.frombuffer(text, np.uint8)
        ids_N, ends_N = np.empty(len(text_N) // 2 + 1, np.uint32), np.empty(text.count(b"\n"), np.int64)
        at = ids = ends = 0
        while True:
            at, ids, ends, self._known = _read(
                text_N, at, ids_N, ids, ends_N, ends,
                self._slot_S, self._arena_A, self._start_W, self._count_W, self._hash_W, self._known,
            )  # fmt: skip
            if at == len(text_N):
                return ids_N[:ids], ends_N
            self._grow(len(text_N))

    def words(self) -> Words:
        known = self._known
        start_W = self._start_W[: known + 1].copy()
        return Words(self._arena_A[: start_W[-1]].copy(), start_W, self._count_W[:known].copy(), self._hash_W[:known].copy())

    def _grow(self, text: int) -> None:
        """Make room for twice as many words, and for the longest word that `text` bytes can hold."""
        used = int(self._start_W[self._known])
        if used + text > len(self._arena_A):
            self._arena_A = _longer(self._arena_A, max(2 * len(self._arena_A), used + text))
        if self._known == len(self._count_W):
            self._start_W = _longer(self._start_W, 2 * self._known + 1)
            self._count_W = _longer(self._count_W, 2 * self._known)
            self._hash_W = _longer(self._hash_W, 2 * self._known)
            self._slot_S = np.zeros(2 * len(self._slot_S), np.uint64)
            _place(self._slot_S, self._hash_W, self._known)


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer


@compiled
def _is_space(byte: int) -> bool:
    """ASCII white space as in str.split(): tab to carriage return, the four separators, space."""
    return byte <= 32 and (byte == 32 or 9 <= byte <= 13 or byte >= 28)


@compiled
def _read(
    text_N: Bytes,
    at: int,
    ids_N: NDArray[np.uint32],
    ids: int,
    ends_N: NDArray[np.int64],
    ends: int,
    slot_S: NDArray[np.uint64],
    arena_A: Bytes,
    start_W: NDArray[np.int64],
    count_W: NDArray[np.int64],
    hash_W: NDArray[np.uint32],
    known: int,
) -> tuple[int, int, int, int]:
    """Read from byte `at` to the end, or until a new word does not fit. Returns that position and the new lengths."""
    mask = len(slot_S) - 1
    while at < len(text_N):
        if _is_space(text_N[at]):
            if text_N[at] == _NEWLINE:
                ends_N[ends] = ids
                ends += 1
            at += 1
            continue
        end, mixed = at, _FNV_START
        while end < len(text_N) and not _is_space(text_N[end]):
            mixed = (mixed ^ np.uint64(text_N[end])) * _FNV_PRIME
            end += 1
        hashed = (mixed ^ (mixed >> _HIGH)) & _LOW
        length, place = end - at, int(hashed) & mask
        word = -1
        while slot_S[place]:
            if slot_S[place] >> _HIGH == hashed:
                word = int(slot_S[place] & _LOW) - 1
                start = start_W[word]
                same = start_W[word + 1] - start == length
                for i in range(length if same else 0):
                    if arena_A[start + i] != text_N[at + i]:
                        same = False
                        break
                if same:
                    break
                word = -1
            place = (place + 1) & mask
        if word < 0:
            start = start_W[known]
            if known == len(count_W) or start + length > len(arena_A):
                return at, ids, ends, known
            word = known
            for i in range(length):
                arena_A[start + i] = text_N[at + i]
            known += 1
            start_W[known] = start + length
            hash_W[word] = np.uint32(hashed)
            slot_S[place] = (hashed << _HIGH) | np.uint64(known)
        count_W[word] += 1
        ids_N[ids] = word
        ids += 1
        at = end
    return at, ids, ends, known


@compiled
def _place(slot_S: NDArray[np.uint64], hash_W: NDArray[np.uint32], known: int) -> None:
    """Insert the known words into an empty table."""
    mask = len(slot_S) - 1
    for word in range(known):
        hashed = np.uint64(hash_W[word])
        place = int(hashed) & mask
        while slot_S[place]:
            place = (place + 1) & mask
        slot_S[place] = (hashed << _HIGH) | np.uint64(word + 1)
