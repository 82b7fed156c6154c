"""Texts with a label each: read, split, tokenised, and put into batches whose place in the data is one integer.

Letters: N examples, B rows of a batch, T tokens of its longest text. The examples are held in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError, did_you_mean
from firth.progress import Progress, reading, silent
from firth.text.batches.buckets import Buckets, by_length
from firth.text.batches.permutation import keys, permuted
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.running_text import elsewhere, located, opened
from firth.text.datasets.catalog import data_set
from firth.text.readers.corpus import Corpus, find
from firth.text.readers.records import Column, Piece, pieces_of_text, records_of_file
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

_SPLIT = 1  # what a key is for
_SEVERAL = 8  # labels named in a message


class Example(NamedTuple):
    where: str  # file and line, for messages
    text: str
    label: str


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    token_BT: NDArray[np.int64]  # padded with 0; only the first `length_B` of each row are read
    length_B: NDArray[np.int64]
    label_B: NDArray[np.int64]
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are read; padding is not."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Examples:
    """Encoded texts, one after the other, and the number of each one's label."""

    ids: Ids
    starts: NDArray[np.int64]  # where each text begins, and where the last one ends: N + 1 numbers
    label_N: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.label_N)

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def length_N(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def batch(self, row_B: NDArray[np.int64]) -> LabelledBatch:
        token_BT, length_B = padded([self.ids[self.starts[row] : self.starts[row + 1]] for row in row_B])
        return LabelledBatch(token_BT, length_B, self.label_N[row_B])

    def sweep(self, batch: int) -> Iterator[tuple[NDArray[np.int64], LabelledBatch]]:
        """Once over all examples, those of similar length together: each batch, and which examples its rows are."""
        for row_B in by_length(self.length_N, batch):
            yield row_B, self.batch(row_B)

    def within(self, limit: int | None) -> Examples:
        """Those of at most `limit` tokens."""
        if limit is None or not (self.length_N > limit).any():
            return self
        kept = np.flatnonzero(self.length_N <= limit)
        texts = [self.ids[self.starts[row] : self.starts[row + 1]] for row in kept]
        return Examples.of(texts, self.label_N[kept])

    @classmethod
    def of(cls, texts: Sequence[Ids], label_N: NDArray[np.int64]) -> Examples:
        starts = np.concatenate(([0], np.cumsum([len(ids) for ids in texts], dtype=np.int64)))
        return cls(np.concatenate(texts) if texts else np.zeros(0, np.uint16), starts, label_N)


@dataclass(frozen=True)
class Labelled:
    """What a recipe's [data] and [tokenizer] give for classification."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]  # the classes; an example has the number of one
    train: Examples
    valid: Examples | None
    test: Examples | None
    sha256: str  # of the examples that were split into training and held-out part
    dropped: int = 0  # texts to train on that were longer than the limit
    limit: int | None = None

    @property
    def notice(self) -> str | None:
        """What the limit left out, in a sentence; None where it is nothing."""
        if not self.dropped:
            return None
        total = self.dropped + len(self.train)
        return (
            f"{self.dropped:,} of {total:,} training texts ({100 * self.dropped / total:.2g} %) have more than {self.limit:,} "
            "tokens, the longest that the model reads, and are left out; a larger model.context keeps them"
        )


class BucketedExamples:
    """Batches of `batch` examples of similar length; see Buckets."""

    def __init__(self, examples: Examples, batch: int, seed: int) -> None:
        self.position = 0
        self._examples, self._buckets = examples, Buckets(examples.length_N, batch, seed)

    def seek(self, position: int) -> None:
        self.position = position

    def next(self) -> LabelledBatch:
        row_B = self._buckets.rows(self.position)
        self.position += 1
        return self._examples.batch(row_B)


def padded(texts: Sequence[Ids]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """token_BT, as long as the longest text, and length_B."""
    length_B = np.array([len(ids) for ids in texts], np.int64)
    token_BT = np.zeros((len(texts), int(length_B.max(initial=0))), np.int64)
    for row, ids in enumerate(texts):
        token_BT[row, : len(ids)] = ids
    return token_BT, length_B


def prepare_labelled(
    data: LabelledConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    progress: Progress = silent,
    *,
    limit: int | None = None,
    also: Sequence[str] = (),
) -> Labelled:
    """Read, split, tokenise.

    Where there is no validation file, `data.valid` of the examples are held out: the end of a shuffle that depends on their
    number alone, so that runs with other seeds are compared on the same ones. The classes are the labels of the whole file,
    the held-out part included, unless data.labels gives them. Words are learned from the training part only (characters from
    the held-out one, too, as for running text), and those of `also` are in the vocabulary whether it has them or not. Texts of
    more than `limit` tokens are left out of training, but never of validation and test.
    """
    form = _Form.of(data)
    data = located(data, progress)
    with opened(data, progress) as corpus:
        whole = list(form.read(corpus, progress))
    labels = _classes(whole, data.labels, corpus.name)
    train, valid = whole, None
    if data.valid_path is not None:
        valid = list(form.read(find(data.valid_path, data.format, data.field), progress))
    elif data.valid:
        train, valid = _split(whole, data.valid)
    if isinstance(tokenizer, TokenizerConfig):
        known = train + (valid or [] if tokenizer.kind == "char" else [])
        tokenizer = Tokenizer.train(tokenizer, _pieces(known), documents=len(known), also=also)
    encoded = _encoded(train, tokenizer, labels, progress)
    kept = encoded.within(limit)
    if not len(kept):
        raise DataError(
            f"all {len(encoded):,} training texts of {corpus.name} have more than {limit:,} tokens, the longest that the model "
            "reads; set a larger model.context"
        )
    test = None if data.test_path is None else list(form.read(find(data.test_path, data.format, data.field), progress))
    return Labelled(
        tokenizer,
        labels,
        kept,
        None if valid is None else _encoded(valid, tokenizer, labels, progress),
        None if test is None else _encoded(test, tokenizer, labels, progress),
        _sha256(whole),
        len(encoded) - len(kept),
        limit,
    )


def encode_labelled(path: str | Path, tokenizer: Tokenizer, data: LabelledConfig, progress: Progress = silent) -> Examples:
    """The examples at `path`, read as those of a run with these settings and of its classes."""
    form = _Form.of(data)
    assert data.labels is not None
    with opened(elsewhere(str(path), data), progress) as corpus:
        return _encoded(list(form.read(corpus, progress)), tokenizer, data.labels, progress)


def read_texts(path: Path, data: LabelledConfig) -> Iterator[str]:
    """The texts of a jsonl, csv or tsv file, labelled or not, read as those of a run."""
    form, format = _Form.of(data), elsewhere(str(path), data).format
    for _, (text,) in records_of_file(path, format, [Column(data.field)], lambda done: None, form.columns):
        yield text


@dataclass(frozen=True)
class _Form:
    """How examples are written in the files of a set."""

    wanted: tuple[Column, Column]
    columns: tuple[str, ...] | None
    meanings: dict[str, str]  # of the labels that are written otherwise

    @classmethod
    def of(cls, data: LabelledConfig) -> _Form:
        entry = None if data.name in (None, "docs") else data_set(str(data.name))
        columns = entry.columns if entry else data.columns
        wanted = Column(data.field), Column(data.label, "data.label", numbers=True)
        return cls(wanted, columns, dict(entry.labels) if entry else {})

    def read(self, corpus: Corpus, progress: Progress) -> Iterator[Example]:
        if not corpus.files:
            raise DataError(f"{corpus.name} is text without labels; give data.path, a csv, tsv or jsonl file")
        before, empty = 0, True
        for path in corpus.files:
            for where, (text, label) in records_of_file(
                path, corpus.format, self.wanted, reading(progress, before, corpus.size), self.columns
            ):
                yield _checked(Example(where, text, self.meanings.get(label.strip(), label.strip())))
                empty = False
            before += path.stat().st_size
        if empty:
            raise DataError(f"{corpus.name} is empty; expected texts with labels")


def _checked(example: Example) -> Example:
    for name, value in (("text", example.text.strip()), ("label", example.label)):
        if not value:
            raise DataError(f"{example.where} has an empty {name}; expected both; remove that record or complete it")
    return example


def _classes(examples: Sequence[Example], given: tuple[str, ...] | None, name: str) -> tuple[str, ...]:
    found = {example.label for example in examples}
    if given is not None:
        return given  # a label that is not among them is refused where it is encoded, with its line
    if len(found) < 2:
        raise DataError(f'all {len(examples):,} texts of {name} are labelled "{found.pop()}"; expected two classes or more')
    return tuple(sorted(found, key=_by_value if all(map(_is_number, found)) else str))


def _by_value(label: str) -> tuple[float, str]:
    return float(label), label


def _is_number(label: str) -> bool:
    try:
        return float(label) == float(label)  # not "nan", which has no place in an order
    except ValueError:
        return False


def _split(examples: list[Example], share: float) -> tuple[list[Example], list[Example]]:
    key = keys(0, np.zeros(1, np.uint64), _SPLIT)
    order = permuted(np.arange(len(examples), dtype=np.uint64), len(examples), key)
    cut = int((1 - share) * len(examples))
    if cut == 0:
        raise DataError(
            f"with data.valid = {share} nothing is left of {len(examples)} examples to train on; give more, or a smaller share"
        )
    shuffled = [examples[place] for place in order.tolist()]
    return shuffled[:cut], shuffled[cut:]


def _pieces(examples: Iterable[Example]) -> Iterator[Piece]:
    for example in examples:
        yield from pieces_of_text(example.text)


def _encoded(examples: Sequence[Example], tokenizer: Tokenizer, labels: tuple[str, ...], progress: Progress) -> Examples:
    number = {label: n for n, label in enumerate(labels)}
    texts, label_N = [], np.zeros(len(examples), np.int64)
    for n, example in enumerate(examples):
        if example.label not in number:
            shown = ", ".join(labels[:_SEVERAL]) + (", …" if len(labels) > _SEVERAL else "")
            near = did_you_mean(example.label, labels) if len(labels) > _SEVERAL else ""
            raise DataError(f'{example.where} is labelled "{example.label}"; the classes are {shown}.{near}')
        texts.append(tokenizer.encode(example.text))
        label_N[n] = number[example.label]
        if n % 1000 == 0 or n + 1 == len(examples):
            progress("encoding", n + 1, len(examples))
    return Examples.of(texts, label_N)


def _sha256(examples: Iterable[Example]) -> str:
    """Of the texts and labels as UTF-8, and a byte after each that no UTF-8 contains."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.text.encode() + b"\xff" + example.label.encode() + b"\xff")
    return digest.hexdigest()
