"""Limits on files from outside, all in one place.

FIRTH_LIMITS changes some of them for one process: FIRTH_LIMITS="ratio=2000,files=5000000".
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, fields, replace
from pathlib import Path

from firth.errors import ConfigError, DataError, did_you_mean

_ENVIRONMENT = "FIRTH_LIMITS"
_SHOWN = 60  # characters of a name in a message
_RESERVE = 1 << 30  # bytes of the disk that copies of pipes leave free, …
_PART = 20  # … or one part in this many of a small disk
_OF_THE_SYSTEM = tuple(Path(name) for name in ("/proc", "/sys", "/dev"))  # except /dev/shm, which may hold text


@dataclass(frozen=True)
class FileLimits:
    ratio: int = 250  # decompressed bytes per compressed byte, beyond the first `small` bytes
    small: int = 64 << 20
    bytes: int = 1 << 40  # in one file, decompressed
    line: int = 256 << 20  # characters in a line, and in a file that is parsed as a whole
    files: int = 1_000_000  # text files in a folder, and ten times as many of other kinds, which are skipped

    def check_size(self, path: Path, read: int, given: int) -> None:
        """`given` bytes have come out of the first `read` bytes of a compressed file."""
        if given > self.small and given > self.ratio * max(read, 1):
            raise DataError(
                f"{shortened(path)} holds over {given >> 20:,} MB in {read / 1e6:,.1f} MB, more than {self.ratio} times its own "
                f"size. If you trust it, set {_ENVIRONMENT}=ratio={10 * self.ratio}."
            )
        if given > self.bytes:
            raise DataError(f"{shortened(path)} holds over {self.bytes >> 30:,} GB. Split it, or raise {_ENVIRONMENT}=bytes=….")

    def check_line(self, path: Path, length: int, what: str = "a line") -> None:
        if length > self.line:
            raise DataError(
                f"{shortened(path)} has {what} of over {self.line >> 20:,} million characters. Is it the right format? "
                f"If it is, raise {_ENVIRONMENT}=line=…."
            )

    def check_files(self, folder: Path, texts: int, seen: int) -> None:
        if texts > self.files or seen > 10 * self.files:
            what = f"{self.files:,} files of text" if texts > self.files else f"{10 * self.files:,} files"
            raise DataError(
                f"{shortened(folder)} holds more than {what}. Choose a smaller folder, or raise {_ENVIRONMENT}=files=…."
            )


def limits() -> FileLimits:
    """The defaults, changed by FIRTH_LIMITS."""
    given = os.environ.get(_ENVIRONMENT)
    if not given:
        return FileLimits()
    names = [field.name for field in fields(FileLimits)]
    changed: dict[str, int] = {}
    for pair in given.split(","):
        name, _, number = (part.strip() for part in pair.partition("="))
        if name not in names:
            raise ConfigError(f'{_ENVIRONMENT} has "{name}".{did_you_mean(name, names)}')
        if not number.isdecimal() or not 0 < len(number) < 19 or not int(number):
            raise ConfigError(f'{_ENVIRONMENT} has {name}="{number[:_SHOWN]}"; expected a whole number above 0')
        changed[name] = int(number)
    return replace(FileLimits(), **changed)


def expect_text_file(path: Path) -> None:
    """Refuse anything but a file, a folder or a pipe, and files of the operating system."""
    mode = path.stat().st_mode
    kind = next((name for test, name in _KINDS if test(mode)), None)
    if kind is not None:
        raise DataError(f"{shortened(path)} is {kind}, which has no end or no text. Choose a file, a folder or a pipe.")
    place = path.resolve()
    own = place in (Path(place.anchor), *_OF_THE_SYSTEM) or any(folder in place.parents for folder in _OF_THE_SYSTEM[:2])
    if own and not stat.S_ISFIFO(mode):
        raise DataError(f"{shortened(path)} belongs to the system. Choose the file or folder that holds your text.")


_KINDS = ((stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"), (stat.S_ISSOCK, "a socket"))


def expect_space(folder: Path) -> None:
    """Refuse to fill the disk with the copy of a pipe, which may never end."""
    usage = os.statvfs(folder) if hasattr(os, "statvfs") else None
    if usage is not None and usage.f_bavail * usage.f_frsize < min(_RESERVE, usage.f_blocks * usage.f_frsize // _PART):
        raise DataError(
            f"the text of the pipe does not fit on the disk of {folder}. Set FIRTH_CACHE to a folder with more space, "
            "or give the text as a file."
        )


def shortened(name: object) -> str:
    """A name for a message, truncated: a text given in place of a path may be long."""
    text = str(name)
    return text if len(text) <= 4 * _SHOWN else f"{text[:_SHOWN]}…"
