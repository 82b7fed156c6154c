"""Plain text: the whole file is one document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firth.text.readers.file_decoding import Tick, texts
from firth.text.readers.file_format import FileFormat
from firth.text.readers.pieces import Piece, pieces_of_chunks


def _pieces(path: Path, tick: Tick) -> Iterator[Piece]:
    return pieces_of_chunks(texts(path, tick))


TXT = FileFormat("txt", (".txt", ".text", ".md"), pieces=_pieces)
