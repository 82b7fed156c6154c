"""Finds what students handed in, and copies it where it is checked. Links, devices and large files are never read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firth.errors import DataError
from firth.experiments.assignments.report import plain_text

_MOST = 10_000  # submissions
_ENTRIES, _DEEPEST = 2000, 5  # files and folders of a submission, and how deep they are looked for
_HELPERS = 50  # Python files beside the one that is checked
LIMITS = {".py": 1_000_000, ".ipynb": 10_000_000}  # bytes
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".rar", ".7z")
_IGNORED = ("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini")
_LONGEST = 80  # characters of a name


class BadSubmission(Exception):
    """A submission that cannot be graded, with the reason for its student."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in."""

    student: str
    path: Path

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.path.lstat().st_mode)


def submissions_in(folder: Path) -> list[Submission]:
    """Every file and folder in it, by the name of the student."""
    try:
        paths = sorted(path for path in folder.iterdir() if not _is_ignored(path.name))
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror or error}. Give the folder with all submissions.") from error
    if not paths:
        raise DataError(f"{folder} is empty. Give the folder with all submissions.")
    if len(paths) > _MOST:
        raise DataError(f"{folder} has {len(paths):,} entries; expected at most {_MOST:,} submissions")
    short = [path.stem if not path.is_dir() else path.name for path in paths]
    names = [name if short.count(name) == 1 else path.name for name, path in zip(short, paths, strict=True)]
    return [Submission(plain_text(name)[:_LONGEST], path) for name, path in zip(names, paths, strict=True)]


def staged(submission: Submission, name: str, to: Path) -> Path:
    """A copy of the file to check, and of the Python files beside it, in the folder `to`."""
    chosen = _chosen(submission, name)
    if submission.is_folder:
        beside = (path for path in _entries(chosen.parent, 1) if path.suffix == ".py" and path != chosen and _is_plain(path))
        for number, path in enumerate(sorted(beside)):
            if number >= _HELPERS:
                raise BadSubmission(f"There are more than {_HELPERS} Python files beside {chosen.name}.")
            copy_plain(path, to / path.name, LIMITS[".py"])
    suffix = chosen.suffix.lower()
    place = to / (chosen.name if chosen.name.isascii() else f"{name}{suffix}")
    copy_plain(chosen, place, LIMITS[suffix])
    return place


def _chosen(submission: Submission, name: str) -> Path:
    """The file to check: the one with the name of the assignment, or else the only one."""
    path = submission.path
    if not submission.is_folder:
        _expect_suffix(path)
        return path
    found = [one for one in entries(path) if one.suffix.lower() in LIMITS]
    if not found:
        archives = [one.name for one in entries(path) if one.suffix.lower() in _ARCHIVES]
        packed = f" {archives[0]} is an archive: hand in the file itself." if archives else ""
        raise BadSubmission(f"There is no .py or .ipynb file.{packed}")
    named = [one for one in found if one.stem == name] or found
    if len(named) > 1:
        listed = ", ".join(sorted(str(one.relative_to(path)) for one in named)[:3])
        raise BadSubmission(f"Several files could be meant ({plain_text(listed)}). Hand in {name}{named[0].suffix} alone.")
    return named[0]


def _expect_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in _ARCHIVES:
        raise BadSubmission("It is an archive. Hand in the .py or .ipynb file itself.")
    if suffix not in LIMITS:
        raise BadSubmission("It is neither a .py nor an .ipynb file.")


def entries(folder: Path) -> list[Path]:
    """The files in a folder, and in the folders in it; no link is followed."""
    return list(_entries(folder, _DEEPEST))


def _entries(folder: Path, depth: int) -> Iterator[Path]:
    left, waiting = _ENTRIES, [(folder, depth)]
    while waiting:
        place, deeper = waiting.pop()
        try:
            with os.scandir(place) as listing:
                for entry in listing:
                    left -= 1
                    if left < 0:
                        raise BadSubmission(f"It has more than {_ENTRIES:,} files. Hand in the one that was asked for.")
                    if _is_ignored(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [(Path(entry.path), deeper - 1)] if deeper > 1 else []
                    else:
                        yield Path(entry.path)
        except OSError as error:
            raise BadSubmission(f"It cannot be read: {error.strerror or error}.") from error


def copy_plain(path: Path, to: Path, most: int) -> None:
    """Copy a plain file of at most `most` bytes, which is neither a link nor a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        reason = "is a link, not a file" if path.is_symlink() else f"cannot be read: {error.strerror or error}"
        raise BadSubmission(f"{plain_text(path.name)} {reason}.") from error
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise BadSubmission(f"{plain_text(path.name)} is not a plain file.")
        if facts.st_size > most:
            raise BadSubmission(f"{plain_text(path.name)} has {facts.st_size:,} bytes; at most {most:,} are allowed.")
        content = file.read(most + 1)
    if len(content) > most:
        raise BadSubmission(f"{plain_text(path.name)} has more than {most:,} bytes.")
    to.write_bytes(content)
    to.chmod(0o644)


def _is_plain(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _IGNORED
