"""Bytes on disk → text: compression, UTF-8, and line ends.

`\\r\\n` becomes `\\n`, so that a corpus means the same on every platform; a lone `\\r` is a character like any other. A byte
order mark at the start is dropped.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

from firth.errors import DataError

CHUNK = 1 << 20  # bytes read at a time
Tick = Callable[[int], None]  # told how many bytes of the file on disk are behind us
_FED = 1 << 16  # compressed bytes handed to zstd at a time; it gives back at once all that they hold


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def texts(path: Path, tick: Tick) -> Iterator[str]:
    """The text of a file, chunk by chunk."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    held, fed, first = "", 0, True
    for chunk in chunks(path, tick):
        fed += len(chunk)
        text = held + _decoded(decoder, chunk, fed, path, final=False)
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        held = "\r" if text.endswith("\r") else ""  # the other half of \r\n may be in the next chunk
        yield text.removesuffix("\r").replace("\r\n", "\n")
    yield held + _decoded(decoder, b"", fed, path, final=True)


def lines(path: Path, tick: Tick) -> Iterator[str]:
    """The lines of a file, each with its newline; only `\\n` ends a line, as JSON Lines and RFC 4180 have it."""
    parts: list[str] = []
    for text in texts(path, tick):
        *whole, rest = text.split("\n")
        for line in whole:
            yield "".join((*parts, line, "\n"))
            parts.clear()
        parts.append(rest)
    last = "".join(parts)
    if last:
        yield last


def chunks(path: Path, tick: Tick) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            stream = _decompressed(raw, path)
            while chunk := stream.read(CHUNK):
                yield chunk
                tick(raw.tell())
    except (gzip.BadGzipFile, _Damaged, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is a damaged or truncated compressed file ({error}); copy or download it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _decompressed(raw: IO[bytes], path: Path) -> _Stream:
    """By the first bytes, not by the name: no magic number can begin a UTF-8 text, so this is never wrong."""
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic == b"\xfd7zXZ\0":
        return lzma.LZMAFile(raw)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _Zst(raw, path)
    return raw


class _Damaged(Exception):
    """What zstd says of a file; its own exception has a name only where the package is installed."""


class _Zst:
    """Frames one after the other, as `zstd` and `cat a.zst b.zst` write them.

    Through one-frame decompressors because `zstandard`'s stream reader takes the end of a truncated file for its end.
    """

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw = raw
        self._new_frame, self._error = _zstd(path)
        self._frame = self._new_frame()
        self._left = b""  # read, but behind the end of a frame

    def read(self, size: int, /) -> bytes:
        """Some bytes, of whatever number; none at the end."""
        while fed := self._left or self._raw.read(_FED):
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                out: bytes = self._frame.decompress(fed)
            except self._error as error:
                raise _Damaged(str(error)) from error
            self._left = self._frame.unused_data if self._frame.eof else b""
            if out:
                return out
        if not self._frame.eof:
            raise _Damaged("it ends inside a zstd frame")
        return b""


def _zstd(path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """How to make a decompressor of one frame, and what it raises: the standard library's from Python 3.14 on."""
    try:
        standard: Any = importlib.import_module("compression.zstd")
        return standard.ZstdDecompressor, standard.ZstdError
    except ImportError:
        pass
    try:
        package: Any = importlib.import_module("zstandard")
    except ImportError:
        raise DataError(
            f"{path} is compressed with zstd, which Python reads from 3.14 on; for this Python: pip install zstandard"
        ) from None
    return lambda: package.ZstdDecompressor().decompressobj(), package.ZstdError


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, fed: int, path: Path, *, final: bool) -> str:
    """`fed` counts the bytes up to the end of `chunk`; the decoder may have kept back a few from before it."""
    try:
        return decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        offset = fed - len(error.object) + error.start
        encoding = "utf-16" if offset == 0 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        raise DataError(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {offset:,}; "
            f"convert it, for example: iconv -f {encoding} -t utf-8 {path.name} > {path.stem}.utf8{path.suffix}"
        ) from error
