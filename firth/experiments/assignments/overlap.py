"""How much of a hidden text stands in a training text.

Both are reduced to their letters and digits without case, so that white space, punctuation and line breaks do not hide a copy.
A piece is a window of 40 of these characters; the hashes Σ_j c_{i+j} B^j modulo 2⁶⁴ of all windows come from cumulative sums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firth.errors import DataError

LARGEST = 1 << 28  # bytes of a text
WINDOW = 40  # letters and digits
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2⁶⁴
_INVERSE = pow(_BASE, -1, 1 << 64)
_CHUNK = 1 << 20  # characters at once
_KEPT = re.compile(r"[\W_]+")

Hashes = npt.NDArray[np.uint64]


def overlap(training: Path, hidden: Path) -> float:
    """The share of the pieces of the hidden text that also stand in the training text."""
    wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *_hashes(hidden)]))
    if len(wanted) == 0:
        raise DataError(f"{hidden} has fewer than {WINDOW} letters and digits. Give a longer hidden text.")
    found = np.zeros(len(wanted), bool)
    for hashes in _hashes(training):
        place = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        found[place[wanted[place] == hashes]] = True
    return float(found.mean())


def expect_apart(training: Path, hidden: Path, most: float) -> None:
    share = overlap(training, hidden)
    if share > most:
        raise DataError(f"the training text contains {share:.0%} of the hidden text; at most {most:.0%} are allowed")


def _hashes(path: Path) -> Iterator[Hashes]:
    """The hashes of all windows, chunk by chunk."""
    kept = ""
    for text in _chunks(path):
        kept += _KEPT.sub("", text.casefold())
        if len(kept) >= WINDOW:
            yield _window_hashes(kept)
            kept = kept[-(WINDOW - 1) :]


def _chunks(path: Path) -> Iterator[str]:
    size = path.stat().st_size
    if size > LARGEST:
        raise DataError(f"{path.name} has {size:,} bytes; a text has at most {LARGEST:,}")
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        while text := file.read(_CHUNK):
            yield text


def _window_hashes(text: str) -> Hashes:
    codes = np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32).astype(np.uint64)
    powers, inverses = _powers(_BASE, len(codes)), _powers(_INVERSE, len(codes))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes * powers, dtype=np.uint64)])
    starts = len(codes) - WINDOW + 1
    hashes: Hashes = (sums[WINDOW:] - sums[:starts]) * inverses[:starts]
    return hashes


def _powers(base: int, count: int) -> Hashes:
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
