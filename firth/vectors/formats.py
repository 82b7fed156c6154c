"""Word vectors in files, both ways: `.firth`, word2vec text and binary, GloVe text, fastText .vec.

What is read is known by its first bytes, also inside gz, xz and zst; what is written, by the name of the file or by `to`.
A round trip gives the same bits: text is written with the shortest decimals that mean exactly the same float32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np

from firth.errors import ConfigError, DataError, did_you_mean
from firth.files import replacing
from firth.progress import Progress, silent
from firth.text.readers import file_decoding
from firth.vectors import container, rows
from firth.vectors.container import Content
from firth.vectors.wordvectors import WordVectors

Format = Literal["firth", "word2vec", "word2vec-binary", "glove", "fasttext"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[str, Format] = {".firth": "firth", ".txt": "word2vec", ".bin": "word2vec-binary", ".vec": "fasttext"}

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,9})[ \t\r]*")
_SPACE = re.compile(r"[ \t\n\v\f\r]")
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")
_LOOKED_AT = 10  # lines, to tell text from binary


def load(path: str | Path, format: Format | None = None, verify: bool | None = None, progress: Progress = silent) -> WordVectors:
    """Read word vectors; `format` only where the first bytes mislead.

    A `.firth` file opens at once and is read as it is used; `verify` compares its checksum first (None: if it is small)."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(f"{path} {'is a folder' if place.is_dir() else 'does not exist'}; expected a file of word vectors")
    size = place.stat().st_size

    def chunks() -> rows.Chunks:
        return file_decoding.chunks(place, lambda done: progress(f"reading {place.name}", done, size))

    head = next(file_decoding.chunks(place, lambda done: None), b"")
    known = format or _format_of(head, place)
    if known == "firth":
        content = container.read(place, verify)
        return WordVectors(content.words, content.vectors, content.counts, content.metadata, content.outputs)
    header = None if known == "glove" else _header(head, place)
    read = rows.read_binary(chunks(), str(path), header) if known == "word2vec-binary" and header else None
    words, vectors = (read or rows.read_text(chunks(), str(path), header)).finished(header[0] if header else None)
    return WordVectors(words, vectors)


def save(
    vectors: WordVectors,
    path: str | Path,
    to: Format | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> None:
    """Write word vectors; `to` only where the name of the file does not tell. Counts, context vectors and metadata are kept
    in a `.firth` file and nowhere else."""
    place = Path(path).expanduser()
    chosen = to or format_for(place)
    _check_words(vectors, chosen)
    _check_finite(vectors)
    if chosen == "firth":
        told = {**vectors.metadata, **(metadata or {})}
        container.write(place, Content(list(vectors.words), vectors.vectors, vectors.counts, vectors.outputs, told))
        return
    with replacing(place) as temporary, temporary.open("wb") as file:
        _write(file, vectors, chosen, progress, place.name)


def format_for(path: Path) -> Format:
    """What a file of this name is written as."""
    if path.suffix.lower() not in SUFFIXES:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in SUFFIXES.items())
        raise ConfigError(f'"{path.name}" does not tell in which format to write; end it in {known}, or name it with --to')
    return SUFFIXES[path.suffix.lower()]


def checked_format(name: str) -> Format:
    for format in FORMATS:
        if format == name:
            return format
    raise ConfigError(f'there is no format "{name}".{did_you_mean(name, FORMATS)}')


def _write(file: IO[bytes], vectors: WordVectors, to: Format, progress: Progress, name: str) -> None:
    words = list(vectors.words)

    def tick(done: int) -> None:
        progress(f"writing {name}", done, len(words))

    if to != "glove":
        file.write(f"{len(words)} {vectors.width}\n".encode())
    if to == "word2vec-binary":
        rows.write_binary(file, words, vectors.vectors, tick)
    else:
        rows.write_text(file, words, vectors.vectors, b" " if to == "fasttext" else b"", tick)


def _format_of(head: bytes, path: Path) -> Format:
    if not head:
        raise DataError(f"{path} is empty; expected word vectors")
    if container.is_container(head):
        return "firth"
    _refuse(head, path)
    line, _, body = head.partition(b"\n")
    header = _HEADER.fullmatch(line)
    if header is None:
        return "glove"
    return "word2vec" if _is_text(body) else "word2vec-binary"


def _is_text(body: bytes) -> bool:
    """Whether one of the first lines ends in a field that is a number: those of a binary file practically never do."""
    fields = [line.split() for line in body.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]]
    return not body or any(len(row) > 1 and rows.is_number(row[-1]) for row in fields)


def _header(head: bytes, path: Path) -> tuple[int, int]:
    line = head.partition(b"\n")[0]
    found = _HEADER.fullmatch(line)
    if found is None:
        shown = line[:60].decode(errors="replace")
        raise DataError(f'{path} begins with "{shown}"; expected the number of words and the width of their vectors')
    V, d = int(found[1]), int(found[2])
    if V == 0 or d == 0:
        raise DataError(f"{path} promises {V} words of {d} numbers; expected at least one of each")
    return V, d


def _refuse(head: bytes, path: Path) -> None:
    """Formats that are something else, each with what to do about it."""
    if head[0] == 0x80 and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        model = next((name for name in ("Word2Vec", "FastText") if name.encode() in head[:4096]), None)
        load, wv = (f"gensim.models.{model}", ".wv") if model else ("gensim.models.KeyedVectors", "")
        raise DataError(
            f"{path} is a Python pickle, as gensim saves it: reading one runs whatever code it holds, so firth does not. Convert "
            f"it once, where gensim is installed: python -c \"import gensim; {load}.load('{path}'){wv}"
            f".save_word2vec_format('{path.stem}.bin', binary=True)\""
        )
    if head.startswith(_FASTTEXT_MODEL):
        raise DataError(f"{path} is a fastText model, not its vectors; give the .vec file that fastText wrote beside it")
    if head.startswith(b"PK\3\4"):
        raise DataError(f"{path} is a zip archive; unpack it and give the file inside")


def _check_words(vectors: WordVectors, to: Format) -> None:
    if len(vectors) == 0:
        raise DataError("there are no words to write")
    if len(set(vectors.words)) != len(vectors):
        raise DataError("a word stands twice among the words to write; expected each once")
    forbidden = "\n" if to == "firth" else _SPACE
    for row, word in enumerate(vectors.words, 1):
        bad = forbidden in word if isinstance(forbidden, str) else forbidden.search(word) is not None
        if bad or not word:
            raise DataError(
                f'word {row:,} is "{word}"; {to} files cannot hold an empty word or one with white space in it'
                + ("" if to == "firth" else ", .firth files can hold spaces")
            )


def _check_finite(vectors: WordVectors) -> None:
    for low in range(0, len(vectors), 4096):
        finite_N = np.isfinite(vectors.vectors[low : low + 4096]).all(1)
        if not finite_N.all():
            word = vectors.words[low + int(np.argmin(finite_N))]
            raise DataError(f'the vector of "{word}" holds a nan or an infinity; nothing was written')
