"""CoNLL and CoNLL-U: one word per line, its columns separated by tabs (CoNLL: or spaces), an empty line between sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from firth.errors import ConfigError, DataError, did_you_mean
from firth.text.readers.file_decoding import Tick, lines, suffix_of
from firth.text.readers.reader import Reader

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U


class Conll(Reader):
    kind, label, suffixes = "conll", "CoNLL", (".conll",)
    about = "One word per line with its columns, an empty line between sentences."
    contents, tagged = "tagged words, one per line", True


class ConllU(Conll):
    kind, label, suffixes = "conllu", "CoNLL-U", (".conllu",)
    about = "CoNLL with the ten columns of Universal Dependencies."


class Sentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty if only the words were requested
    path: str
    lines: tuple[int, ...]  # the line of each word, for messages


@dataclass(frozen=True)
class ConllColumns:
    """The format of a file of tagged sentences and its columns: a number, counted from 1, or a name of CoNLL-U."""

    format: str | None  # for files whose suffix says nothing
    word: int | str | None = None  # None: the first column of CoNLL, "form" of CoNLL-U
    tag: int | str | None = None  # None: the last column of CoNLL, "upos" of CoNLL-U
    explicit: bool = False  # `format` overrides the suffix

    def for_other_files(self) -> ConllColumns:
        """For files other than the run's own: their suffix overrides `format`."""
        return dataclasses.replace(self, explicit=False)

    def sentences(
        self, path: Path, tick: Tick = lambda done: None, *, words_only: bool = False, blank: Callable[[str], None] | None = None
    ) -> Iterator[Sentence]:
        """The sentences of a file, none of them empty. An empty line ends a sentence, and so does -DOCSTART- in CoNLL. In
        CoNLL-U, comments, multiword tokens (1-2) and empty nodes (1.1) are skipped. `blank` is called with the place of each word
        whose column, or whose tag's, is empty; without it, the first is an error."""
        reader = _Reader(str(path), self._format(path), self.word, None if words_only else self.tag, words_only, blank)
        for number, line in enumerate(lines(path, tick), start=1):
            yield from reader.read(number, line.rstrip("\n"))
        yield from reader.end()

    def sentences_of_lines(self, given: Iterable[str], name: str) -> Iterator[Sentence]:
        """The words of sentences that arrive line by line; `name` is for messages."""
        reader = _Reader(name, self.format or "conll", self.word, None, words_only=True)
        for number, line in enumerate(given, start=1):
            yield from reader.read(number, line)
        yield from reader.end()

    def _format(self, path: Path) -> str:
        format = self.format if self.explicit else tagged_format(path) or self.format
        if format is None and (self.word, self.tag) != (None, None):
            return _told_by_lines(path)
        if format is None:
            raise DataError(f"{path} may be CoNLL or CoNLL-U. Name the file .conll or .conllu, or set data.format.")
        return format


def _told_by_lines(path: Path) -> str:
    """CoNLL-U if the first line that is no comment has its ten columns, of which the first counts the words."""
    for line in lines(path, lambda done: None):
        cells = line.rstrip("\n").split("\t")
        if line.strip() and not (line.startswith("#") and len(cells) == 1):
            return "conllu" if len(cells) == len(COLUMNS) and cells[0].replace("-", "").isdigit() else "conll"
    return "conll"


class _Reader:
    """Collects the words of a sentence line by line."""

    def __init__(
        self,
        path: str,
        format: str,
        word: int | str | None,
        tag: int | str | None,
        words_only: bool,
        blank: Callable[[str], None] | None = None,
    ) -> None:
        self.path, self.format, self.blank = path, format, blank
        self.word = _place(word or ("form" if format == "conllu" else 1), format, "data.word_column")
        self.tag = _place(tag or "upos", format, "data.tag_column") if tag or format == "conllu" else None
        self.words_only = words_only
        self.tokens: list[tuple[int, str, str]] = []

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
        if self.tokens:
            numbers, words, tags = zip(*self.tokens, strict=True)
            yield Sentence(words, () if self.words_only else tags, self.path, numbers)
        self.tokens = []

    def _read_conllu(self, number: int, line: str) -> None:
        if line.startswith("#"):
            return
        cells = line.split("\t")
        if not cells[0].isdigit():
            if cells[0].replace("-", ".", 1).replace(".", "", 1).isdigit():
                return  # 1-2 spells the words 1 and 2 together, 1.1 is a word that is not in the text
            raise DataError(
                f"{self.path}:{number} begins with {cells[0][:20]!r}; a line of CoNLL-U begins with the number of its word and "
                'a tab. Is it data.format = "conll"?'
            )
        self._add(number, cells)

    def _add(self, number: int, cells: list[str]) -> None:
        if self.tag is None and not self.words_only:
            self.tag = len(cells) - 1  # the last column of the first line, for all lines
            if self.tag == self.word:
                raise self._too_few(number, cells, "a tag after the word")
        word = self._cell(number, cells, self.word, "the word", "data.word_column")
        tag = "" if self.words_only else self._cell(number, cells, self.tag, "its tag", "data.tag_column")
        if self.blank is not None and not (word.strip() and (tag.strip() or self.words_only)):
            self.blank(f"{self.path}:{number}")
        else:
            self.tokens.append((number, word, tag))

    def _cell(self, number: int, cells: list[str], place: int | None, what: str, setting: str) -> str:
        assert place is not None
        if len(cells) <= place:
            raise self._too_few(number, cells, f"{what} in column {place + 1} ({setting})")
        if not cells[place].strip() and self.blank is None:
            raise DataError(f"{self.path}:{number}: column {place + 1} is empty; expected {what} ({setting})")
        return cells[place]

    def _too_few(self, number: int, cells: list[str], expected: str) -> DataError:
        between = "tabs" if self.format == "conllu" or len(cells) > 1 else "tabs or spaces"
        count = f"{len(cells)} column{'s' if len(cells) > 1 else ''}"
        return DataError(f"{self.path}:{number} has {count}; expected {expected}, columns separated by {between}")


def _place(column: int | str, format: str, setting: str) -> int:
    if isinstance(column, int):
        return column - 1
    if format == "conll":
        raise ConfigError(f'{setting} is "{column}", but the columns of CoNLL have no names. Give its number, counted from 1.')
    if column.lower() not in COLUMNS:
        raise ConfigError(f'{setting} is "{column}"; CoNLL-U has no such column.{did_you_mean(column, COLUMNS)}')
    return COLUMNS.index(column.lower())


def tagged_format(path: Path) -> str | None:
    """The format that the suffix announces, compression aside."""
    return next((one.kind for one in (Conll, ConllU) if suffix_of(path) in one.suffixes), None)
