"""Sentences with a tag for each word: read, split and tokenised.

A tokenizer may cut a word into several pieces; the tag of the word belongs to the first of them. A word also has its spelling,
the bytes of its UTF-8, for models that use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firth.errors import DataError
from firth.progress import Progress, reported, silent
from firth.text.batches.sentences import Sentences
from firth.text.config import TaggedConfig, TagScheme, TokenizerConfig
from firth.text.data.labelled import listed
from firth.text.data.running_text import open_corpus, with_local_paths
from firth.text.data.tag_schemes import in_scheme
from firth.text.data_set import DATA_SETS
from firth.text.fingerprint import sha256_of_texts
from firth.text.holdout import SplitData, parts
from firth.text.readers.blank_records import BlankRecords
from firth.text.readers.conll import ConllColumns, Sentence, tagged_format
from firth.text.readers.corpus import Corpus, find
from firth.text.readers.pieces import pieces_of_texts
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.word_alignment import WordAligner

_SENTENCE_END = b"\xfe"  # hashed after each sentence; no UTF-8 text contains it


@dataclass(frozen=True, kw_only=True)
class Tagged(SplitData[Sentences]):
    """The data of a tagging run."""

    labels: tuple[str, ...]  # the tags; a word stores the number of its tag


def prepare_tagged(data: TaggedConfig, tokenizer: TokenizerConfig | Tokenizer, progress: Progress = silent) -> Tagged:
    """Read, split, tokenise.

    Without a validation file, `data.valid` of the sentences are held out: the end of a shuffle that depends on their number
    alone. The tags are those of the whole file, unless data.labels lists them; a tag that occurs only in another file is
    refused. The vocabulary is learned from the training part alone (characters also from the held-out part, as for running
    text).
    """
    columns = conll_columns(data)
    data = with_local_paths(data, progress)
    with open_corpus(data, progress) as corpus:
        whole = _read(corpus, columns, data.tag_scheme, progress)
    labels = _tags(whole, data.labels, corpus.name)
    train, valid, test = parts(
        data, whole, lambda path: _read(find(path, data.format), columns, data.tag_scheme, progress), "sentences"
    )
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(train, valid)
        texts = pieces_of_texts(" ".join(sentence.words) for sentence in known)
        tokenizer = Tokenizer.train(tokenizer, texts, documents=1)
    align = WordAligner(tokenizer)
    return Tagged(
        tokenizer,
        _encoded(train, align, labels, progress),
        None if valid is None else _encoded(valid, align, labels, progress),
        None if test is None else _encoded(test, align, labels, progress),
        _sha256(whole),
        labels=labels,
    )


def encode_tagged(path: str | Path, tokenizer: Tokenizer, data: TaggedConfig, progress: Progress = silent) -> Sentences:
    """The tagged sentences at `path`, read with the settings and the tags of a run."""
    assert data.labels is not None
    columns = conll_columns(data).for_other_files()
    with open_corpus(TaggedConfig(path=str(path), format=data.format), progress) as corpus:
        return _encoded(_read(corpus, columns, data.tag_scheme, progress), WordAligner(tokenizer), data.labels, progress)


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> Sentences:
    """Sentences without tags, of one word or more each."""
    align = WordAligner(tokenizer)
    return Sentences.of([(*align(words), np.full(len(words), -1, np.int64)) for words in sentences], sentences)


def conll_columns(data: TaggedConfig) -> ConllColumns:
    """The format and the columns of the files of a run."""
    if data.name is not None:
        given: str | None = DATA_SETS[data.name].tagged or "conll"
    elif data.format != "auto":
        given = data.format
    else:
        given = None if data.path is None else tagged_format(Path(data.path))
    return ConllColumns(given, data.word_column, data.tag_column, explicit=data.format != "auto")


def _read(corpus: Corpus, columns: ConllColumns, scheme: TagScheme | None, progress: Progress) -> list[Sentence]:
    if not corpus.files:
        raise DataError(f"{corpus.name} is text without tags. Set data.path to a CoNLL or CoNLL-U file.")
    sentences: list[Sentence] = []
    blank = BlankRecords("words")
    for path, tick in corpus.each_file(progress):
        sentences += (in_scheme(one, scheme) for one in columns.sentences(path, tick, blank=blank.add))
    total = sum(len(sentence.words) for sentence in sentences) + blank.count
    blank.refuse(corpus.name, total, "no word or no tag", "Complete them, or remove their sentences.")
    if not sentences:
        raise DataError(f"{corpus.name} has no sentences; expected a word and its tag per line, an empty line between sentences")
    return sentences


def _tags(sentences: Sequence[Sentence], given: tuple[str, ...] | None, name: str) -> tuple[str, ...]:
    if given is not None:
        return given  # an unknown tag is refused when it is encoded, with its line
    tags = {tag for sentence in sentences for tag in sentence.tags}
    if len(tags) < 2:
        count = sum(len(sentence.words) for sentence in sentences)
        raise DataError(
            f'all {count:,} words of {name} are tagged "{tags.pop()}"; expected two tags or more. Check data.tag_column.'
        )
    return tuple(sorted(tags))


def _encoded(sentences: Sequence[Sentence], align: WordAligner, labels: tuple[str, ...], progress: Progress) -> Sentences:
    number = {label: n for n, label in enumerate(labels)}
    aligned = []
    for sentence in reported(sentences, "encoding", progress):
        for line, tag in zip(sentence.lines, sentence.tags, strict=True):
            if tag not in number:
                raise DataError(
                    f'{sentence.path}:{line} is tagged "{tag}", which does not occur in the training file; the tags are '
                    f"{listed(tag, labels)} To train with more tags, list them all in data.labels."
                )
        aligned.append((*align(sentence.words), np.array([number[tag] for tag in sentence.tags], np.int64)))
    return Sentences.of(aligned, [sentence.words for sentence in sentences])


def _sha256(sentences: Sequence[Sentence]) -> str:
    pairs = (zip(sentence.words, sentence.tags, strict=True) for sentence in sentences)
    return sha256_of_texts(([text for pair in words for text in pair] for words in pairs), _SENTENCE_END)
