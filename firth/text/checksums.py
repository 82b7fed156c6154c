"""Hashes of cached files, which detect a flipped bit before training on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from firth.text.threads import cores, in_order

_BLOCK = 1 << 23  # bytes under one hash, of files without shards of their own
_READ = 1 << 20


def digest(data: bytes | memoryview) -> str:
    """BLAKE2b, 128 bits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digests(path: Path, ends: Iterable[int] | None = None) -> list[str]:
    """The hash of each part of a file; `ends` are where the parts end, in bytes. Several threads read and hash."""
    if ends is None:
        size = path.stat().st_size
        ends = [*range(_BLOCK, size, _BLOCK), size]
    stops = list(ends)

    def hashed(part: int) -> str:
        at, digest = stops[part - 1] if part else 0, hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            file.seek(at)
            while chunk := file.read(min(_READ, stops[part] - at)):
                digest.update(chunk)
                at += len(chunk)
        return digest.hexdigest()

    return list(in_order(hashed, range(len(stops)), cores()))
