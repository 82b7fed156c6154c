"""Files at a URL, such as s3://bucket/folder or hf://datasets/…, read as a stream through fsspec, without a copy."""

from __future__ import annotations

import glob
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from firth.errors import DataError

_Path: Any = type(Path())


def is_url(path: str) -> bool:
    return "://" in path


class RemoteFile(_Path):  # type: ignore[misc]
    """A remote file, with all that readers need of a Path."""

    def __init__(self, *parts: str) -> None:
        if _Path.__init__ is not object.__init__:  # since Python 3.12
            super().__init__(*parts)
        self.system: Any = None
        self.place = ""

    @classmethod
    def of(cls, system: Any, place: str) -> RemoteFile:
        file = cls(place)
        file.system, file.place = system, place
        return file

    def __str__(self) -> str:
        return str(self.system.unstrip_protocol(self.place))

    def open(self, *mode: Any) -> Any:
        try:
            return self.system.open(self.place, "rb")
        except Exception as error:  # each file system has its own
            raise DataError(f"cannot read {self}: {error}") from error

    def stat(self, **options: Any) -> Any:
        return SimpleNamespace(st_size=self.system.info(self.place).get("size") or 0, st_mtime_ns=0)

    def resolve(self, strict: bool = False) -> Any:
        """The URL and a mark of its version, by which a scan of this file is remembered."""
        return f"{self} {self.system.ukey(self.place)}"


def find_remote(url: str) -> list[Path]:
    """The file at a URL, the files below it, or those that match a pattern; sorted, hidden ones left out."""
    try:
        import fsspec
    except ImportError:
        raise DataError(f"{url} needs one more package: pip install fsspec") from None
    try:
        system, root = fsspec.core.url_to_fs(url)
        if glob.has_magic(root):
            places = [place for place in system.glob(root) if system.isfile(place)]
        elif system.isdir(root):
            places = [place for place in system.find(root) if not _hidden(place[len(root) :])]
        else:
            places = [root] if system.exists(root) else []
    except Exception as error:  # an unknown protocol, a package that is not installed, no permission, no network
        raise DataError(f"cannot read {url}: {error}") from error
    if not places:
        raise DataError(f"there is no file at {url}")
    return [RemoteFile.of(system, place) for place in sorted(places)]


def _hidden(place: str) -> bool:
    return any(name.startswith(".") for name in place.split("/"))
