"""The documents to search: the files of a folder, the lines of a text file, or the records of a table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.errors import DataError, option
from firth.files import exists, is_folder
from firth.progress import Progress, silent
from firth.text.fingerprint import sha256_of_texts
from firth.text.readers.corpus import find
from firth.text.readers.file_decoding import Tick
from firth.text.readers.formats import expect_format, file_format, records, text_lines
from firth.text.readers.reader import Column, Format, TableReader, TextReader
from firth.vectors.sentences import lines as lines_of_words
from firth.vectors.sentences import opened


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a name."""

    name: str  # its file, or file and line
    text: str  # the whole document


def read_documents(
    place: str | os.PathLike[str], format: Format = "auto", field: str = "text", progress: Progress = silent
) -> list[Document]:
    """The documents at `place`, without blank ones.

    Of a folder or a glob pattern, each plain text file is a document; of a single text file, each line. Each record of a csv,
    tsv, jsonl or parquet file is a document, whose text is the column `field`."""
    expect_format(format)
    corpus = find(os.fspath(place), format, field)
    corpus.expect_columns()
    root = Path(place).expanduser()
    by_line = len(corpus.files) == 1 and not is_folder(root)
    documents: list[Document] = []
    for path, tick in corpus.each_file(progress):
        parts = _of_file(path, _name(path, root), by_line, format, field, tick)
        documents += [Document(name, text) for name, text in parts if text.strip()]
    if not documents:
        raise DataError(f"{place} has no text; expected at least one document")
    return documents


def first_lines(source: str | os.PathLike[str], most: int) -> list[Document]:
    """The first `most` lines of `source`, a text file or a named data set, without blank ones, each as a document."""
    documents: list[Document] = []
    with opened(source) as corpus:
        number, held = 1, list[str]()
        for words, ends in lines_of_words(corpus, lower=False):
            held += words  # a long line comes in several chunks
            if not ends:
                continue
            if held:
                documents.append(Document(f"{corpus.name}:{number}", " ".join(held)))
            if len(documents) == most:
                break
            number, held = number + 1, []
    if not documents:
        raise DataError(f"{source} has no text; expected at least one document")
    return documents


def fingerprint(documents: Sequence[Document]) -> str:
    return sha256_of_texts((document.name, document.text) for document in documents)


def _name(path: Path, root: Path) -> str:
    """Relative to the folder; the file name of a single file or pipe; of a glob pattern, the whole path."""
    if is_folder(root):
        return path.relative_to(root).as_posix()
    return root.name if exists(root) else path.as_posix()


def _of_file(path: Path, name: str, by_line: bool, format: Format, field: str, tick: Tick) -> Iterator[tuple[str, str]]:
    chosen = file_format(path, format, columns=field != "text")
    if not issubclass(chosen, TextReader | TableReader):
        raise DataError(f"{path} holds {chosen.contents}, not documents. Choose a text file or a table")
    if issubclass(chosen, TableReader):
        for record in records(path, [Column(field, setting=option("field"))], chosen, tick):
            yield name + record.where.removeprefix(str(path)), record.texts[0]
    elif by_line:
        for number, line in enumerate(text_lines(path, chosen, tick), start=1):
            yield f"{name}:{number}", line.rstrip("\n")
    else:
        yield from ((name, text) for text in chosen.documents(path, tick))
