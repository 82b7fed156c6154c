"""Bytes on disk → text: compression, UTF-8, and line ends.

`\\r\\n` becomes `\\n`, so that a corpus means the same on every platform; a lone `\\r` is a character like any other. A byte
order mark at the start is dropped.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from firth.errors import DataError

CHUNK = 1 << 20  # bytes read at a time
Tick = Callable[[int], None]  # told how many bytes of the file on disk are behind us


def texts(path: Path, tick: Tick) -> Iterator[str]:
    """The text of a file, chunk by chunk."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    held, fed, first = "", 0, True
    for chunk in _chunks(path, tick):
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


def _chunks(path: Path, tick: Tick) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            stream = _decompressed(raw)
            while chunk := stream.read(CHUNK):
                yield chunk
                tick(raw.tell())
    except (gzip.BadGzipFile, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is a damaged or truncated compressed file ({error}); copy or download it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    """By the first bytes, not by the name: neither magic number can begin a UTF-8 text, so this is never wrong."""
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic == b"\xfd7zXZ\0":
        return lzma.LZMAFile(raw)
    return raw


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
