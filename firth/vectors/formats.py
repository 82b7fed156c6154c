"""Read and write word vectors: `.firth`, word2vec text and binary, GloVe text, fastText .vec.

The format of an input file is detected from its first bytes, also inside gz, xz and zst. The output format follows from the
file name or from `to`. A round trip is bit-exact: numbers are written as the shortest decimals that parse to the same float32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np

from firth.errors import ConfigError, DataError, did_you_mean, option
from firth.files import is_file, is_folder, replacing
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.text.readers import file_decoding
from firth.vectors import firth_file, word2vec_format
from firth.vectors.firth_file import Content
from firth.vectors.wordvectors import WordVectors

Format = Literal["firth", "word2vec", "word2vec-binary", "glove", "fasttext"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[str, Format] = {".firth": "firth", ".txt": "word2vec", ".bin": "word2vec-binary", ".vec": "fasttext"}

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,9})[ \t\r]*")
_SPACE = re.compile(r"[ \t\n\v\f\r]")
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")
_SNIFFED = 10  # lines checked to distinguish text from binary


@shows_progress
def load(
    path: str | Path, format: Format | None = None, verify: bool | None = None, progress: Progress | bool = True
) -> WordVectors:
    """Read the word vectors in the file `path`. Pass `format` only if detection by the first bytes fails.

    A `.firth` file opens at once and is read on demand; `verify` checks its checksum first (None: only if the file is small)."""
    place, report = Path(path).expanduser(), followed(progress)
    if not is_file(place):
        raise DataError(f"{path} {'is a folder' if is_folder(place) else 'does not exist'}; expected a word-vectors file")
    size = place.stat().st_size

    def chunks() -> word2vec_format.Chunks:
        return file_decoding.chunks(place, lambda done: report(f"reading {place.name}", done, size))

    head = next(file_decoding.chunks(place, lambda done: None), b"")
    known = format or _format_of(head, place)
    if known == "firth":
        content = firth_file.read(place, verify)
        return WordVectors(content.words, content.vectors, content.counts, content.metadata, content.outputs)
    header = None if known == "glove" else _header(head, place)
    read = word2vec_format.read_binary(chunks(), str(path), header) if known == "word2vec-binary" and header else None
    words, vectors = (read or word2vec_format.read_text(chunks(), str(path), header)).finished(header[0] if header else None)
    return WordVectors(words, vectors)


def save(
    vectors: WordVectors,
    path: str | Path,
    to: Format | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> None:
    """Write word vectors. Pass `to` only if the file name does not determine the format. Only `.firth` files keep counts,
    context vectors and metadata."""
    place = Path(path).expanduser()
    chosen = to or format_for(place)
    _check_words(vectors, chosen)
    _check_finite(vectors)
    if chosen == "firth":
        merged = {**vectors.metadata, **(metadata or {})}
        firth_file.write(place, Content(list(vectors.words), vectors.vectors, vectors.counts, vectors.outputs, merged))
        return
    with replacing(place) as temporary, temporary.open("wb") as file:
        _write(file, vectors, chosen, progress, place.name)


def format_for(path: Path) -> Format:
    """The format that a file of this name is written in."""
    if path.suffix.lower() not in SUFFIXES:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in SUFFIXES.items())
        raise ConfigError(
            f'the name "{path.name}" does not determine a format. End it in {known}, or choose one with '
            f"{option('format', '--to')}"
        )
    return SUFFIXES[path.suffix.lower()]


def checked_format(name: str) -> Format:
    for format in FORMATS:
        if format == name:
            return format
    raise ConfigError(f'unknown format "{name}".{did_you_mean(name, FORMATS)}')


def _write(file: IO[bytes], vectors: WordVectors, to: Format, progress: Progress, name: str) -> None:
    words = list(vectors.words)

    def tick(done: int) -> None:
        progress(f"writing {name}", done, len(words))

    if to != "glove":
        file.write(f"{len(words)} {vectors.dim}\n".encode())
    if to == "word2vec-binary":
        word2vec_format.write_binary(file, words, vectors.vectors, tick)
    else:
        word2vec_format.write_text(file, words, vectors.vectors, b" " if to == "fasttext" else b"", tick)


def _format_of(head: bytes, path: Path) -> Format:
    if not head:
        raise DataError(f"{path} is empty; expected a word-vectors file")
    if firth_file.is_safetensors(head):
        return "firth"
    _refuse(head, path)
    line, _, body = head.partition(b"\n")
    header = _HEADER.fullmatch(line)
    if header is None:
        return "glove"
    return "word2vec" if _is_text(body) else "word2vec-binary"


def _is_text(body: bytes) -> bool:
    """True if one of the first lines ends in a number: lines of a binary file practically never do."""
    fields = [line.split() for line in body.split(b"\n", _SNIFFED)[:_SNIFFED]]
    return not body or any(len(row) > 1 and word2vec_format.is_number(row[-1]) for row in fields)


def _header(head: bytes, path: Path) -> tuple[int, int]:
    line = head.partition(b"\n")[0]
    match = _HEADER.fullmatch(line)
    if match is None:
        shown = line[:60].decode(errors="replace")
        raise DataError(f'{path} begins with "{shown}"; expected a header with the number of words and the dimension')
    V, d = int(match[1]), int(match[2])
    if V == 0 or d == 0:
        raise DataError(f"{path} has a header for {V} words of dimension {d}; both must be at least 1")
    return V, d


def _refuse(head: bytes, path: Path) -> None:
    """Refuse related formats that firth does not read, each with a way to convert it."""
    if head[0] == 0x80 and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        model = next((name for name in ("Word2Vec", "FastText") if name.encode() in head[:4096]), None)
        load, wv = (f"gensim.models.{model}", ".wv") if model else ("gensim.models.KeyedVectors", "")
        raise DataError(
            f"{path} is a Python pickle, as saved by gensim; firth reads no pickles, because loading one can run arbitrary code. "
            f"Convert it with gensim: python -c \"import gensim; {load}.load('{path}'){wv}"
            f".save_word2vec_format('{path.stem}.bin', binary=True)\""
        )
    if head.startswith(_FASTTEXT_MODEL):
        raise DataError(f"{path} is a fastText model, not a vectors file. Use the .vec file that fastText wrote beside it")
    if head.startswith(b"PK\3\4"):
        raise DataError(f"{path} is a zip archive. Unpack it and use the file inside")


def _check_words(vectors: WordVectors, to: Format) -> None:
    if len(vectors) == 0:
        raise DataError("there are no words to write")
    if len(set(vectors.words)) != len(vectors):
        raise DataError("the vocabulary contains a word twice; expected distinct words")
    forbidden = "\n" if to == "firth" else _SPACE
    for row, word in enumerate(vectors.words, 1):
        bad = forbidden in word if isinstance(forbidden, str) else forbidden.search(word) is not None
        if bad or not word:
            raise DataError(
                f'word {row:,} is "{word}"; {to} files cannot store empty words or words with white space'
                + ("" if to == "firth" else ". A .firth file can store spaces")
            )


def _check_finite(vectors: WordVectors) -> None:
    for low in range(0, len(vectors), 4096):
        finite_N = np.isfinite(vectors.vectors[low : low + 4096]).all(1)
        if not finite_N.all():
            word = vectors.words[low + int(np.argmin(finite_N))]
            raise DataError(f'the vector of "{word}" contains nan or infinity; nothing was written')
