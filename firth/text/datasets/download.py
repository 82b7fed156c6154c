"""Named data sets on this machine: from the cache, from a mirror (FIRTH_DATA), or, when asked to, from their source.

What stands under its own name in the cache is whole and checked. A transfer that breaks off waits in a hidden file for the
next call, which asks the server for the rest only; what turns out wrong is thrown away at once.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import json
import lzma
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, cast

from firth.errors import DataError
from firth.files import TEMPORARY, sha256_of
from firth.progress import Progress, silent
from firth.text.batches import cache
from firth.text.datasets.catalog import DataSet, File, Packing, data_set
from firth.version import __version__

State = Literal["cached", "mirror", "absent"]

TRIES = 5  # transfers of one file before we give up on a connection that keeps breaking off
PAUSE = 1.0  # seconds before the second try; each further one waits a second longer
TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16
_TELL_EVERY = 0.2  # seconds
_MIRROR_SUFFIXES: tuple[tuple[str, Packing | Literal["xz"]], ...] = (("", "plain"), (".xz", "xz"), (".gz", "gz"))


def get(name: str, progress: Progress = silent) -> Path:
    """The folder of a data set, its files brought from the mirror or downloaded where they are not in the cache yet."""
    return _bring(data_set(name), progress, may_download=True)


def local(name: str, progress: Progress = silent) -> Path:
    """Like `get`, but never touches the network: an error that says how to get the data instead."""
    return _bring(data_set(name), progress, may_download=False)


def state(entry: DataSet) -> State:
    """Where the set is, by names and sizes alone; nothing is read, written or downloaded."""
    with contextlib.suppress(DataError):
        folder = _folder(entry)
        if all(_there(folder / file.name, file) for file in entry.files):
            return "cached"
    with contextlib.suppress(DataError):
        mirror = mirror_folder()
        if mirror is not None and all(_in_mirror(mirror / entry.name, file) for file in entry.files):
            return "mirror"
    return "absent"


def mirror_folder() -> Path | None:
    """$FIRTH_DATA: a folder per data set, with its files plain, .xz or .gz. Where it is set, nothing is downloaded."""
    given = os.environ.get("FIRTH_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DataError(f"FIRTH_DATA is {given}, which is not a folder; correct it, or unset it to download")
    return folder


def _bring(entry: DataSet, progress: Progress, may_download: bool) -> Path:
    folder = _folder(entry)
    missing = [file for file in entry.files if not _whole(folder / file.name, file)]
    if not missing:
        return folder
    mirror = mirror_folder()
    if mirror is None and not may_download:
        damaged = [file.name for file in missing if (folder / file.name).exists()]
        how = "damaged in the cache" if damaged else "not on this machine"
        raise DataError(f"{entry.name} is {how}; get it with: firth data get {entry.name}")
    with _storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    cache.sweep_abandoned(folder)
    if mirror is None:
        _from_source(entry, missing, folder, progress)
    else:
        _from_mirror(entry, missing, folder, mirror / entry.name, progress)
    return folder


def _folder(entry: DataSet) -> Path:
    return cache.cache_folder() / "data" / entry.name


def _there(path: Path, file: File) -> bool:
    try:
        return path.is_file() and file.size in (None, path.stat().st_size)
    except OSError:
        return False


def _whole(path: Path, file: File) -> bool:
    try:
        return _there(path, file) and file.sha256 in (None, sha256_of(path))
    except OSError:
        return False


def _from_mirror(entry: DataSet, missing: Sequence[File], folder: Path, mirror: Path, progress: Progress) -> None:
    for done, file in enumerate(missing):
        progress(f"reading {entry.name} from the mirror", done, len(missing))
        found = _in_mirror(mirror, file)
        if found is None:
            raise DataError(
                f"the mirror has no {mirror / file.name}, nor the same with .xz or .gz; put it there, or unset FIRTH_DATA"
            )
        source, packing = found
        _install(source, packing, file, folder, str(source))
    progress(f"reading {entry.name} from the mirror", len(missing), len(missing))


def _in_mirror(mirror: Path, file: File) -> tuple[Path, Packing | Literal["xz"]] | None:
    for suffix, packing in _MIRROR_SUFFIXES:
        source = mirror / (file.name + suffix)
        if source.is_file():
            return source, packing
    return None


def _from_source(entry: DataSet, missing: Sequence[File], folder: Path, progress: Progress) -> None:
    by_url: dict[str, list[File]] = {}  # one archive may hold several files
    for file in missing:
        if file.url is None:
            raise DataError(
                f"{entry.name} cannot be downloaded: there is no address that serves this version of {file.name}; set "
                f"FIRTH_DATA to a folder that has {entry.name}/{file.name} (or the same with .xz or .gz), see {entry.home}"
            )
        by_url.setdefault(file.url, []).append(file)
    for url, files in by_url.items():
        checked = all(file.sha256 for file in files)
        size = files[0].size if files[0].packing == "plain" else None
        with fetched(url, folder, checked=checked, size=size, progress=progress) as raw:
            for file in files:
                _install(raw, file.packing, file, folder, url)


def _install(source: Path, packing: Packing | Literal["xz"], file: File, folder: Path, origin: str) -> None:
    """Unpack `source` to the cache; its name appears there only when size and checksum are right."""
    digest, size = hashlib.sha256(), 0
    with cache.replacing(folder / file.name) as temporary:
        with temporary.open("wb") as out:
            for chunk in _content(source, packing, file.name, origin):
                size += len(chunk)
                digest.update(chunk)
                if file.size is not None and size > file.size:
                    break  # a small archive can hold a large file: do not fill the disk with it
                out.write(chunk)
        if file.size not in (None, size):
            more = "more" if size > (file.size or 0) else f"{size:,}"
            raise DataError(f"{origin} has the wrong size: expected {file.size:,} bytes of {file.name}, found {more}; not kept")
        if file.sha256 not in (None, digest.hexdigest()):
            raise DataError(
                f"{origin} has the wrong content: the sha256 of {file.name} is {digest.hexdigest()[:16]}…, expected "
                f"{(file.sha256 or '')[:16]}…; not kept"
            )


def _content(source: Path, packing: Packing | Literal["xz"], member: str, origin: str) -> Iterator[bytes]:
    try:
        with contextlib.ExitStack() as stack:
            stream: IO[bytes]
            match packing:
                case "plain":
                    stream = stack.enter_context(source.open("rb"))
                case "gz":
                    stream = cast(IO[bytes], stack.enter_context(gzip.open(source)))
                case "xz":
                    stream = stack.enter_context(lzma.open(source))
                case "zip":
                    archive = stack.enter_context(zipfile.ZipFile(source))
                    stream = stack.enter_context(archive.open(member))
            while chunk := stream.read(_CHUNK):
                yield chunk
    except KeyError as error:
        raise DataError(f"{origin} has no {member} inside; not kept") from error
    except (
        gzip.BadGzipFile,
        zipfile.BadZipFile,
        lzma.LZMAError,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise DataError(f"{origin} is damaged or not a {packing} file ({error}); not kept") from error
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror or error}") from error


class _BrokeOff(Exception):
    """The transfer stopped before its end; what came so far is on disk."""


@contextlib.contextmanager
def fetched(url: str, folder: Path, *, checked: bool, size: int | None = None, progress: Progress = silent) -> Iterator[Path]:
    """A file with everything that `url` serves, there while the context lasts.

    Going on with what an earlier call left needs proof that the server still has the same file: its own word (If-Range), or a
    checksum that the caller compares later (`checked`). `size`: what it must be, where that is known.
    """
    name = Path(urllib.parse.urlsplit(url).path).name or "index"
    transfer = _Transfer(url, folder / f".part-{name}", checked, size, progress)
    try:
        transfer.run()
        yield transfer.own
    finally:
        with contextlib.suppress(OSError):  # what stays is swept by a later call
            transfer.own.unlink(missing_ok=True)


class _Transfer:
    """One file on its way. It is written under a name of this process alone, so that two processes never mix their bytes."""

    def __init__(self, url: str, kept: Path, checked: bool, size: int | None, progress: Progress) -> None:
        self.url, self.kept, self.size, self.progress = url, kept, size, progress
        self.checked = checked
        self.note = kept.with_name(kept.name + ".json")  # which version of which address the kept bytes are of
        self.own = kept.with_name(f"{TEMPORARY}{kept.name}-{os.getpid()}-{time.monotonic_ns()}")
        self.validator: str | None = None

    def run(self) -> None:
        self._claim()
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    self._transfer()
                    return
                except _BrokeOff as error:
                    if attempt == TRIES:
                        raise DataError(
                            f"{self.url} broke off {TRIES} times, last after {self._have():,} bytes ({error}); "
                            "the same command goes on from there"
                        ) from error
                    time.sleep(PAUSE * attempt)
        except BaseException:
            self._give_back()
            raise

    def _have(self) -> int:
        return self.own.stat().st_size

    def _claim(self) -> None:
        with _storing(self.kept.parent):
            try:
                os.replace(self.kept, self.own)
            except FileNotFoundError:
                self.own.touch()
            note: object = None
            with contextlib.suppress(OSError, ValueError):
                note = json.loads(self.note.read_text(encoding="utf-8"))
            self.note.unlink(missing_ok=True)
            if isinstance(note, dict) and note.get("url") == self.url and isinstance(note.get("validator"), str):
                self.validator = note["validator"]
            elif not (self.checked and isinstance(note, dict) and note.get("url") == self.url):
                os.truncate(self.own, 0)

    def _give_back(self) -> None:
        """Keep what came for the next call; best effort, since an error is on its way already."""
        with contextlib.suppress(OSError):
            if self._have():
                self.note.write_text(json.dumps({"url": self.url, "validator": self.validator}), encoding="utf-8")
                os.replace(self.own, self.kept)

    def _transfer(self) -> None:
        have = self._have()
        headers = {"User-Agent": f"firth/{__version__}", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.validator:
                headers["If-Range"] = self.validator
        try:
            response = urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, have)
            return
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            host = urllib.parse.urlsplit(self.url).hostname
            raise DataError(
                f"cannot reach {host} ({reason}); check the network, or set FIRTH_DATA to a folder that has the data"
            ) from error
        with response:
            self._receive(response, have)

    def _refused(self, error: urllib.error.HTTPError, have: int) -> None:
        """Asked for bytes beyond the end, a server answers 416 and the true length: then we have it all, or too much."""
        if error.code != 416 or not have:
            raise DataError(f"{self.url} answers {error.code} {error.reason}; nothing was downloaded") from error
        if _total(error.headers.get("Content-Range")) == have:
            return
        self._restart()
        raise _BrokeOff("the file on the server has changed") from error

    def _receive(self, response: http.client.HTTPResponse, have: int) -> None:
        if response.status == 206:
            span = response.headers.get("Content-Range") or ""
            if not span.startswith(f"bytes {have}-"):
                self._restart()
                raise _BrokeOff("the server sent another part than asked for")
            total = _total(span)
        elif response.status == 200:  # everything from the start: it cannot resume, or the file is another one by now
            self._restart()
            have, total = 0, _number(response.headers.get("Content-Length"))
        else:
            raise DataError(f"{self.url} answers {response.status} {response.reason}; expected 200")
        self.validator = _validator(response)
        if self.size is not None and total not in (None, self.size):
            self._restart()
            raise DataError(f"{self.url} has the wrong size: expected {self.size:,} bytes, the server says {total:,}; not kept")
        have = self._copy(response, have, total)
        if total is not None and have != total:
            if have > total:
                self._restart()
            raise _BrokeOff(f"the server promised {total:,}")

    def _copy(self, response: http.client.HTTPResponse, have: int, total: int | None) -> int:
        what, told = f"downloading {self.kept.name.removeprefix('.part-')}", 0.0
        with _storing(self.kept.parent), self.own.open("ab") as out:
            while chunk := _next_chunk(response):
                out.write(chunk)
                have += len(chunk)
                if self.size is not None and have > self.size:
                    out.truncate(0)
                    raise DataError(f"{self.url} has the wrong size: expected {self.size:,} bytes, more came; not kept")
                if time.monotonic() - told > _TELL_EVERY:
                    self.progress(what, have, total or 0)
                    told = time.monotonic()
        self.progress(what, have, total or 0)
        return have

    def _restart(self) -> None:
        self.validator = None
        with _storing(self.kept.parent):
            os.truncate(self.own, 0)


def _next_chunk(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokeOff(str(error) or type(error).__name__) from error


def _validator(response: http.client.HTTPResponse) -> str | None:
    """What If-Range accepts: a strong ETag, or else the time of the last change."""
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _total(content_range: str | None) -> int | None:
    """1234 of "bytes 0-99/1234" and of "bytes */1234"."""
    return _number((content_range or "").rpartition("/")[2])


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


@contextlib.contextmanager
def _storing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write to the cache folder {folder} ({error.strerror or error}); "
            "set FIRTH_CACHE to a folder with space to write to"
        ) from error
