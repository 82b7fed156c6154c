"""The cache folder: files that firth can recreate, such as token ids, scans of corpora, data sets and the docs corpus."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from firth import files
from firth.errors import DataError, RunError

_ABANDONED = 24 * 3600  # seconds after which a half-written file is taken for a leftover
_POLL = 0.05  # seconds between two attempts to take a lock
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def cache_folder() -> Path:
    """$FIRTH_CACHE, or the platform's cache folder of the user; created if absent."""
    folder = Path(os.environ.get("FIRTH_CACHE") or _platform_cache() / "firth").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error
    return folder


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """`files.replacing` for a file of the cache: errors mention FIRTH_CACHE.

    A half-written file here may belong to another process that is reading the same corpus, so `files.sweep`, which removes all
    of them, must not be used on this folder.
    """
    try:
        with files.replacing(path) as temporary:
            yield temporary
    except (RunError, OSError) as error:
        raise _unwritable(path.parent, str(error)) from error


def commit(temporary: Path, path: Path) -> None:
    """Durably rename a finished file, as `replacing` does."""
    try:
        files.commit(temporary, path)
    except OSError as error:
        raise _unwritable(path.parent, error.strerror or str(error)) from error


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turns an OSError while writing to `folder` into a DataError that mentions FIRTH_CACHE."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Only one process at a time is inside, for the same `path`; the others wait and call `waiting` every now and then. The lock
    ends with its process, whatever kills it."""
    with storing(path.parent):
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            if _acquired(descriptor) and _is(path, descriptor):
                break
            os.close(descriptor)  # held by another process, or removed by the one that held it
            waiting()
            time.sleep(_POLL)
    try:
        yield
    finally:
        if os.name == "nt":  # Windows cannot remove an open file
            os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if os.name != "nt":
            os.close(descriptor)


def _acquired(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # some network file systems: what two processes spoil is noticed by its hash
            raise
    return True


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sweep_abandoned(folder: Path) -> None:
    """Remove half-written files that have not changed for a day."""
    for left_over in folder.glob(files.TEMPORARY + "*"):
        with contextlib.suppress(OSError):  # another process may be sweeping too
            if time.time() - left_over.stat().st_mtime > _ABANDONED:
                left_over.unlink()


def _platform_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _unwritable(folder: Path, reason: str) -> DataError:
    return DataError(f"cannot write to the cache folder {folder} ({reason}). Set FIRTH_CACHE to a folder with space to write to.")
