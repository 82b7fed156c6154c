"""Sentence pairs: read from two files or from one, split, tokenised, those that are too long left out.

A sentence is one line: white space around it is no part of it, and a newline inside a cell of a table is a space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firth.errors import ConfigError, DataError, did_you_mean
from firth.progress import Progress, reading, silent
from firth.text.config import Format, PairsConfig, TokenizerConfig
from firth.text.data.holdout import held_out
from firth.text.data.pairs import Pairs
from firth.text.datasets import download
from firth.text.datasets.catalog import PairFiles, Split, data_set
from firth.text.datasets.dates import Part, dates
from firth.text.datasets.docs import docstring_summaries
from firth.text.readers.corpus import Corpus, find, spool
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.parquet import rows
from firth.text.readers.records import Column, Piece, format_of, pieces_of_text, records_of_file
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

_TABLES = ("jsonl", "csv", "tsv", "parquet")
_COMPOSED = ("dates", "docstrings", "prompts")  # named sets that are made here, not read from files of their own

Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and of the target; one twice where the vocabulary is joint


_SAID = {"0": "bad", "1": "good"}  # what the labels of sst2 are called where they are written out


class SentencePair(NamedTuple):
    where: str  # file and line, for messages
    source: str
    target: str


@dataclass(frozen=True)
class Parallel:
    """What a recipe's [data] and [tokenizer] give for sequence to sequence."""

    source_tokenizer: Tokenizer
    tokenizer: Tokenizer  # of the target; the same where the vocabulary is joint
    train: Pairs
    valid: Pairs | None
    test: Pairs | None
    sha256: str  # of the pairs that were split into training and held-out part
    dropped: int = 0  # pairs to train on that were longer than the limit
    limit: int | None = None

    @property
    def notice(self) -> str | None:
        """What the limit left out, in a sentence; None where it is nothing."""
        if not self.dropped:
            return None
        total = self.dropped + len(self.train)
        return (
            f"{self.dropped:,} of {total:,} training pairs ({100 * self.dropped / total:.2g} %) have more than {self.limit:,} "
            "tokens on a side and are left out; a higher limit keeps them"
        )


def prepare_parallel(
    data: PairsConfig,
    tokenizer: TokenizerConfig | Tokenizers,
    limit: int | None = None,
    progress: Progress = silent,
    *,
    all_texts: bool = False,
) -> Parallel:
    """Read, split, tokenise.

    Where there are no pairs of their own to validate with, `data.valid` of the pairs are held out: the end of a shuffle that
    depends on their number alone, so that runs with other seeds are compared on the same ones. Pairs with the same source
    stay together: a sentence that is held out is never seen in training, not even with another translation. Words are
    learned from the training part only (characters from the held-out one, too, as for running text). Pairs of more than
    `limit` tokens on a side, <eos> not counted, are left out of training, but never of validation and test. Those two keep
    their sentences as text, to compare with; the training pairs do with `all_texts`.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"a limit of {limit} tokens leaves no sentence pair; expected at least 1")
    read = _reader(data, progress)
    whole, valid, test = (read(part) for part in ("train", "valid", "test"))
    assert whole is not None
    train = whole
    if valid is None and data.valid:
        train, valid = held_out(whole, data.valid, _source_of, "pairs")
    if isinstance(tokenizer, TokenizerConfig):
        known = train + (valid or [] if tokenizer.kind == "char" else [])
        known += test or [] if data.name == "dates" else []  # written by us: what may come is known without looking
        tokenizer = _learned(tokenizer, known)
    encoded = _encoded(train, tokenizer, progress)
    kept = _within(encoded, limit)
    dropped = len(train) - len(kept)
    texts = ((train[n].source, train[n].target) for n in kept) if all_texts else None
    return Parallel(
        *tokenizer,
        train=Pairs.of([encoded[0][n] for n in kept], [encoded[1][n] for n in kept], texts),
        valid=None if valid is None else _kept_with_text(valid, tokenizer, progress),
        test=None if test is None else _kept_with_text(test, tokenizer, progress),
        sha256=_sha256(whole),
        dropped=dropped,
        limit=limit,
    )


def encode_parallel(
    path: str | Path, target_path: str | Path | None, tokenizers: Tokenizers, data: PairsConfig, progress: Progress = silent
) -> Pairs:
    """The pairs of another file or two, read as those of a run with these settings."""
    target = None if target_path is None else str(target_path)
    return _kept_with_text(_Form.of(data).read(str(path), target, progress), tokenizers, progress)


def sentence(text: str, data: PairsConfig) -> str:
    """A line of text as a run with these settings reads it."""
    line = text.replace("\n", " ").strip()
    return line.lower() if data.lower else line


def encode_source(text: str, tokenizer: Tokenizer, data: PairsConfig) -> Ids:
    """What the encoder of a run reads for a line of text, <eos> included."""
    return _ended(sentence(text, data), tokenizer)


def target_language(data: PairsConfig) -> str | None:
    """Of the translations, where it is known: a side of a named set that is called by its language."""
    if data.name in (None, "docs", *_COMPOSED):
        return None
    side = _sides(data, _pair_files(data))[1]
    return side if len(side) == len("en") else None


def _reader(data: PairsConfig, progress: Progress) -> Callable[[Part], list[SentencePair] | None]:
    """How each part is got; None for validation and test where there is nothing to read them from."""
    form = _Form.of(data)
    places = _places(data, progress)

    def read(part: Part) -> list[SentencePair] | None:
        if part in places:
            return form.read(*places[part], progress)
        match data.name:
            case "dates":
                return _dates(data, part)
            case "prompts":
                return _prompts(data, part, progress)
            case "docstrings":
                return _docstrings(data, progress) if part == "train" else None
            case _:
                return None

    return read


def _places(data: PairsConfig, progress: Progress) -> dict[Part, tuple[str, str | None]]:
    """The file of each part, and that of its translations where they are in another. What is given replaces what is named."""
    named = _named_places(data, progress)
    given: dict[Part, tuple[str | None, str | None]] = {
        "train": (data.path, data.target_path),
        "valid": (data.valid_path, data.valid_target_path),
        "test": (data.test_path, data.test_target_path),
    }
    return named | {part: (path, target) for part, (path, target) in given.items() if path is not None}


def _named_places(data: PairsConfig, progress: Progress) -> dict[Part, tuple[str, str | None]]:
    if data.name in (None, *_COMPOSED):
        return {}
    pairs = _pair_files(data)
    folder, split = download.local(data.name, progress), _split_of(data, pairs)
    source, target = _sides(data, pairs)
    parts: dict[Part, str | None] = {"train": split.train, "valid": split.valid, "test": split.test}
    if pairs.layout == "file each":
        return {
            part: (str(folder / f"{file}.{source}"), str(folder / f"{file}.{target}")) for part, file in parts.items() if file
        }
    return {part: (str(folder / file), None) for part, file in parts.items() if file}


def _pair_files(data: PairsConfig) -> PairFiles:
    entry = None if data.name == "docs" else data_set(str(data.name))
    if entry is None or entry.pairs is None:
        raise ConfigError(
            f'data.name = "{data.name}" is text without translations; expected "dates", "multi30k", "tatoeba-en-nl", "scan", '
            '"prompts" or "docstrings", or data.path'
        )
    return entry.pairs


def _split_of(data: PairsConfig, pairs: PairFiles) -> Split:
    by_name = {split.name: split for split in pairs.splits}
    if data.split is None:
        return pairs.splits[0]
    if data.split not in by_name:
        raise ConfigError(f'data.split is "{data.split}"; {data.name} has: {", ".join(by_name)}')
    return by_name[data.split]


def _sides(data: PairsConfig, pairs: PairFiles) -> tuple[str, str]:
    """The two sides of a named set in the direction that is asked for; one of them tells the other."""
    for key, side in (("source", data.source), ("target", data.target)):
        if side is not None and side not in pairs.sides:
            near = did_you_mean(side, pairs.sides)
            raise ConfigError(f'data.{key} is "{side}"; the sides of {data.name} are {" and ".join(pairs.sides)}.{near}')
    first, second = pairs.sides
    backwards = data.source == second or data.target == first
    return (second, first) if backwards else (first, second)


@dataclass(frozen=True)
class _Form:
    """How pairs are written in the files of a set."""

    wanted: tuple[Column, Column]
    columns: tuple[str, ...] | None  # of a table without a first line that names them
    in_out: bool  # "IN: … OUT: …", for files whose name does not say otherwise
    backwards: bool  # such files are read from right to left, so to say
    data: PairsConfig

    @classmethod
    def of(cls, data: PairsConfig) -> _Form:
        if data.text is not None:
            raise ConfigError("data.text is one text; sentence pairs need data.path, or a data.name that has translations")
        pairs = None if data.name in (None, *_COMPOSED) else _pair_files(data)
        source, target = _sides(data, pairs) if pairs else (data.source or "source", data.target or "target")
        return cls(
            (Column(source, "data.source"), Column(target, "data.target")),
            pairs.sides if pairs else data.columns,
            pairs is not None and pairs.layout == "in out",
            pairs is not None and source != pairs.sides[0],
            data,
        )

    def read(self, path: str, target_path: str | None, progress: Progress) -> list[SentencePair]:
        """The pairs of a file, or of two; a folder or a pattern stands for several."""
        corpus = spool(self.data.format) if path == "-" else find(path, self.data.format)
        try:
            if target_path is None:
                found = [self._checked(*pair) for pair in self._of_one(corpus, progress)]
            else:
                found = [self._checked(*pair) for pair in _of_two(corpus, find(target_path, self.data.format), progress)]
        finally:
            if path == "-":
                corpus.files[0].unlink(missing_ok=True)
        if not found:
            raise DataError(f"{corpus.name} is empty; expected sentence pairs")
        return found

    def _of_one(self, corpus: Corpus, progress: Progress) -> Iterator[SentencePair]:
        before = 0
        for path in corpus.files:
            yield from self._of_file(path, corpus.name, corpus.format, reading(progress, before, corpus.size))
            before += path.stat().st_size

    def _of_file(self, path: Path, name: str, format: Format, tick: Tick) -> Iterator[SentencePair]:
        chosen = format_of(path) if format == "auto" else format
        if chosen == "parquet":
            yield from _parquet(path, self.wanted, tick)
        elif chosen in _TABLES:
            for where, (source, target) in records_of_file(path, chosen, self.wanted, tick, self.columns):
                yield SentencePair(where, source, target)
        elif self.in_out:
            yield from _in_out(path, self.backwards, tick)
        else:
            raise DataError(
                f"{name} is read as txt, one side of the pairs; give the other with data.target_path (for validation "
                "data.valid_target_path, for test data.test_target_path), or a csv, tsv, jsonl or parquet file with both"
            )

    def _checked(self, where: str, source: str, target: str) -> SentencePair:
        pair = SentencePair(where, sentence(source, self.data), sentence(target, self.data))
        for column, text in zip(self.wanted, (pair.source, pair.target), strict=True):
            if not text:
                raise DataError(f"{where} has an empty {column.name}; expected both sides; remove that pair or complete it")
        return pair


def _of_two(source: Corpus, target: Corpus, progress: Progress) -> Iterator[SentencePair]:
    """Line by line, and file by file where there are several."""
    if len(source.files) != len(target.files):
        raise DataError(
            f"{source.name} is {len(source.files)} files and {target.name} is {len(target.files)}; expected as many of each"
        )
    for path in (*source.files, *target.files):
        if source.format == "auto" and format_of(path) in _TABLES:
            raise DataError(
                f"{path} is {format_of(path)}, and there is another file for the other side, as if it were lines of text; "
                'expected both sides in one such file, or data.format = "txt"'
            )
    total, before = source.size + target.size, 0
    for one, other in zip(source.files, target.files, strict=True):
        sides = []
        for path in (one, other):
            sides.append(list(lines(path, reading(progress, before, total))))
            before += path.stat().st_size
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{one} has {len(sides[0]):,} lines and {other} {len(sides[1]):,}; "
                "expected as many, line n of one the translation of line n of the other"
            )
        for number, (text, translation) in enumerate(zip(*sides, strict=True), start=1):
            blamed = other if text.strip() and not translation.strip() else one
            yield SentencePair(f"{blamed}:{number}", text, translation)


def _in_out(path: Path, backwards: bool, tick: Tick) -> Iterator[SentencePair]:
    """ "IN: walk twice OUT: I_WALK I_WALK", as SCAN is written."""
    for number, line in enumerate(lines(path, tick), start=1):
        command, middle, actions = line.strip().partition(" OUT:")
        if not middle or not command.startswith("IN:"):
            raise DataError(f'{path}:{number} is {line.strip()[:40]!r}; expected "IN: a command OUT: its actions"')
        source, target = command.removeprefix("IN:"), actions
        yield SentencePair(f"{path}:{number}", *((target, source) if backwards else (source, target)))


def _parquet(path: Path, wanted: tuple[Column, Column], tick: Tick) -> Iterator[SentencePair]:
    sides = (_column(path, column, tick) for column in wanted)
    for (where, source), (_, target) in zip(*sides, strict=True):
        yield SentencePair(where, source.replace("\r\n", "\n"), target.replace("\r\n", "\n"))


def _column(path: Path, column: Column, tick: Tick) -> Iterator[tuple[str, str]]:
    try:
        yield from rows(path, column.name, tick)
    except DataError as error:
        raise DataError(str(error).replace("data.field", column.setting)) from error


def _dates(data: PairsConfig, part: Part) -> list[SentencePair]:
    count = data.count if part == "train" else data.count // 10
    pairs = dates(data.locales, count, part)
    return [SentencePair(f"dates, {part} {n}", sentence(source, data), target) for n, (source, target) in enumerate(pairs, 1)]


def _docstrings(data: PairsConfig, progress: Progress) -> list[SentencePair]:
    found = enumerate(docstring_summaries(progress), 1)
    return [SentencePair(f"docstring {n}", sentence(rest, data), sentence(first, data)) for n, (rest, first) in found]


def _prompts(data: PairsConfig, part: Part, progress: Progress) -> list[SentencePair] | None:
    """Two tasks in one set, each told by the first word of its source and split as it is by itself: the sentiment of sst2, and
    the sentences of tatoeba-en-nl, which has no part to test on."""
    for key in ("source", "target", "split"):
        if getattr(data, key) is not None:
            raise ConfigError(
                f"data.{key} is {getattr(data, key)!r}; the prompts have two tasks, each with its own sides: leave it out"
            )
    found = [SentencePair(where, f"sentiment: {text}", said) for where, text, said in _sentiments(part, progress)]
    if part != "test":
        whole = _reader(PairsConfig(name="tatoeba-en-nl"), progress)("train")
        assert whole is not None
        train, valid = held_out(whole, data.valid, _source_of, "pairs") if data.valid else (whole, [])
        found += [pair._replace(source=f"dutch: {pair.source}") for pair in (train if part == "train" else valid)]
    return [SentencePair(where, sentence(source, data), sentence(target, data)) for where, source, target in found]


def _sentiments(part: Part, progress: Progress) -> Iterator[tuple[str, str, str]]:
    entry, folder = data_set("sst2"), download.local("sst2", progress)
    path = folder / str(getattr(entry, part))
    wanted = Column("text"), Column("label", numbers=True)
    for where, (text, label) in records_of_file(path, "auto", wanted, lambda done: None, entry.columns):
        yield where, text, _SAID[label]


def _source_of(pair: SentencePair) -> str:
    return pair.source


def _learned(config: TokenizerConfig, pairs: Sequence[SentencePair]) -> Tokenizers:
    documents = max(2, len(pairs))  # more than one, for an <eos> to end each
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.joint:
        both = Tokenizer.train(config, _pieces(sources + targets), 2 * documents)
        return both, both
    source, target = (Tokenizer.train(config, _pieces(texts), documents) for texts in (sources, targets))
    return source, target


def _pieces(texts: Iterable[str]) -> Iterator[Piece]:
    for text in texts:
        yield from pieces_of_text(text)


def _encoded(pairs: Sequence[SentencePair], tokenizers: Tokenizers, progress: Progress) -> tuple[list[Ids], list[Ids]]:
    sources, targets = [], []
    for n, pair in enumerate(pairs):
        try:
            sources.append(_ended(pair.source, tokenizers[0]))
            targets.append(_ended(pair.target, tokenizers[1]))
        except DataError as error:
            raise DataError(f"{pair.where}: {error}") from error
        if n % 1000 == 0 or n + 1 == len(pairs):
            progress("encoding", n + 1, len(pairs))
    return sources, targets


def _ended(text: str, tokenizer: Tokenizer) -> Ids:
    if tokenizer.eos is None:
        raise DataError("this tokenizer has no <eos>, which ends each sentence; expected one trained on sentence pairs")
    return np.append(tokenizer.encode(text), tokenizer.dtype(tokenizer.eos))


def _within(encoded: tuple[list[Ids], list[Ids]], limit: int | None) -> Sequence[int]:
    """Which pairs have at most `limit` tokens on each side and <eos>."""
    if limit is None:
        return range(len(encoded[0]))
    kept = [n for n, ids in enumerate(zip(*encoded, strict=True)) if max(map(len, ids)) <= limit + 1]
    if not kept:
        raise DataError(f"all {len(encoded[0]):,} training pairs have more than {limit} tokens on a side; raise the limit")
    return kept


def _kept_with_text(pairs: Sequence[SentencePair], tokenizers: Tokenizers, progress: Progress) -> Pairs:
    return Pairs.of(*_encoded(pairs, tokenizers, progress), texts=((pair.source, pair.target) for pair in pairs))


def _sha256(pairs: Iterable[SentencePair]) -> str:
    """Of both sides as UTF-8, and a byte after each that no UTF-8 contains."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(pair.source.encode() + b"\xff" + pair.target.encode() + b"\xff")
    return digest.hexdigest()
