"""Cache files with a checksum, which is verified once after each change of the file.

The folder `seals` of the cache holds, for each file, its hash, and the size, modification time and inode for which the hash last
matched. While these three stay the same, the file is not read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.files import sha256_of
from firth.text import cache
from firth.text.threads import cores, in_order

_BLOCK = 1 << 23  # bytes under one hash, of files without shards of their own
_READ = 1 << 20
SETTLED = 2.0  # seconds; a file younger than this could change again and keep its time stamp


def digest(data: bytes | memoryview) -> str:
    """BLAKE2b, 128 bits, which detects a flipped bit before training on it."""
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


def write_text(path: Path, text: str) -> None:
    """Write a file of the cache, with its seal."""
    cache.write_text(path, text)
    seal(path, hashlib.sha256(text.encode()).hexdigest())


def seal(path: Path, sha256: str) -> None:
    """Store the hash of a file that has just been written."""
    with contextlib.suppress(DataError):  # no space: the file will be created again next time
        note = _seal_of(path)
        cache.sweep_abandoned(note.parent)
        cache.write_text(note, json.dumps({"sha256": sha256, "state": _state(path)}))


def whole(path: Path, sha256: str | None = None) -> bool:
    """True if a cache file exists and is intact: its hash is `sha256`, or that of its seal. Warns about a damaged file, which the
    caller then creates again."""
    if not path.is_file():
        return False
    expected = sha256 or noted(path)
    if expected is None:
        return False  # written by a version without seals
    if matches(path, expected, lambda: sha256_of(path) == expected):
        return True
    tell_damaged(path)
    return False


def tell_damaged(path: Path) -> None:
    warnings.warn(f"{path} in the cache is damaged and will be created again", stacklevel=3)


def noted(path: Path) -> str | None:
    """The stored hash of a file."""
    sha256 = _noted(path).get("sha256")
    return sha256 if isinstance(sha256, str) else None


def matches(path: Path, expected: str, check: Callable[[], bool]) -> bool:
    """The result of `check()`, which compares the file with the hash `expected`. It is not called again until the file
    changes."""
    try:
        state, last = _state(path), _noted(path)
        if state is not None and last.get("sha256") == expected and last.get("state") == state:
            return True
        if not check():
            return False
    except OSError:
        return False
    if state is not None:
        seal(path, expected)
    return True


def _seal_of(path: Path) -> Path:
    folder = cache.cache_folder()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path.resolve())
    return folder / "seals" / f"{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _noted(path: Path) -> dict[str, Any]:
    try:
        seal = json.loads(_seal_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return seal if isinstance(seal, dict) else {}


def _state(path: Path) -> list[int] | None:
    """The state of a file; None if it is so new that it could change without a new modification time."""
    facts = path.stat()
    if time.time() - facts.st_mtime < SETTLED:
        return None
    return [facts.st_size, facts.st_mtime_ns, facts.st_ino]
