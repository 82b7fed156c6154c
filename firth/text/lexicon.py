"""Number the words or chunks of a text in order of first appearance and count them: a hash table over UTF-8, compiled by numba.

`Lexicon.read` assigns numbers while it counts, so that a text is read once: the caller stores the numbers and replaces them when
the counts are known. A *word* is a longest string without white space, as in str.split(). A *chunk* is what `pieces.cut` may cut
apart: a newline, or white space with the word after it, as in " cat"; the chunks of a text, joined, are the text.

Text is compared eight bytes at a time. Word w is the bytes arena[start : start + length], with the entry
entry_W4[w] = (its first eight bytes, start, hash·2³² + length, count). A slot of the table holds hash·2³² + w + 1, or 0 if it is
free.
Letters: W known words, A bytes of the words, S slots (a power of two), N bytes of text, Q groups of eight bytes.
"""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.text.compilation import compiled_without_allocation, inlined

Bytes = NDArray[np.uint8]
Groups = NDArray[np.uint64]
MISSING = 0xFFFFFFFF  # the number of a word that is not in a lexicon
BREAK, END = b"\xfe", b"\xff"  # always chunks by themselves; no UTF-8 text contains these bytes
_FIRST, _START, _TAG, _COUNT = 0, 1, 2, 3  # the columns of an entry
_NEWLINE, _SPACE, _BREAK = 10, 32, 0xFE
_MIX, _LOW, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF), np.uint64(32)
_ONES, _TOPS, _GRAPHIC = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080), np.uint64(0x2121212121212121)
_1, _3, _7, _56, _63 = (np.uint64(n) for n in (1, 3, 7, 56, 63))


@dataclass(frozen=True)
class CountedWords:
    """The words and counts of a finished lexicon."""

    arena_A: Bytes
    entry_W4: Groups

    @classmethod
    def of(cls, words: Iterable[str]) -> CountedWords:
        """These words with counts of 0."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        entry_W4 = np.zeros((len(encoded), 4), np.uint64)
        entry_W4[:, _TAG] = [len(word) for word in encoded]
        entry_W4[1:, _START] = np.cumsum(entry_W4[:-1, _TAG])
        made = cls(np.frombuffer(b"".join(encoded), np.uint8), entry_W4)
        _tag(made._padded().view(np.uint64), entry_W4)
        return made

    def __len__(self) -> int:
        return len(self.entry_W4)

    @property
    def count_W(self) -> NDArray[np.int64]:
        return self.entry_W4[:, _COUNT].astype(np.int64)

    def spelled(self, words: NDArray[np.int64] | None = None) -> list[str]:
        """These words as strings; all by default."""
        entries = self.entry_W4 if words is None else self.entry_W4[words]
        arena, starts = self.arena_A.tobytes(), entries[:, _START]
        ends = starts + (entries[:, _TAG] & _LOW)
        return [
            arena[start:end].decode("utf-8", "surrogatepass") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def selected(self, kept_W: NDArray[np.bool_]) -> CountedWords:
        return CountedWords(self.arena_A, self.entry_W4[kept_W])

    def lines(self) -> bytes:
        """All words, one per line."""
        joined_N = np.empty(int((self.entry_W4[:, _TAG] & _LOW).sum()) + max(len(self) - 1, 0), np.uint8)
        _join(self.arena_A, self.entry_W4, joined_N)
        return joined_N.tobytes()

    def _padded(self) -> Bytes:
        """The arena with room to read a group at its last byte."""
        arena_A = np.zeros((len(self.arena_A) // 8 + 2) * 8, np.uint8)
        arena_A[: len(self.arena_A)] = self.arena_A
        return arena_A

    def spilled(self, prefix: str) -> CountedWords:
        """A memory-mapped copy on disk, in files whose names begin with `prefix`."""
        arrays = []
        for field in ("arena_A", "entry_W4"):
            path = Path(f"{prefix}-{field}.npy")
            np.save(path, getattr(self, field))
            arrays.append(np.load(path, mmap_mode="r"))
        return CountedWords(*arrays)


class Lexicon:
    """`read` turns text into numbers and adds new words; `words` returns all words so far with their counts."""

    def __init__(self) -> None:
        self._slot_S = np.zeros(1 << 16, np.uint64)
        self._entry_W4 = np.zeros((1 << 15, 4), np.uint64)
        self._arena_A = np.zeros(1 << 18, np.uint8)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def read(self, text: bytes, *, chunks: bool = False) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The numbers of the words (or chunks) in `text`, and the number of words before each newline. The end of the text ends
        a word."""
        size = len(text)
        text_N = np.frombuffer(text + b" " * (24 - size % 8), np.uint8)  # whole groups, and one beyond that ends a last word
        ids_N = np.empty(size if chunks else size // 2 + 1, np.uint32)
        ends_N = np.empty(0 if chunks else text.count(b"\n"), np.int64)
        at = ids = ends = 0
        while True:
            at, ids, ends, self._known = _read(
                text_N, text_N.view(np.uint64), at, size, chunks, ids_N, ids, ends_N, ends,
                self._slot_S, self._arena_A, self._entry_W4, self._known,
            )  # fmt: skip
            if at == size:
                return ids_N[:ids], ends_N
            self._grow(size)

    def add(self, words: CountedWords, share: int = 0, shares: int = 1) -> None:
        """Add the words of another lexicon and their counts: those whose hash falls into this share."""
        word = 0
        while True:
            word, self._known = _add(
                words.arena_A, words.entry_W4, word, share, shares, self._slot_S, self._arena_A, self._entry_W4, self._known
            )
            if word == len(words):
                return
            self._grow(len(words.arena_A))

    def find(self, words: CountedWords) -> NDArray[np.uint32]:
        """The numbers of the words of another lexicon here, or MISSING."""
        id_W = np.empty(len(words), np.uint32)
        _find(words.arena_A, words.entry_W4, id_W, self._slot_S, self._arena_A, self._entry_W4)
        return id_W

    def words(self, first: int = 0) -> CountedWords:
        """All words, or those from number `first` on."""
        entry_W4 = self._entry_W4[first : self._known].copy()
        if not len(entry_W4):
            return CountedWords(np.zeros(0, np.uint8), entry_W4)
        start = int(entry_W4[0, _START])
        entry_W4[:, _START] -= np.uint64(start)
        return CountedWords(self._arena_A[start : self._used].copy(), entry_W4)

    @property
    def _used(self) -> int:
        """Bytes of the arena."""
        last_4 = self._entry_W4[self._known - 1]
        return int(last_4[_START] + (last_4[_TAG] & _LOW)) if self._known else 0

    def _grow(self, text: int) -> None:
        """Make room for twice as many words, and for the longest word that `text` bytes can hold."""
        used = self._used
        if used + text > len(self._arena_A):
            self._arena_A = _longer(self._arena_A, max(2 * len(self._arena_A), used + text))
        if self._known == len(self._entry_W4):
            self._entry_W4 = _longer(self._entry_W4, 2 * self._known)
            slot_S, self._slot_S = self._slot_S, np.zeros(2 * len(self._slot_S), np.uint64)
            _place(slot_S, self._slot_S)


def lexicon_of(words: Iterable[str]) -> Lexicon:
    """The words of a vocabulary, numbered by their ids."""
    lexicon = Lexicon()
    lexicon.add(CountedWords.of(words))
    return lexicon


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


@inlined
def _group(text_Q: Groups, at: int) -> np.uint64:
    """The eight bytes from byte `at` on, the first in the lowest bits."""
    shift = (np.uint64(at) & _7) << _3
    place = np.uint64(at) >> _3  # an unsigned index saves the test for a negative one
    return text_Q[place] >> shift | (text_Q[place + _1] << _1) << (_63 - shift)


@inlined
def _first_bytes(group: np.uint64, count: int) -> np.uint64:
    return group & ((_1 << (np.uint64(count) << _3)) - _1) if count < 8 else group


@inlined
def _mixed(hashed: np.uint64, group: np.uint64) -> np.uint64:
    product = (hashed ^ group) * _MIX
    return product ^ (product >> _HIGH)


@compiled_without_allocation
def _white(text_N: Bytes, at: int) -> int:
    """The number of bytes of the white space character at `at`, as in str.isspace(); 0 if it is another character."""
    byte = text_N[at]
    if byte < 0x80:
        return 1 if byte <= 32 and (byte == 32 or 9 <= byte <= 13 or byte >= 28) else 0
    if byte == 0xC2:  # U+0085, U+00A0
        return 2 if text_N[at + 1] == 0x85 or text_N[at + 1] == 0xA0 else 0
    if byte < 0xE1 or byte > 0xE3:
        return 0
    second, third = text_N[at + 1], text_N[at + 2]
    if byte == 0xE1:  # U+1680
        return 3 if second == 0x9A and third == 0x80 else 0
    if byte == 0xE3:  # U+3000
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x80:  # U+2000 – U+200A, U+2028, U+2029, U+202F
        return 3 if third <= 0x8A or third in (0xA8, 0xA9, 0xAF) else 0
    return 3 if second == 0x81 and third == 0x9F else 0  # U+205F


@compiled_without_allocation
def _white_before(text_N: Bytes, at: int) -> bool:
    """True if the character before byte `at`, which is not the first, is white space."""
    if text_N[at - 1] < 0x80:
        return text_N[at - 1] <= 32 and _white(text_N, at - 1) == 1
    return (at >= 2 and _white(text_N, at - 2) == 2) or (at >= 3 and _white(text_N, at - 3) == 3)


@inlined
def _ends(text_N: Bytes, at: int, chunks: bool) -> bool:
    """True if a word (or chunk) ends before byte `at`, which is not its first."""
    byte = text_N[np.uint64(at)]
    if not chunks:
        return byte == _SPACE or _white(text_N, at) > 0
    return byte == _NEWLINE or byte >= _BREAK or (byte == _SPACE and not _white_before(text_N, at))


@inlined
def _end(text_N: Bytes, text_Q: Groups, at: int, size: int, chunks: bool) -> int:
    """The end of the word (or chunk) that begins at byte `at`."""
    if chunks and (text_N[at] == _NEWLINE or text_N[at] >= _BREAK):
        return at + 1
    end = at
    while end < size:
        group = _group(text_Q, end)
        stops = ((group - _GRAPHIC) | group) & _TOPS  # the lowest bit set is that of the first byte that is no graphic ASCII
        if end == at:
            stops &= ~np.uint64(0xFF)
        if stops:
            before = ((((stops & (~stops + _1)) - _1) >> _7) & _ONES) * _ONES >> _56  # graphic bytes before it
            for byte in range(np.int64(before), 8):
                if end + byte >= size or _ends(text_N, end + byte, chunks):
                    return min(end + byte, size)
        end += 8
    return size


@inlined
def _tagged(text_Q: Groups, at: int, length: int) -> tuple[np.uint64, np.uint64]:
    """hash·2³² + length of a word, and its first eight bytes."""
    first = _first_bytes(_group(text_Q, at), length)
    mixed = _mixed(np.uint64(length), first)
    for done in range(8, length, 8):
        mixed = _mixed(mixed, _first_bytes(_group(text_Q, at + done), length - done))
    return (mixed ^ mixed << _HIGH) & ~_LOW | np.uint64(length), first


@compiled_without_allocation
def _same(text_N: Bytes, at: int, arena_A: Bytes, start: int, length: int) -> bool:
    for i in range(8, length):  # noqa: SIM110 (numba)
        if arena_A[start + i] != text_N[at + i]:
            return False
    return True


@inlined
def _slot_of(
    text_N: Bytes, at: int, tag: np.uint64, first: np.uint64, slot_S: Groups, arena_A: Bytes, entry_W4: Groups
) -> np.uint64:
    """The slot of a word, or the free one where it belongs."""
    mask = np.uint64(len(slot_S) - 1)
    length = np.int64(tag & _LOW)
    place = tag >> _HIGH & mask
    while slot_S[place]:
        if slot_S[place] >> _HIGH == tag >> _HIGH:
            word = (slot_S[place] & _LOW) - _1
            same = entry_W4[word, _FIRST] == first and entry_W4[word, _TAG] == tag
            if same and (length <= 8 or _same(text_N, at, arena_A, np.int64(entry_W4[word, _START]), length)):
                return place
        place = (place + _1) & mask
    return place


@inlined
def _insert(text_N: Bytes, at: int, tag: np.uint64, first: np.uint64, arena_A: Bytes, entry_W4: Groups, known: int) -> bool:
    """Append a word with count 0; False if there is no room for it."""
    length = np.int64(tag & _LOW)
    start = np.int64(entry_W4[known - 1, _START] + (entry_W4[known - 1, _TAG] & _LOW)) if known else 0
    if known == len(entry_W4) or start + length > len(arena_A):
        return False
    for i in range(length):
        arena_A[start + i] = text_N[at + i]
    entry_W4[known, _FIRST] = first
    entry_W4[known, _START] = start
    entry_W4[known, _TAG] = tag
    entry_W4[known, _COUNT] = 0
    return True


@compiled_without_allocation
def _read(
    text_N: Bytes,
    text_Q: Groups,
    at: int,
    size: int,
    chunks: bool,
    ids_N: NDArray[np.uint32],
    ids: int,
    ends_N: NDArray[np.int64],
    ends: int,
    slot_S: Groups,
    arena_A: Bytes,
    entry_W4: Groups,
    known: int,
) -> tuple[int, int, int, int]:
    """Read from byte `at` up to `size`, or until a new word does not fit. Returns that position and the new lengths."""
    while at < size:
        white = 0 if chunks or 32 < text_N[np.uint64(at)] < 0x80 else _white(text_N, at)
        if white:
            if text_N[at] == _NEWLINE:
                ends_N[ends] = ids
                ends += 1
            at += white
            continue
        end = _end(text_N, text_Q, at, size, chunks)
        tag, first = _tagged(text_Q, at, end - at)
        place = _slot_of(text_N, at, tag, first, slot_S, arena_A, entry_W4)
        if not slot_S[place]:
            if not _insert(text_N, at, tag, first, arena_A, entry_W4, known):
                return at, ids, ends, known
            known += 1
            slot_S[place] = tag & ~_LOW | np.uint64(known)
        word = (slot_S[place] & _LOW) - _1
        entry_W4[word, _COUNT] += _1
        ids_N[np.uint64(ids)] = word
        ids += 1
        at = end
    return at, ids, ends, known


@compiled_without_allocation
def _tag(text_Q: Groups, entry_W4: Groups) -> None:
    """Complete entries that have only a start and a length."""
    for word in range(len(entry_W4)):
        tag, first = _tagged(text_Q, np.int64(entry_W4[word, _START]), np.int64(entry_W4[word, _TAG]))
        entry_W4[word, _TAG], entry_W4[word, _FIRST] = tag, first


@compiled_without_allocation
def _join(arena_A: Bytes, entry_W4: Groups, joined_N: Bytes) -> None:
    """Copy the words, with a newline between two of them."""
    at = 0
    for word in range(len(entry_W4)):
        if word:
            joined_N[at] = _NEWLINE
            at += 1
        start = np.int64(entry_W4[word, _START])
        for place in range(start, start + np.int64(entry_W4[word, _TAG] & _LOW)):
            joined_N[at] = arena_A[place]
            at += 1


@compiled_without_allocation
def _add(
    added_A: Bytes,
    added_W4: Groups,
    word: int,
    share: int,
    shares: int,
    slot_S: Groups,
    arena_A: Bytes,
    entry_W4: Groups,
    known: int,
) -> tuple[int, int]:
    """Add the entries from `word` on, until one does not fit. Returns the first that is not added, and the new length."""
    while word < len(added_W4):
        tag, first, at = added_W4[word, _TAG], added_W4[word, _FIRST], np.int64(added_W4[word, _START])
        if (tag >> _HIGH) % np.uint64(shares) == np.uint64(share):
            place = _slot_of(added_A, at, tag, first, slot_S, arena_A, entry_W4)
            if not slot_S[place]:
                if not _insert(added_A, at, tag, first, arena_A, entry_W4, known):
                    break
                known += 1
                slot_S[place] = tag & ~_LOW | np.uint64(known)
            entry_W4[(slot_S[place] & _LOW) - _1, _COUNT] += added_W4[word, _COUNT]
        word += 1
    return word, known


@compiled_without_allocation
def _find(asked_A: Bytes, asked_W4: Groups, id_W: NDArray[np.uint32], slot_S: Groups, arena_A: Bytes, entry_W4: Groups) -> None:
    for word in range(len(asked_W4)):
        tag, first, at = asked_W4[word, _TAG], asked_W4[word, _FIRST], np.int64(asked_W4[word, _START])
        place = _slot_of(asked_A, at, tag, first, slot_S, arena_A, entry_W4)
        id_W[word] = (slot_S[place] & _LOW) - _1 if slot_S[place] else MISSING


@compiled_without_allocation
def _place(old_S: Groups, slot_S: Groups) -> None:
    """Insert the words of a full table into a larger one, which is empty."""
    mask = np.uint64(len(slot_S) - 1)
    for slot in old_S:
        place = (slot >> _HIGH) & mask
        while slot and slot_S[place]:
            place = (place + _1) & mask
        if slot:
            slot_S[place] = slot


@compiled_without_allocation
def rename(raw_N: NDArray[np.uint32], id_W: NDArray[np.uint32], ids_N: NDArray[np.uint32], ends_L: NDArray[np.int64]) -> int:
    """Replace numbers by ids, leave out words that are MISSING, and correct the ends of lines. Returns how many words remain."""
    kept = line = 0
    for n in range(len(raw_N)):
        while line < len(ends_L) and ends_L[line] <= n:
            ends_L[line] = kept
            line += 1
        id = id_W[raw_N[n]]
        ids_N[kept] = id
        kept += id != MISSING
    while line < len(ends_L):
        ends_L[line] = kept
        line += 1
    return kept
