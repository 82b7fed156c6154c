"""Sentences with a tag for each word: split, cut into pieces, and put into batches.

A tokenizer may cut a word into several pieces; the word's tag stands at the first of them. Beside its pieces a word has its
spelling, the bytes of its UTF-8, for models that look at that, too. Letters: N sentences, B rows of a batch, T pieces and
W words of its longest sentence, K symbols of its longest spelling. The sentences are held in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError, did_you_mean
from firth.progress import Progress, reading, silent
from firth.text.batches.buckets import Buckets, by_length
from firth.text.batches.permutation import keys, permuted
from firth.text.config import TaggedConfig, TokenizerConfig
from firth.text.data.running_text import located, opened
from firth.text.readers.conll import Columns, Sentence
from firth.text.readers.corpus import Corpus, find
from firth.text.readers.records import Piece, pieces_of_text
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

Ints = NDArray[np.int64]

BEGIN, END, FIRST_BYTE = 1, 2, 3  # symbols of a spelling: 0 is padding, then both ends of a word, then the 256 bytes
SYMBOLS = FIRST_BYTE + 256
_LONGEST = 32  # bytes of a word that are looked at: half of them from its beginning, half from its end
_SPLIT, _UNKNOWN = 1, 2  # what keys are for
_SEVERAL = 8  # tags named in a message


@dataclass(frozen=True, slots=True)
class TaggedBatch:
    token_BT: Ints  # padded with 0; only the first `length_B` of each row are read
    length_B: Ints
    first_BW: Ints  # where the first piece of each word stands; padded with 0
    symbol_BWK: Ints  # the spelling of each word, padded with 0; K is 0 where nobody looks at it
    label_BW: Ints  # padded with −1, where no loss is counted
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are read; padding is not."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Sentences:
    """Encoded sentences one after the other; each has some words, each word some pieces and a spelling."""

    ids: Ids
    starts: Ints  # where the pieces of each sentence begin, and where those of the last one end: N + 1 numbers
    word_starts: Ints  # the same of its words: N + 1 numbers
    first: Ints  # of each word: the place of its first piece in the sentence
    label: Ints  # of each word: the number of its tag, −1 where it has none
    symbols: NDArray[np.int16]  # the spellings of all words
    symbol_starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def words(self) -> int:
        return len(self.first)

    @property
    def length_N(self) -> Ints:
        """In pieces."""
        return np.diff(self.starts)

    def batch(self, row_B: Ints, *, spelled: bool) -> TaggedBatch:
        token_BT, length_B = _ragged(self.ids, self.starts, row_B, padding=0)
        first_BW, _ = _ragged(self.first, self.word_starts, row_B, padding=0)
        label_BW, count_B = _ragged(self.label, self.word_starts, row_B, padding=-1)
        symbol_BWK = np.zeros((*first_BW.shape, 0), np.int64)
        if spelled:
            there_BW = np.arange(first_BW.shape[1]) < count_B[:, None]
            word_M = (self.word_starts[row_B][:, None] + np.arange(first_BW.shape[1]))[there_BW]
            symbol_MK, _ = _ragged(self.symbols, self.symbol_starts, word_M, padding=0)
            symbol_BWK = np.zeros((*first_BW.shape, symbol_MK.shape[1]), np.int64)
            symbol_BWK[there_BW] = symbol_MK
        return TaggedBatch(token_BT, length_B, first_BW, symbol_BWK, label_BW)

    def sweep(self, batch: int, *, spelled: bool) -> Iterator[tuple[Ints, TaggedBatch]]:
        """Once over all sentences, those of similar length together: each batch, and which sentences its rows are."""
        for row_B in by_length(self.length_N, batch):
            yield row_B, self.batch(row_B, spelled=spelled)

    def tags(self, row: int) -> Ints:
        """The numbers of the tags of a sentence."""
        return self.label[self.word_starts[row] : self.word_starts[row + 1]]


@dataclass(frozen=True)
class Tagged:
    """What a recipe's [data] and [tokenizer] give for tagging."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]  # the tags; a word has the number of one
    train: Sentences
    valid: Sentences | None
    test: Sentences | None
    sha256: str  # of the sentences that were split into training and held-out part


class BucketedSentences:
    """Batches of `batch` sentences of similar length (see Buckets), each a function of (seed, position) alone.

    `hidden` pieces, a share of them, are read as `unknown`: words of the vocabulary teach the model what to do with those that
    are not in it."""

    def __init__(
        self, sentences: Sentences, batch: int, seed: int, *, spelled: bool, hidden: float = 0.0, unknown: int | None = None
    ) -> None:
        self.position = 0
        self._sentences, self._seed, self._spelled = sentences, seed, spelled
        self._hidden, self._unknown = hidden, unknown
        self._buckets = Buckets(sentences.length_N, batch, seed)

    def seek(self, position: int) -> None:
        self.position = position

    def next(self) -> TaggedBatch:
        batch = self._sentences.batch(self._buckets.rows(self.position), spelled=self._spelled)
        if self._hidden and self._unknown is not None:
            place = np.arange(batch.token_BT.size, dtype=np.uint64) + np.uint64(self.position << 32)
            drawn_BT = keys(self._seed, place, _UNKNOWN).reshape(batch.token_BT.shape)
            batch.token_BT[drawn_BT < np.uint64(int(self._hidden * 2**64))] = self._unknown
        self.position += 1
        return batch


class Aligner:
    """Words → their pieces, and which of them is the first of each word. A word is encoded as it would be within a sentence,
    words separated by spaces, so that the pieces of all words are those of the sentence."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, bool], tuple[Ids, int]] = {}
        self._spaced = not tokenizer.unseen(" ") or tokenizer.unknown is not None

    def __call__(self, words: Sequence[str]) -> tuple[Ids, Ints]:
        """The pieces, and where the first of each word stands among them."""
        found = [self._pieces(word, begins=n == 0) for n, word in enumerate(words)]
        before = np.cumsum([0, *(len(ids) for ids, _ in found[:-1])])
        return np.concatenate([ids for ids, _ in found]), before + [offset for _, offset in found]

    def _pieces(self, word: str, *, begins: bool) -> tuple[Ids, int]:
        if (word, begins) not in self._known:
            self._known[word, begins] = self._encoded(word, begins)
        return self._known[word, begins]

    def _encoded(self, word: str, begins: bool) -> tuple[Ids, int]:
        tokenizer = self._tokenizer
        match tokenizer.kind:
            case "word" | "wordpiece":
                ids = tokenizer.encode(word)
                # A word of nothing but exotic white space has no pieces, but still a tag.
                return (ids if len(ids) else np.array([tokenizer.unknown], tokenizer.dtype)), 0
            case "bpe" | "unigram":  # a space belongs to the word behind it
                return tokenizer.encode(word if begins else f" {word}"), 0
            case "char":
                spaced = self._spaced and not begins
                return tokenizer.encode(f" {word}" if spaced else word), int(spaced)


def spelling(word: str) -> NDArray[np.int16]:
    """The bytes of a word between marks for both its ends; of a very long one, those in the middle are left out."""
    raw = word.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        raw = raw[: _LONGEST // 2] + raw[-_LONGEST // 2 :]
    return np.array([BEGIN, *(FIRST_BYTE + byte for byte in raw), END], np.int16)


def prepare_tagged(data: TaggedConfig, tokenizer: TokenizerConfig | Tokenizer, progress: Progress = silent) -> Tagged:
    """Read, split, tokenise.

    Where there is no validation file, `data.valid` of the sentences are held out: the end of a shuffle that depends on their
    number alone. The tags are those of the whole file, unless data.labels gives them; a tag that only another file has is
    refused. Words are learned from the training part only (characters from the held-out one, too, as for running text).
    """
    columns = Columns.of(data)
    data = located(data, progress)
    with opened(data, progress) as corpus:
        whole = _read(corpus, columns, progress)
    labels = _tags(whole, data.labels, corpus.name)
    train, valid = whole, None
    if data.valid_path is not None:
        valid = _read(find(data.valid_path, data.format), columns, progress)
    elif data.valid:
        train, valid = _split(whole, data.valid)
    if isinstance(tokenizer, TokenizerConfig):
        known = train + (valid or [] if tokenizer.kind == "char" else [])
        tokenizer = Tokenizer.train(tokenizer, _pieces(known), documents=1)
    test = None if data.test_path is None else _read(find(data.test_path, data.format), columns, progress)
    align = Aligner(tokenizer)
    return Tagged(
        tokenizer,
        labels,
        _encoded(train, align, labels, progress),
        None if valid is None else _encoded(valid, align, labels, progress),
        None if test is None else _encoded(test, align, labels, progress),
        _sha256(whole),
    )


def encode_tagged(path: str | Path, tokenizer: Tokenizer, data: TaggedConfig, progress: Progress = silent) -> Sentences:
    """The tagged sentences at `path`, read as those of a run with these settings and of its tags."""
    assert data.labels is not None
    columns = Columns.of(data).elsewhere()
    with opened(TaggedConfig(path=str(path), format=data.format), progress) as corpus:
        return _encoded(_read(corpus, columns, progress), Aligner(tokenizer), data.labels, progress)


def encode_words(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> Sentences:
    """Sentences without tags; each has a word or more."""
    align = Aligner(tokenizer)
    return _joined([(*align(words), np.full(len(words), -1, np.int64)) for words in sentences], sentences)


def _read(corpus: Corpus, columns: Columns, progress: Progress) -> list[Sentence]:
    if not corpus.files:
        raise DataError(f"{corpus.name} is text without tags; give data.path, a CoNLL or CoNLL-U file")
    found: list[Sentence] = []
    before = 0
    for path in corpus.files:
        found += columns.sentences(path, reading(progress, before, corpus.size))
        before += path.stat().st_size
    if not found:
        raise DataError(f"{corpus.name} has no sentences; expected a word and its tag on each line, an empty line between two")
    return found


def _tags(sentences: Sequence[Sentence], given: tuple[str, ...] | None, name: str) -> tuple[str, ...]:
    if given is not None:
        return given  # a tag that is not among them is refused where it is encoded, with its line
    found = {tag for sentence in sentences for tag in sentence.tags}
    if len(found) < 2:
        count = sum(len(sentence.words) for sentence in sentences)
        raise DataError(
            f'all {count:,} words of {name} are tagged "{found.pop()}"; expected two tags or more. Check data.tag_column.'
        )
    return tuple(sorted(found))


def _split(sentences: list[Sentence], share: float) -> tuple[list[Sentence], list[Sentence]]:
    cut = int((1 - share) * len(sentences))
    if cut == 0:
        raise DataError(
            f"with data.valid = {share} nothing is left of {len(sentences)} sentences to train on; give more, or a smaller share"
        )
    key = keys(0, np.zeros(1, np.uint64), _SPLIT)
    order = permuted(np.arange(len(sentences), dtype=np.uint64), len(sentences), key)
    shuffled = [sentences[place] for place in order.tolist()]
    return shuffled[:cut], shuffled[cut:]


def _pieces(sentences: Iterable[Sentence]) -> Iterator[Piece]:
    for sentence in sentences:
        yield from pieces_of_text(" ".join(sentence.words))


def _encoded(sentences: Sequence[Sentence], align: Aligner, labels: tuple[str, ...], progress: Progress) -> Sentences:
    number = {label: n for n, label in enumerate(labels)}
    found = []
    for n, sentence in enumerate(sentences):
        for place, tag in enumerate(sentence.tags):
            if tag not in number:
                raise DataError(f"{sentence.path}:{sentence.lines[place]} is tagged {_not_among(tag, labels)}")
        found.append((*align(sentence.words), np.array([number[tag] for tag in sentence.tags], np.int64)))
        if n % 1000 == 0 or n + 1 == len(sentences):
            progress("encoding", n + 1, len(sentences))
    return _joined(found, [sentence.words for sentence in sentences])


def _not_among(tag: str, labels: tuple[str, ...]) -> str:
    shown = ", ".join(labels[:_SEVERAL]) + (", …" if len(labels) > _SEVERAL else "")
    near = did_you_mean(tag, labels) if len(labels) > _SEVERAL else ""
    return (
        f'"{tag}", which no word of the training file is; the tags are {shown}.{near} Give them all in data.labels to learn more'
    )


def _joined(found: Sequence[tuple[Ids, Ints, Ints]], words: Sequence[Sequence[str]]) -> Sentences:
    """From pieces, places of first pieces and labels of each sentence, and its words."""
    spelled: dict[str, NDArray[np.int16]] = {}
    spellings = [spelled.setdefault(word, spelling(word)) if word not in spelled else spelled[word] for s in words for word in s]
    ids, first, label = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Sentences(
        ids,
        _starts(len(pieces) for pieces, _, _ in found),
        _starts(len(sentence) for sentence in words),
        first,
        label,
        np.concatenate(spellings),
        _starts(map(len, spellings)),
    )


def _starts(lengths: Iterable[int]) -> Ints:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _ragged(flat: Ids, starts: Ints, row_B: Ints, padding: int) -> tuple[Ints, Ints]:
    """The stretches `row_B` of `flat` side by side, as long as the longest, and their lengths."""
    start_B, length_B = starts[row_B], starts[row_B + 1] - starts[row_B]
    place_T = np.arange(int(length_B.max(initial=0)))
    inside_BT = place_T < length_B[:, None]
    found_BT = flat[np.where(inside_BT, start_B[:, None] + place_T, 0)].astype(np.int64)
    return np.where(inside_BT, found_BT, padding), length_B


def _sha256(sentences: Iterable[Sentence]) -> str:
    """Of the words and tags as UTF-8, with bytes behind each word and each sentence that no UTF-8 contains."""
    digest = hashlib.sha256()
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            digest.update(word.encode() + b"\xff" + tag.encode() + b"\xff")
        digest.update(b"\xfe")
    return digest.hexdigest()
