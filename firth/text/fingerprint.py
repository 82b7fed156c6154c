"""SHA-256 of a data set, which a run keeps as `data.sha256`: resuming on other data is refused.

What is hashed must never change, otherwise old runs could not be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

_BETWEEN = b"\xff"  # after each text; no UTF-8 text contains it


def sha256_of_texts(records: Iterable[Iterable[str]], record_end: bytes = b"") -> str:
    """The texts of each record as UTF-8, a byte after each text and `record_end` after each record."""
    digest = hashlib.sha256()
    for record in records:
        for text in record:
            digest.update(text.encode("utf-8", "surrogatepass") + _BETWEEN)
        digest.update(record_end)
    return digest.hexdigest()


def sha256_of_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    """The numbers as little-endian bytes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
