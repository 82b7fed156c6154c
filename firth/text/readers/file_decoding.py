"""Bytes on disk → text: compression, UTF-8, and line ends.

`\\r\\n` becomes `\\n`, so that a corpus is the same on every platform; a lone `\\r` is a character like any other. A byte
order mark at the start is dropped.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

from firth.errors import DataError
from firth.text.limits import expect_text_file, limits

CHUNK = 1 << 20  # bytes read at a time
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
Tick = Callable[[int], None]  # called with the number of bytes of the file on disk that have been read
_FED = 1 << 11  # compressed bytes passed to zstd at a time; it returns all that they hold at once, up to 64 MB
_BZ2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")  # the first block, or the end of an empty file


_LOCAL = type(Path())  # not a file at a URL


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def suffix_of(path: Path) -> str:
    """The suffix in lower case, that of compression aside: ".csv" for a.CSV.gz."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower()


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
        yield text.removesuffix("\r").replace("\r\n", "\n") if "\r" in text else text  # looking for one is ten times faster
    yield held + _decoded(decoder, b"", fed, path, final=True)


def whole_text(path: Path, tick: Tick) -> str:
    """The whole text of a file that cannot be parsed in parts, such as JSON."""
    parts, most, length = list[str](), limits(), 0
    for text in texts(path, tick):
        parts.append(text)
        length += len(text)
        most.check_line(path, length, "a text")
    return "".join(parts)


def lines(path: Path, tick: Tick) -> Iterator[str]:
    """The lines of a file, each with its newline; only `\\n` ends a line, as in JSON Lines and RFC 4180."""
    parts: list[str] = []
    most, held = limits(), 0
    for text in texts(path, tick):
        *whole, rest = text.split("\n")
        for line in whole:
            yield "".join((*parts, line, "\n"))
            parts.clear()
            held = 0
        parts.append(rest)
        held += len(rest)
        most.check_line(path, held)
    last = "".join(parts)
    if last:
        yield last


def chunks(path: Path, tick: Tick) -> Iterator[bytes]:
    try:
        if type(path) is _LOCAL:
            expect_text_file(path)
        with path.open("rb") as raw:
            stream, most, given = _decompressed(raw, path), limits(), 0
            while chunk := stream.read(CHUNK):
                given += len(chunk)
                if stream is not raw:
                    most.check_size(path, raw.tell(), given)
                yield chunk
                tick(raw.tell())
    except (gzip.BadGzipFile, _Damaged, EOFError, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        if error.strerror is None:  # not the system's: bz2 raises a bare OSError for damaged data
            raise _damaged(path, error) from error
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is a damaged or truncated compressed file ({error}). Copy or download it again.")


def _decompressed(raw: IO[bytes], path: Path) -> _Stream:
    """Recognised by the first bytes, not by the name: no text begins with any of these."""
    magic = raw.read(10)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(raw)
    if _BZ2.match(magic):
        return bz2.BZ2File(raw)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _Zst(raw, path)
    return raw


class _Damaged(Exception):
    """An error of zstd, whose own exception type can be named only where the package is installed."""


class _Zst:
    """Consecutive frames, as written by `zstd` and by `cat a.zst b.zst`.

    Each frame has its own decompressor, because the stream reader of `zstandard` does not notice that a file is truncated.
    """

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw = raw
        self._new_frame, self._error = _zstd(path)
        self._frame = self._new_frame()
        self._left = b""  # bytes read beyond the end of a frame

    def read(self, size: int, /) -> bytes:
        """About `size` bytes; empty at the end."""
        parts, length = list[bytes](), 0
        while length < size and (fed := self._left or self._raw.read(_FED)):
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                out: bytes = self._frame.decompress(fed)
            except self._error as error:
                raise _Damaged(str(error)) from error
            self._left = self._frame.unused_data if self._frame.eof else b""
            parts.append(out)
            length += len(out)
        if length < size and not self._frame.eof:
            raise _Damaged("it ends inside a zstd frame")
        return b"".join(parts)


def _zstd(path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """A factory of one-frame decompressors, and their exception: from the standard library since Python 3.14."""
    try:
        standard: Any = importlib.import_module("compression.zstd")
        return standard.ZstdDecompressor, standard.ZstdError
    except ImportError:
        pass
    try:
        package: Any = importlib.import_module("zstandard")
    except ImportError:
        raise DataError(
            f"{path} is compressed with zstd, which needs Python 3.14 or one more package: pip install zstandard"
        ) from None
    return lambda: package.ZstdDecompressor().decompressobj(), package.ZstdError


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, fed: int, path: Path, *, final: bool) -> str:
    """`fed` counts the bytes up to the end of `chunk`; the decoder may still hold a few from before it."""
    try:
        return decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        offset = fed - len(error.object) + error.start
        encoding = "utf-16" if offset == 0 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        raise DataError(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {offset:,}. "
            f"Convert it, for example: iconv -f {encoding} -t utf-8 {path.name} > {path.stem}.utf8{path.suffix}"
        ) from error
