"""Texts with a label each, for classification: read, split and tokenised."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firth.errors import ConfigError, DataError, did_you_mean
from firth.files import exists
from firth.progress import Progress, reported, silent
from firth.text.batches.examples import Examples
from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.lengths import left_out
from firth.text.data.running_text import has_files, open_corpus, settings_for, with_local_paths
from firth.text.data_set import DATA_SETS, DataSet
from firth.text.datasets import download
from firth.text.datasets.negations import negations_file
from firth.text.fingerprint import sha256_of_texts
from firth.text.holdout import SplitData, parts
from firth.text.readers.blank_records import BlankRecords, Empty
from firth.text.readers.corpus import Corpus, find
from firth.text.readers.formats import one_of_tables, records
from firth.text.readers.pieces import pieces_of_texts
from firth.text.readers.reader import Column
from firth.text.tokenizers.tokenizer import Tokenizer

_SEVERAL = 8  # labels named in a message


class LabelledText(NamedTuple):
    where: str  # file and line, for messages
    text: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Labelled(SplitData[Examples]):
    """The data of a classification run."""

    labels: tuple[str, ...]  # the classes; an example stores the number of its class


def prepare_labelled(
    data: LabelledConfig,
    tokenizer: TokenizerConfig | Tokenizer,
    progress: Progress = silent,
    *,
    limit: int | None = None,
    also: Sequence[str] = (),
) -> Labelled:
    """Read, split, tokenise.

    Without a validation file, `data.valid` of the examples are held out: the end of a shuffle that depends on their number
    alone, so that runs with different seeds are compared on the same examples. The classes are the labels of the whole file,
    held-out part included, unless data.labels lists them. The vocabulary is learned from the training part alone (characters
    also from the held-out part, as for running text); the words `also` are added to it. Texts of more than `limit` tokens are
    left out of training, but not of validation and test.
    """
    layout, more_names = _Layout.of(data), data.more or ()
    data = with_local_paths(dataclasses.replace(data, more=None), progress)
    with open_corpus(data, progress) as corpus:
        whole = list(layout.read(corpus, progress))
    more = [example for name in more_names for example in _more(name, data, layout, progress)]
    labels = _classes(whole + more, data.labels, corpus.name)
    train, valid, test = parts(data, whole, lambda path: layout.read(find(path, data.format, data.field), progress), "examples")
    train = train + more
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(train, valid)
        texts = pieces_of_texts(example.text for example in known)
        tokenizer = Tokenizer.train(tokenizer, texts, documents=len(known), also=also)
    encoded = _encoded(train, tokenizer, labels, progress)
    kept = encoded.within(limit)
    notice = left_out(len(encoded), len(kept), f"training texts of {corpus.name}", f"{limit} tokens", "model.context")
    return Labelled(
        tokenizer,
        kept,
        None if valid is None else _encoded(valid, tokenizer, labels, progress),
        None if test is None else _encoded(test, tokenizer, labels, progress),
        sha256_of_texts((example.text, example.label) for example in whole + more),
        notice,
        labels=labels,
    )


def _more(name: str, data: LabelledConfig, layout: _Layout, progress: Progress) -> Iterator[LabelledText]:
    """The examples of one entry of data.more."""
    if name == "negations":
        own, path = _Layout((Column("text"), Column("label")), None, {}, "refuse"), negations_file()
    elif has_files(name) and not exists(name):
        entry = DATA_SETS[name]
        if entry.holds != "labelled texts":
            raise ConfigError(f'data.more contains "{name}", which has no labelled texts. Choose another data set or a file.')
        own, path = _Layout.of_set(entry, data), download.parts(entry, progress)["train"]
    else:
        own, path = layout, Path(name)
    yield from own.read(find(str(path), data.format if own is layout else "auto"), progress)


def encode_labelled(path: str | Path, tokenizer: Tokenizer, data: LabelledConfig, progress: Progress = silent) -> Examples:
    """The examples at `path`, read with the settings and the classes of a run."""
    layout = _Layout.of(data)
    assert data.labels is not None
    with open_corpus(settings_for(str(path), data), progress) as corpus:
        return _encoded(list(layout.read(corpus, progress)), tokenizer, data.labels, progress)


def read_texts(path: Path, data: LabelledConfig) -> Iterator[str]:
    """The texts of a file with columns, with or without labels, read with the settings of a run."""
    layout, format = _Layout.of(data), settings_for(str(path), data).format
    for record in records(path, [Column(data.field, nullable=True)], format, header=layout.header):
        yield record.texts[0]


@dataclass(frozen=True)
class _Layout:
    """The places of text and label in the files of a set."""

    columns: tuple[Column, Column]
    header: tuple[str, ...] | None
    meanings: dict[str, str]  # of labels that the files abbreviate
    empty: Empty

    @classmethod
    def of(cls, data: LabelledConfig) -> _Layout:
        if data.name is not None:
            return cls.of_set(DATA_SETS[data.name], data)
        return cls(_columns(data), data.columns, {}, data.empty)

    @classmethod
    def of_set(cls, entry: DataSet, data: LabelledConfig) -> _Layout:
        return cls(_columns(data), entry.columns or data.columns, dict(entry.labels), data.empty)

    def read(self, corpus: Corpus, progress: Progress) -> Iterator[LabelledText]:
        if not corpus.files:
            raise DataError(f"{corpus.name} is text without labels. Set data.path to a {one_of_tables()} file.")
        blank, unlabelled, total = BlankRecords(), BlankRecords(), 0
        for path, tick in corpus.each_file(progress):
            for where, (text, label) in records(path, self.columns, corpus.format, tick, self.header):
                total += 1
                if not text.strip():
                    blank.add(where)
                elif not label.strip():
                    unlabelled.add(where)
                else:
                    yield LabelledText(where, text, self.meanings.get(label.strip(), label.strip()))
        unlabelled.refuse(corpus.name, total, "no label", "Complete or remove them.")
        if blank.count == total:
            raise DataError(f"{corpus.name} is empty; expected texts with labels")
        blank.settle(self.empty, corpus.name, total)


def _columns(data: LabelledConfig) -> tuple[Column, Column]:
    return Column(data.field, nullable=True), Column(data.label, "data.label", numbers=True, nullable=True)


def _classes(examples: Sequence[LabelledText], given: tuple[str, ...] | None, name: str) -> tuple[str, ...]:
    labels = {example.label for example in examples}
    if given is not None:
        return given  # an unknown label is refused when it is encoded, with its line
    if len(labels) < 2:
        raise DataError(f'all {len(examples):,} texts of {name} are labelled "{labels.pop()}"; expected two classes or more')
    return tuple(sorted(labels, key=_by_value if all(map(_is_number, labels)) else str))


def _by_value(label: str) -> tuple[float, str]:
    return float(label), label


def _is_number(label: str) -> bool:
    try:
        return float(label) == float(label)  # not "nan", which cannot be sorted
    except ValueError:
        return False


def _encoded(examples: Sequence[LabelledText], tokenizer: Tokenizer, labels: tuple[str, ...], progress: Progress) -> Examples:
    number = {label: n for n, label in enumerate(labels)}
    texts, numbers = [], []
    for example in reported(examples, "encoding", progress):
        if example.label not in number:
            raise DataError(f'{example.where} is labelled "{example.label}"; the classes are {listed(example.label, labels)}')
        texts.append(tokenizer.surrounded(tokenizer.encode(example.text)))
        numbers.append(number[example.label])
    return Examples.of(texts, np.array(numbers, np.int64))


def listed(given: str, labels: Sequence[str]) -> str:
    """The first labels, for a message; where there are more, also the one most similar to `given`."""
    if len(labels) <= _SEVERAL:
        return f"{', '.join(labels)}."
    return f"{', '.join(labels[:_SEVERAL])}, ….{did_you_mean(given, labels)}"
