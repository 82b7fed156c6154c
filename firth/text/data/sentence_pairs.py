"""Sentence pairs from files: both sides in one table, or line by line in two text files.

A sentence is one line: white space around it is removed, and a newline inside a cell becomes a space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from firth.errors import ConfigError, DataError, did_you_mean
from firth.progress import Progress, file_progress
from firth.text.config import PairsConfig
from firth.text.conversation import QuestionFacts
from firth.text.data_set import DATA_SETS, PARTS, PairFiles, Part, Split, fitting, named
from firth.text.datasets import download
from firth.text.readers.blank_records import BlankRecords
from firth.text.readers.corpus import Corpus, find, spool
from firth.text.readers.formats import file_format, one_of_tables, records, text_lines
from firth.text.readers.reader import Column, Reader, TableReader
from firth.text.readers.record_lines import InOut


class SentencePair(NamedTuple):
    where: str  # file and line, for messages
    source: str
    target: str
    asked: QuestionFacts | None = None  # facts about the source, where it is a question of a conversation


def sentence(text: str, data: PairsConfig) -> str:
    """A line of text, normalised as the run's data are."""
    line = text.replace("\n", " ").strip()
    return line.lower() if data.lower else line


def target_language(data: PairsConfig) -> str | None:
    """The language of the translations, where it is known: a side of a named set that is called by its language."""
    pairs = _pair_files(data)
    if pairs is None:
        return None
    side = _sides(data, pairs)[1]
    return side if len(side) == len("en") else None


def pair_paths(data: PairsConfig, progress: Progress) -> dict[Part, tuple[str, str | None]]:
    """The file of each part, and that of its translations if they have their own. Explicit paths replace those of a named set."""
    named = _named_paths(data, progress)
    given: dict[Part, tuple[str | None, str | None]] = {
        "train": (data.path, data.target_path),
        "valid": (data.valid_path, data.valid_target_path),
        "test": (data.test_path, data.test_target_path),
    }
    return named | {part: (path, target) for part, (path, target) in given.items() if path is not None}


def _named_paths(data: PairsConfig, progress: Progress) -> dict[Part, tuple[str, str | None]]:
    pairs = _pair_files(data)
    if data.name is not None and DATA_SETS[data.name].example:
        path_of = download.parts(DATA_SETS[data.name], progress)
        return {part: (str(path_of[part]), None) for part in PARTS}
    if data.name is None or pairs is None:
        return {}
    folder, split = download.local(data.name, progress), _split_of(data, pairs)
    source, target = _sides(data, pairs)
    parts: dict[Part, str | None] = {"train": split.train, "valid": split.valid, "test": split.test}
    if pairs.layout == "file each":
        return {
            part: (str(folder / f"{file}.{source}"), str(folder / f"{file}.{target}")) for part, file in parts.items() if file
        }
    return {part: (str(folder / file), None) for part, file in parts.items() if file}


def _pair_files(data: PairsConfig) -> PairFiles | None:
    if data.name is None:
        return None
    entry = DATA_SETS[data.name]
    if entry.holds not in fitting("sentence pairs"):
        raise ConfigError(f'data.name = "{data.name}" has no translations. Choose {named("sentence pairs")}, or set data.path.')
    return entry.pairs


def _split_of(data: PairsConfig, pairs: PairFiles) -> Split:
    by_name = {split.name: split for split in pairs.splits}
    if data.split is None:
        return pairs.splits[0]
    if data.split not in by_name:
        raise ConfigError(f'data.split is "{data.split}"; {data.name} has: {", ".join(by_name)}')
    return by_name[data.split]


def _sides(data: PairsConfig, pairs: PairFiles) -> tuple[str, str]:
    """Source and target of a named set in the requested direction; either of them determines the other."""
    for key, side in (("source", data.source), ("target", data.target)):
        if side is not None and side not in pairs.sides:
            near = did_you_mean(side, pairs.sides)
            raise ConfigError(f'data.{key} is "{side}"; the sides of {data.name} are {" and ".join(pairs.sides)}.{near}')
    first, second = pairs.sides
    backwards = data.source == second or data.target == first
    return (second, first) if backwards else (first, second)


@dataclass(frozen=True)
class PairReader:
    """Reads the pairs of a run, and of other files with the settings of that run."""

    columns: tuple[Column, Column]
    header: tuple[str, ...] | None  # names of the columns of a table whose first line does not name them
    layout: type[Reader] | None  # of files that announce no format with columns; None: they hold one side
    data: PairsConfig

    @classmethod
    def of(cls, data: PairsConfig) -> PairReader:
        if data.text is not None:
            raise ConfigError("data.text is a single text. For sentence pairs set data.path, or a data.name with translations.")
        pairs = _pair_files(data)
        source, target = _sides(data, pairs) if pairs else (data.source or "source", data.target or "target")
        return cls(
            (Column(source, "data.source", nullable=True), Column(target, "data.target", nullable=True)),
            pairs.sides if pairs else data.columns,
            InOut if pairs is not None and pairs.layout == "in out" else None,
            data,
        )

    def read(self, path: str, target_path: str | None, progress: Progress) -> list[SentencePair]:
        """The pairs of one file, or of two; a folder or a pattern stands for several."""
        corpus = spool(self.data.format) if path == "-" else find(path, self.data.format)
        try:
            if target_path is None:
                pairs = self._complete(self._of_one(corpus, progress), corpus.name)
            else:
                pairs = self._complete(_of_two(corpus, find(target_path, self.data.format), progress), corpus.name)
        finally:
            if path == "-":
                corpus.files[0].unlink(missing_ok=True)
        return pairs

    def _complete(self, pairs: Iterable[SentencePair], name: str) -> list[SentencePair]:
        """The normalised pairs that have both sides; see data.empty."""
        whole = [
            pair._replace(source=sentence(pair.source, self.data), target=sentence(pair.target, self.data)) for pair in pairs
        ]
        complete, blank = [pair for pair in whole if pair.source and pair.target], BlankRecords()
        if not complete:
            raise DataError(f"{name} is empty; expected sentence pairs")
        for pair in whole:
            if not (pair.source and pair.target):
                blank.add(pair.where)
        blank.settle(self.data.empty, name, len(whole), "a blank side")
        return complete

    def _of_one(self, corpus: Corpus, progress: Progress) -> Iterator[SentencePair]:
        named = self.data.columns is not None or self.data.source is not None or self.data.target is not None
        for path, tick in corpus.each_file(progress):
            format = file_format(path, corpus.format, columns=named)
            if not issubclass(format, TableReader):
                format = self.layout or format
            if not issubclass(format, TableReader):
                raise DataError(
                    f"{corpus.name} is read as {format.kind}, one side of the pairs. Set data.target_path to the other side (for "
                    f"validation data.valid_target_path, for test data.test_target_path), or use one {one_of_tables()} file."
                )
            for where, (source, target) in records(path, self.columns, format, tick, self.header):
                yield SentencePair(where, source, target)


def _of_two(source: Corpus, target: Corpus, progress: Progress) -> Iterator[SentencePair]:
    """Line by line, and file by file if there are several."""
    if len(source.files) != len(target.files):
        raise DataError(
            f"{source.name} is {len(source.files)} files and {target.name} is {len(target.files)}; expected equal numbers"
        )
    for path in (*source.files, *target.files):
        format = file_format(path, source.format)
        if source.format == "auto" and issubclass(format, TableReader):
            raise DataError(
                f"{path} is {format.kind}, but the other side has a file of its own. Put both sides into one such file, or set "
                'data.format = "txt" to pair lines of text.'
            )
    total, before = source.size + target.size, 0
    for one, other in zip(source.files, target.files, strict=True):
        sides = []
        for path in (one, other):
            reader = file_format(path, source.format)
            sides.append(list(text_lines(path, reader, file_progress(progress, before, total))))
            before += path.stat().st_size
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{one} has {len(sides[0]):,} lines and {other} {len(sides[1]):,}; "
                "expected equal numbers: line n of one file is the translation of line n of the other"
            )
        for number, (text, translation) in enumerate(zip(*sides, strict=True), start=1):
            blamed = other if text.strip() and not translation.strip() else one
            yield SentencePair(f"{blamed}:{number}", text, translation)
