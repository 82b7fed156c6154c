"""Files of the cache that are checked against the hash of what was written, once per change of the file.

The folder `seals` of the cache holds, for each of them, the hash, and the size, time and inode that the file had when the hash
last matched. As long as these three are the same, the file is not read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.files import sha256_of
from firth.text import cache

SETTLED = 2.0  # seconds; a file younger than this could change again and keep its time stamp


def write_text(path: Path, text: str) -> None:
    """Write a file of the cache, with its seal."""
    cache.write_text(path, text)
    seal(path, hashlib.sha256(text.encode()).hexdigest())


def seal(path: Path, sha256: str) -> None:
    """Remember the hash of a file that has just been written."""
    with contextlib.suppress(DataError):  # no space: then the file is made again the next time
        note = _seal_of(path)
        cache.sweep_abandoned(note.parent)
        cache.write_text(note, json.dumps({"sha256": sha256, "state": _state(path)}))


def whole(path: Path, sha256: str | None = None) -> bool:
    """Whether a file of the cache is there, and is what was written: its hash is `sha256`, or that of its seal. A damaged one is
    reported; whoever asks then makes it again."""
    if not path.is_file():
        return False
    expected = sha256 or noted(path)
    if expected is None:
        return False  # of a version without seals
    if matches(path, expected, lambda: sha256_of(path) == expected):
        return True
    tell_damaged(path)
    return False


def tell_damaged(path: Path) -> None:
    warnings.warn(f"{path} in the cache is damaged. It is made again.", stacklevel=3)


def noted(path: Path) -> str | None:
    """The hash of a file that was sealed."""
    found = _noted(path).get("sha256")
    return found if isinstance(found, str) else None


def matches(path: Path, expected: str, check: Callable[[], bool]) -> bool:
    """`check()`, a comparison of the file with the hash `expected`; not repeated while the file has not changed since it last
    held."""
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
        found = json.loads(_seal_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _state(path: Path) -> list[int] | None:
    """None for a file so new that its time says nothing."""
    found = path.stat()
    if time.time() - found.st_mtime < SETTLED:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ino]
