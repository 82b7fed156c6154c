"""Downloads that survive interruptions: an interrupted transfer resumes where it stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.progress import Progress, silent
from firth.text import cache
from firth.version import __version__

TRIES = 5  # attempts per file before an unreliable connection is given up
PAUSE = 1.0  # seconds before the second attempt; each further one waits a second longer
TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16
_REPORT_EVERY = 0.2  # seconds


class _Interrupted(Exception):
    """The transfer stopped early; the bytes received so far are on disk."""


@contextlib.contextmanager
def fetched(url: str, folder: Path, *, checked: bool, size: int | None = None, progress: Progress = silent) -> Iterator[Path]:
    """A temporary file with the content of `url`, which exists while the context lasts.

    Resuming an earlier download requires that the server still has the same file: it says so itself (If-Range), or the caller
    verifies a checksum afterwards (`checked`). `size` is the expected number of bytes, if known.
    """
    name = Path(urllib.parse.urlsplit(url).path).name or "index"
    transfer = _Transfer(url, folder / f".part-{name}", checked, size, progress)
    try:
        transfer.run()
        yield transfer.own
    finally:
        with contextlib.suppress(OSError):  # a later call sweeps leftovers
            transfer.own.unlink(missing_ok=True)


class _Transfer:
    """The download of one file, under a name of this process alone, so that two processes never mix their bytes."""

    def __init__(self, url: str, kept: Path, checked: bool, size: int | None, progress: Progress) -> None:
        self.url, self.kept, self.size, self.progress = url, kept, size, progress
        self.checked = checked
        self.note = kept.with_name(kept.name + ".json")  # the address and version that the kept bytes belong to
        self.own = kept.with_name(f"{TEMPORARY}{kept.name}-{os.getpid()}-{time.monotonic_ns()}")
        self.validator: str | None = None

    def run(self) -> None:
        self._claim()
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    self._transfer()
                    return
                except _Interrupted as error:
                    if attempt == TRIES:
                        raise DataError(
                            f"{self.url} was interrupted {TRIES} times, last after {self._have():,} bytes ({error}). "
                            "Run the same command to continue from there."
                        ) from error
                    time.sleep(PAUSE * attempt)
        except BaseException:
            self._give_back()
            raise

    def _have(self) -> int:
        return self.own.stat().st_size

    def _claim(self) -> None:
        with cache.storing(self.kept.parent):
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
        """Keep the received bytes for the next call; best effort, since another error is being raised."""
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
                f"cannot reach {host} ({reason}). Check the network, or set FIRTH_DATA to a folder that has the data."
            ) from error
        with response:
            self._receive(response, have)

    def _refused(self, error: urllib.error.HTTPError, have: int) -> None:
        """A server answers 416 and the true length to a request beyond the end: the file is complete, or too long."""
        if error.code != 416 or not have:
            raise DataError(f"{self.url} answers {error.code} {error.reason}; nothing was downloaded") from error
        if _total(error.headers.get("Content-Range")) == have:
            return
        self._restart()
        raise _Interrupted("the file on the server has changed") from error

    def _receive(self, response: http.client.HTTPResponse, have: int) -> None:
        if response.status == 206:
            span = response.headers.get("Content-Range") or ""
            if not span.startswith(f"bytes {have}-"):
                self._restart()
                raise _Interrupted("the server sent a different part than requested")
            total = _total(span)
        elif response.status == 200:  # the whole file: the server cannot resume, or the file has changed
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
            raise _Interrupted(f"the server promised {total:,}")

    def _copy(self, response: http.client.HTTPResponse, have: int, total: int | None) -> int:
        what, reported = f"downloading {self.kept.name.removeprefix('.part-')}", 0.0
        with cache.storing(self.kept.parent), self.own.open("ab") as out:
            while chunk := _next_chunk(response):
                out.write(chunk)
                have += len(chunk)
                if self.size is not None and have > self.size:
                    out.truncate(0)
                    raise DataError(f"{self.url} has the wrong size: expected {self.size:,} bytes, more came; not kept")
                if time.monotonic() - reported > _REPORT_EVERY:
                    self.progress(what, have, total or 0)
                    reported = time.monotonic()
        self.progress(what, have, total or 0)
        return have

    def _restart(self) -> None:
        self.validator = None
        with cache.storing(self.kept.parent):
            os.truncate(self.own, 0)


def _next_chunk(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(str(error) or type(error).__name__) from error


def _validator(response: http.client.HTTPResponse) -> str | None:
    """For If-Range: a strong ETag, otherwise the time of the last change."""
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _total(content_range: str | None) -> int | None:
    """1234 of "bytes 0-99/1234" and of "bytes */1234"."""
    return _number((content_range or "").rpartition("/")[2])


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
