"""Running text: from a recipe's `[data]` and `[tokenizer]` to a tokenizer and token files."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from firth.errors import ConfigError, DataError
from firth.files import exists
from firth.progress import Progress, silent
from firth.text.batches.token_files import TokenFile, token_file
from firth.text.config import DataConfig, RunningTextConfig, TokenizerConfig
from firth.text.data_set import DATA_SETS, READABLE
from firth.text.datasets import download
from firth.text.holdout import SplitData
from firth.text.limits import limits
from firth.text.readers.blank_records import BlankRecords, Empty
from firth.text.readers.corpus import Corpus, Scan, find, inline, part, scan, spool
from firth.text.readers.formats import by_suffix
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

C = TypeVar("C", bound=DataConfig)


@dataclass(frozen=True, kw_only=True)
class Prepared(SplitData[TokenFile]):
    """The data of a run on running text."""

    documents: int


def prepare(
    data: DataConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    progress: Progress | None = None,
    *,
    eos: bool = False,
    start: bool = False,
) -> Prepared:
    """Read, split, tokenise. Token files of the same text and tokenizer are reused from the cache.

    A "char" vocabulary covers the training and the held-out text; every other vocabulary is learned from the training part
    alone. The test text is never used to learn a vocabulary. With `eos`, a vocabulary learned here has <eos>, even if the text is
    one document; with `start`, one of characters has <start> if it has no <eos>, unless tokenizer.start is set.
    """
    report = progress or silent
    data = with_local_paths(data, report)
    with open_corpus(data, report) as main:
        corpus = _with_more(main, data)
        whole = scan(corpus, report)
        held_out = None if data.valid_path is None else _found(data, data.valid_path, report)
        held_out_scan = scan(held_out, report) if held_out else None
        cut = whole.characters if held_out else int((1 - data.valid) * whole.characters)
        if isinstance(tokenizer, TokenizerConfig):
            documents = max(whole.documents, 2) if eos else whole.documents
            if start and documents == 1:
                tokenizer = _with_start(tokenizer)
            tokenizer = _trained(tokenizer, corpus, whole, held_out_scan, cut, documents, report)
        train = token_file(corpus, whole, 0, cut, tokenizer, report)
        valid = None
        if held_out and held_out_scan:
            valid = token_file(held_out, held_out_scan, 0, held_out_scan.characters, tokenizer, report)
        elif cut < whole.characters:
            valid = token_file(corpus, whole, cut, whole.characters, tokenizer, report)
        test = _whole_file(data, tokenizer, report)
        return Prepared(tokenizer, train, valid, test, whole.sha256, documents=whole.documents)


def running_text(place: str) -> DataConfig:
    """A named data set, or the file, folder or glob pattern of that name; ./docs is a folder even where docs is a name."""
    return DataConfig(name=place) if has_files(place) else DataConfig(path=place)


def has_files(name: str) -> bool:
    """True if this is a named data set whose examples are in files."""
    if name not in DATA_SETS.all_kinds:
        return False
    entry = DATA_SETS[name]
    return bool(entry.files or entry.example or entry.parts)


def learn_tokenizer(tokenizer: TokenizerConfig, data: DataConfig, progress: Progress | None = None) -> Tokenizer:
    """The vocabulary of the whole training text, none of it held out."""
    report = progress or silent
    with open_corpus(with_local_paths(data, report), report) as corpus:
        whole = scan(corpus, report)
        return _trained(tokenizer, corpus, whole, None, whole.characters, whole.documents, report)


def encode_file(
    path: str | Path, tokenizer: Tokenizer, data: DataConfig | None = None, progress: Progress | None = None
) -> TokenFile:
    """All the text at `path` (file, folder, glob, or "-") as token ids.

    `data` are the settings of the run: its `field` applies here too, and its `format` if the file name announces none.
    """
    report = progress or silent
    with open_corpus(settings_for(str(path), data), report) as corpus:
        scanned = scan(corpus, report)
        return token_file(corpus, scanned, 0, scanned.characters - _foreign_end(corpus, scanned, tokenizer), tokenizer, report)


def _foreign_end(corpus: Corpus, scanned: Scan, tokenizer: Tokenizer) -> int:
    """1 if the vocabulary has no newline and the only one in the text is its last character, as editors write it; otherwise 0."""
    if tokenizer.unknown is not None or scanned.counts.get("\n") != 1 or not tokenizer.unseen("\n"):
        return 0
    *_, last = corpus.pieces()
    return int(last.text.endswith("\n"))


def read_text(path: str | Path, data: DataConfig | None = None) -> str:
    """All the text at `path` (file, folder, glob, or "-") as one string; `data` as for encode_file."""
    parts, length, most = list[str](), 0, limits()
    with open_corpus(settings_for(str(path), data), silent) as corpus:
        blank, documents = BlankRecords(), 0
        for piece in corpus.pieces(blank=blank.add):
            parts.append(piece.text)
            length += len(piece.text)
            documents += piece.ends_document
            most.check_line(Path(corpus.name), length, "a text")
    text = "".join(parts)
    blank.settle(corpus.empty, corpus.name, documents + blank.count)
    if not text:
        raise DataError(f"{corpus.name} is empty; expected some text")
    return text


def with_local_paths(data: C, progress: Progress) -> C:
    """Replaces names of the catalog by the paths of their files; validation and test paths that are set take precedence."""
    if more := getattr(data, "more", None):
        located = [_located(name, progress) for name in more]
        columns = data.columns or next((columns for _, columns in located if columns), None)
        data = dataclasses.replace(data, more=tuple(path for path, _ in located), columns=columns)  # type: ignore[call-arg]
    if data.name is None:
        return data
    entry = DATA_SETS[data.name]
    paths = {part: str(path) for part, path in download.parts(entry, progress).items()}
    return dataclasses.replace(
        data,
        name=None,
        path=paths["train"],
        valid_path=data.valid_path or paths.get("valid"),
        test_path=data.test_path or paths.get("test"),
        columns=entry.columns or data.columns,
    )


def _located(name: str, progress: Progress) -> tuple[str, tuple[str, ...] | None]:
    """The path of a further text, and the columns of a named set without a header line."""
    if not has_files(name) or exists(name):
        return name, None
    entry = DATA_SETS[name]
    if entry.holds not in READABLE:
        raise ConfigError(
            f'data.more contains "{name}", which is not running text. Choose another data set, or one of its files.'
        )
    return str(download.parts(entry, progress)["train"]), entry.columns


@contextlib.contextmanager
def open_corpus(data: DataConfig, progress: Progress) -> Iterator[Corpus]:
    """The corpus of data.text, of data.path, or the docs on this machine. A copy of standard input is deleted on exit."""
    if data.text is not None:
        yield inline(data.text, data.field, data.columns)
    elif data.path == "-":
        corpus = spool(data.format, data.field, data.columns, progress, _policy(data))
        try:
            yield corpus
        finally:
            corpus.files[0].unlink(missing_ok=True)
    elif data.path is not None:
        yield _found(data, data.path, progress)
    else:
        with open_corpus(with_local_paths(data, progress), progress) as corpus:
            yield corpus


def _with_more(corpus: Corpus, data: DataConfig) -> Corpus:
    """The texts of data.more, then the corpus. Refuses settings of columns if none of them has any."""
    more: tuple[str, ...] | None = getattr(data, "more", None)
    if more:
        if not corpus.files:
            raise ConfigError("data.more needs data.path or data.name, not data.text. Put the text into a file.")
        parts = (*(find(path, data.format) for path in more), corpus)
        corpus = dataclasses.replace(
            corpus,
            name=f"{corpus.name} and {', '.join(more)}",
            files=tuple(file for part in parts for file in part.files),
            format=data.format,
            columns=data.columns,
            parts=parts,
        )
    corpus.expect_columns("data.")
    return corpus


def _found(data: DataConfig, path: str, progress: Progress) -> Corpus:
    return find(path, data.format, data.field, data.columns, progress, _policy(data))


def _policy(data: DataConfig) -> Empty:
    """data.empty, if this kind of data has it."""
    policy: Empty = getattr(data, "empty", "skip")
    return policy


def settings_for(path: str, data: DataConfig | None) -> DataConfig:
    """The settings to read another file like those of a run: the run's columns, and its `format` if the suffix is unknown."""
    if data is None:
        return DataConfig(path=path)
    format = data.format if by_suffix(Path(path)) is None else "auto"
    return RunningTextConfig(path=path, format=format, field=data.field, columns=data.columns, empty=_policy(data))


def _whole_file(data: DataConfig, tokenizer: Tokenizer, progress: Progress) -> TokenFile | None:
    if data.test_path is None:
        return None
    return encode_file(data.test_path, tokenizer, data, progress)


def _with_start(config: TokenizerConfig) -> TokenizerConfig:
    return dataclasses.replace(config, start=True) if config.kind == "char" and config.start is None else config


def _trained(
    config: TokenizerConfig, corpus: Corpus, whole: Scan, held_out: Scan | None, cut: int, documents: int, progress: Progress
) -> Tokenizer:
    def reporting(pieces: Iterator[Piece]) -> Iterator[Piece]:
        done = 0
        for piece in pieces:
            yield piece
            done += len(piece.text)
            progress("learning the vocabulary", done, cut)

    counts = Counter(whole.counts) + Counter(held_out.counts if held_out else {})
    return Tokenizer.train(config, reporting(part(corpus.pieces(), 0, cut)), documents, counts)
