"""Words with tags from CoNLL and CoNLL-U: a word on each line, its columns between tabs (CoNLL: or spaces), an empty line between
two sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from firth.errors import ConfigError, DataError, did_you_mean
from firth.text.config import TaggedConfig
from firth.text.datasets.catalog import data_set
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.records import format_of

TaggedFormat = Literal["conll", "conllu"]

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U


class Sentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty where only the words were asked for
    path: str
    lines: tuple[int, ...]  # where each word stands, for messages


@dataclass(frozen=True)
class Columns:
    """How tagged sentences are written in a file, and which column is what: a number from 1 on, or a name of CoNLL-U's."""

    format: TaggedFormat | None  # of files whose names do not tell
    word: int | str | None = None  # None: the first of CoNLL, the form of CoNLL-U
    tag: int | str | None = None  # None: the last of CoNLL, the upos of CoNLL-U
    outright: bool = False  # the format holds whatever the names of files tell

    @classmethod
    def of(cls, data: TaggedConfig) -> Columns:
        entry = None if data.name is None else data_set(str(data.name))
        given = data.format if data.format in ("conll", "conllu") else None
        if given is None and data.path is not None:
            given = _by_suffix(Path(data.path))
        return cls(entry.tagged if entry else given, data.word_column, data.tag_column, outright=data.format != "auto")

    def elsewhere(self) -> Columns:
        """For files that are not the run's own: what their names tell comes first."""
        return dataclasses.replace(self, outright=False)

    def sentences(self, path: Path, tick: Tick = lambda done: None, *, words_only: bool = False) -> Iterator[Sentence]:
        """The sentences of a file, none of them empty. An empty line ends one, and so does the -DOCSTART- of CoNLL; of CoNLL-U,
        comments, the ranges of multiword tokens (1-2) and empty nodes (1.1) are passed over."""
        reader = _Reader(str(path), self._format(path), self.word, None if words_only else self.tag, words_only)
        for number, line in enumerate(lines(path, tick), start=1):
            yield from reader.read(number, line.rstrip("\n"))
        yield from reader.end()

    def sentences_of_lines(self, given: Iterable[str], name: str) -> Iterator[Sentence]:
        """The words of sentences that come line by line; `name` is for messages."""
        reader = _Reader(name, self.format or "conll", self.word, None, words_only=True)
        for number, line in enumerate(given, start=1):
            yield from reader.read(number, line)
        yield from reader.end()

    def _format(self, path: Path) -> TaggedFormat:
        found = self.format if self.outright else _by_suffix(path) or self.format
        if found is None:
            raise DataError(
                f"{path} does not say whether it is CoNLL or CoNLL-U; name the file .conll or .conllu, or set data.format"
            )
        return found


class _Reader:
    """Collects the words of a sentence from line to line."""

    def __init__(self, path: str, format: TaggedFormat, word: int | str | None, tag: int | str | None, words_only: bool) -> None:
        self.path, self.format = path, format
        self.word = _place(word or ("form" if format == "conllu" else 1), format, "data.word_column")
        self.tag = _place(tag or "upos", format, "data.tag_column") if tag or format == "conllu" else None
        self.words_only = words_only
        self.found: list[tuple[int, str, str]] = []

    def read(self, number: int, line: str) -> Iterator[Sentence]:
        if not line.strip():
            yield from self.end()
        elif self.format == "conllu":
            self._read_conllu(number, line)
        elif line.startswith("-DOCSTART-"):
            yield from self.end()
        else:
            self._add(number, line.split("\t") if "\t" in line else line.split())

    def end(self) -> Iterator[Sentence]:
        if self.found:
            numbers, words, tags = zip(*self.found, strict=True)
            yield Sentence(words, () if self.words_only else tags, self.path, numbers)
        self.found = []

    def _read_conllu(self, number: int, line: str) -> None:
        if line.startswith("#"):
            return
        cells = line.split("\t")
        if not cells[0].isdigit():
            if cells[0].replace("-", ".", 1).replace(".", "", 1).isdigit():
                return  # 1-2 spells what the words 1 and 2 are together, 1.1 is a word that nobody wrote
            raise DataError(
                f"{self.path}:{number} begins with {cells[0][:20]!r}; a line of CoNLL-U begins with the number of its word and "
                'a tab; is it data.format = "conll"?'
            )
        self._add(number, cells)

    def _add(self, number: int, cells: list[str]) -> None:
        if self.tag is None and not self.words_only:
            self.tag = len(cells) - 1  # the last column of the first line is that of all
            if self.tag == self.word:
                raise self._too_few(number, cells, self.word + 1, "a tag behind the word")
        self._expect(number, cells, self.word, "the word", "data.word_column")
        if self.words_only:
            self.found.append((number, cells[self.word], ""))
            return
        assert self.tag is not None
        self._expect(number, cells, self.tag, "its tag", "data.tag_column")
        self.found.append((number, cells[self.word], cells[self.tag]))

    def _expect(self, number: int, cells: list[str], place: int, what: str, setting: str) -> None:
        if len(cells) <= place:
            raise self._too_few(number, cells, place, f"{what} in column {place + 1} ({setting})")
        if not cells[place].strip():
            raise DataError(f"{self.path}:{number} has nothing in column {place + 1}; expected {what} ({setting})")

    def _too_few(self, number: int, cells: list[str], place: int, expected: str) -> DataError:
        between = "tabs" if self.format == "conllu" or len(cells) > 1 else "tabs or spaces"
        count = f"{len(cells)} column{'s' if len(cells) > 1 else ''}"
        return DataError(f"{self.path}:{number} has {count}; expected {expected}, columns separated by {between}")


def _place(column: int | str, format: TaggedFormat, setting: str) -> int:
    if isinstance(column, int):
        return column - 1
    if format == "conll":
        raise ConfigError(f'{setting} is "{column}", and the columns of CoNLL have no names; give its number, from 1 on')
    if column.lower() not in COLUMNS:
        raise ConfigError(f'{setting} is "{column}"; CoNLL-U has no such column.{did_you_mean(column, COLUMNS)}')
    return COLUMNS.index(column.lower())


def _by_suffix(path: Path) -> TaggedFormat | None:
    match format_of(path):
        case "conll":
            return "conll"
        case "conllu":
            return "conllu"
        case _:
            return None
