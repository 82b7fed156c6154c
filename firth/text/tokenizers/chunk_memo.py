"""Encode much text quickly: every distinct chunk of it is encoded once, by the tokenizer, and looked up from then on.

A chunk is a newline, or white space with the word after it, as in " cat": see `lexicon`. No token of our own tokenizers reaches
across the border of two chunks, so that the tokens of a text are those of its chunks. Words repeat (Zipf's law), and a lookup is
several times faster than Hugging Face's tokenizers and than a Python dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.text.compilation import compiled_without_allocation
from firth.text.lexicon import BREAK, END, Lexicon
from firth.text.tokenizers.kind import EncodeChunks
from firth.text.tokenizers.special_tokens import Ids

_HELD = 1 << 20  # chunks; beyond that the memo starts again


class ChunkMemo:
    """Not thread-safe: each thread needs its own."""

    def __init__(self, encode_chunks: EncodeChunks, newline: Ids, eos: int | None, dtype: type[np.unsignedinteger[Any]]) -> None:
        self._encode_chunks, self._newline, self._dtype = encode_chunks, newline, dtype
        self._eos = np.array([] if eos is None else [eos], dtype)
        self._forget()

    def encode(self, texts: Sequence[tuple[str, bool]]) -> Ids:
        """The ids of all texts, each of them followed by <eos> where it is marked so."""
        if len(self._lexicon) > _HELD:
            self._forget()
        text = b"".join([text.encode("utf-8", "surrogatepass") + (END if ends else BREAK) for text, ends in texts])
        chunk_N, _ = self._lexicon.read(text, chunks=True)
        if len(self._lexicon) > len(self._start_W) - 1:
            self._learn(*self._encode_chunks(self._lexicon.words(len(self._start_W) - 1).lines()))
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
