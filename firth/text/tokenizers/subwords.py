"""Shared by the subword tokenizers of the Rust library: training on, and encoding, a text in many slices."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.readers.pieces import Piece, slices
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer_json import refusing

VOCAB = 4096  # the default
_SLICE = 1 << 14  # characters passed at a time: training buffers 256 slices, encoding distributes them over the cores

# The Rust threads of `tokenizers` do not survive a fork, and by default it warns about every fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.__setitem__("TOKENIZERS_PARALLELISM", "false"))


def sliced(pieces: Iterable[Piece]) -> Iterator[str]:
    return (part for piece in pieces for part in slices(piece.text, _SLICE))


def encoded(tokenizer: tokenizers.Tokenizer, text: str) -> Ids:
    try:
        text.encode()
    except UnicodeEncodeError as error:  # tokenizers would only raise TypeError
        raise DataError(f"the text holds {text[error.start]!r}, half of a surrogate pair. Remove it.") from error
    with refusing("the tokenizer cannot encode this text"):
        encodings = tokenizer.encode_batch_fast(list(slices(text, _SLICE)), add_special_tokens=False)
    ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
    return np.concatenate(ids) if ids else np.zeros(0, np.int32)


def encoded_chunks(tokenizer: tokenizers.Tokenizer, chunks: bytes) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of all chunks, and the number of ids of each: they are encoded as one text, in which a newline is always one and
    the same token."""
    ids = encoded(tokenizer, chunks.decode("utf-8", "surrogatepass"))
    (newline,) = encoded(tokenizer, "\n").tolist()
    ends = np.append(np.flatnonzero(ids == newline), len(ids))
    return ids[ids != newline], np.diff(ends, prepend=-1) - 1


def with_entries(tokenizer: tokenizers.Tokenizer, names: Sequence[str]) -> tokenizers.Tokenizer:
    """`names` as further entries of the vocabulary, in their order, which no merge or segmentation produces."""
    table = json.loads(tokenizer.to_str())
    vocabulary = table["model"]["vocab"]
    for name in names:
        if isinstance(vocabulary, list):  # a unigram model has scores, not ids
            vocabulary.append((name, min(score for _, score in vocabulary)))
        else:
            vocabulary.setdefault(name, len(vocabulary))
    return rebuilt(table)


def rebuilt(table: dict[str, Any]) -> tokenizers.Tokenizer:
    """The tokenizer of an edited tokenizer.json."""
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(table))
    assert isinstance(tokenizer, tokenizers.Tokenizer)
    return tokenizer
