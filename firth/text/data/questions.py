"""Questions whose answer stands in a text, as SQuAD writes them: read, tokenised, cut into windows, put into batches.

A row is the question, <eos>, a stretch of its context, <eos>. Where a context is too long for one row it is read in several
windows that overlap by half, so that an answer of up to half a window is whole in one of them.

Letters: N windows, B rows of a batch, T tokens of its longest. All is held in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.progress import Progress, silent
from firth.text.batches.buckets import Buckets, by_length
from firth.text.config import Format, QuestionsConfig, TokenizerConfig
from firth.text.data.holdout import held_out
from firth.text.data.labelled import padded
from firth.text.data.running_text import opened
from firth.text.readers.corpus import find
from firth.text.readers.records import Piece, pieces_of_text
from firth.text.readers.squad import Question, format_of_questions, read
from firth.text.tokenizers.offsets import Span, offsets
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

Ints = NDArray[np.int64]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class AnswerBatch:
    token_BT: Ints  # padded with 0; only the first `length_B` of each row are read
    length_B: Ints
    first_B: Ints  # where the context begins; it ends before the last token of a row, <eos>
    start_B: Ints  # the first token of the answer, and its last
    end_B: Ints
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are read; padding is not."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Readings:
    """The windows of all questions, one after the other."""

    questions: tuple[Question, ...]
    ids: Ids
    starts: Ints  # where each window begins, and where the last one ends: N + 1 numbers
    first_N: Ints  # as in an AnswerBatch; start and end are NOWHERE where the answer is not in the window
    start_N: Ints
    end_N: Ints
    question_N: Ints  # of which question a window is
    span_2: Ints  # of each token its span of characters in the context; NOWHERE for those of the question and <eos>

    def __len__(self) -> int:
        return len(self.first_N)

    @property
    def length_N(self) -> Ints:
        return np.diff(self.starts)

    @property
    def answered(self) -> Ints:
        """The windows to learn from."""
        return np.flatnonzero(self.start_N != NOWHERE)

    @property
    def several(self) -> int:
        """Questions whose context does not fit into one window."""
        return int((np.bincount(self.question_N, minlength=len(self.questions)) > 1).sum())

    def batch(self, row_B: Ints) -> AnswerBatch:
        token_BT, length_B = padded([self.ids[self.starts[row] : self.starts[row + 1]] for row in row_B])
        return AnswerBatch(token_BT, length_B, self.first_N[row_B], self.start_N[row_B], self.end_N[row_B])

    def sweep(self, batch: int) -> Iterator[tuple[Ints, AnswerBatch]]:
        """Once over all windows, those of similar length together: each batch, and which windows its rows are."""
        for row_B in by_length(self.length_N, batch):
            yield row_B, self.batch(row_B)

    def text(self, window: int, start: int, end: int) -> tuple[str, int]:
        """What stands in the context from the token `start` to `end` of a window, and its first character; without white space
        around it, which some tokens bring along."""
        context = self.questions[self.question_N[window]].context
        begin, stop = (int(self.span_2[self.starts[window] + token, side]) for token, side in ((start, 0), (end, 1)))
        found = context[begin:stop]
        return found.strip(), begin + len(found) - len(found.lstrip())


@dataclass(frozen=True)
class Answered:
    """What a recipe's [data] and [tokenizer] give for answer spans."""

    tokenizer: Tokenizer
    train: Readings
    valid: Readings | None
    test: Readings | None
    sha256: str  # of the questions that were split into training and held-out part
    limit: int

    @property
    def notice(self) -> str | None:
        """Of contexts that do not fit, in a sentence; None where all do."""
        if not self.train.several:
            return None
        unlearned = len(self.train) - len(self.train.answered)
        return (
            f"{self.train.several:,} of {len(self.train.questions):,} training contexts do not fit into {self.limit:,} tokens "
            f"with their question and are read in windows that overlap by half; {unlearned:,} of {len(self.train):,} windows do "
            "not hold the whole answer and are not learned from"
        )


class BucketedReadings:
    """Batches of `batch` windows of similar length that hold their answer; see Buckets."""

    def __init__(self, readings: Readings, batch: int, seed: int) -> None:
        self.position = 0
        self._readings, self._rows = readings, readings.answered
        if not len(self._rows):
            raise DataError("no answer is whole in a window of its context; raise training.context")
        self._buckets = Buckets(readings.length_N[self._rows], batch, seed)

    def seek(self, position: int) -> None:
        self.position = position

    def next(self) -> AnswerBatch:
        row_B = self._rows[self._buckets.rows(self.position)]
        self.position += 1
        return self._readings.batch(row_B)


def prepare_questions(
    data: QuestionsConfig, tokenizer: TokenizerConfig | Tokenizer, limit: int, progress: Progress = silent
) -> Answered:
    """Read, split, tokenise, cut into windows of at most `limit` tokens.

    Where there is no validation file, `data.valid` of the questions are held out: the end of a shuffle that depends on their
    number alone, all questions on one context together. Words are learned from the training part only (characters from the
    held-out one, too, as for running text).
    """
    with opened(data, progress) as corpus:
        whole = read(corpus, progress)
    train, valid = whole, None
    if data.valid_path is not None:
        valid = read(find(data.valid_path, data.format), progress)
    elif data.valid:
        train, valid = held_out(whole, data.valid, lambda one: one.context, "questions")
    if isinstance(tokenizer, TokenizerConfig):
        known = train + (valid or [] if tokenizer.kind == "char" else [])
        tokenizer = Tokenizer.train(tokenizer, _pieces(known), documents=2 * len(known))
    test = None if data.test_path is None else read(find(data.test_path, data.format), progress)
    made = [None if part is None else windows(part, tokenizer, limit, progress) for part in (train, valid, test)]
    assert made[0] is not None
    return Answered(tokenizer, made[0], made[1], made[2], _sha256(whole), limit)


def encode_questions(
    path: str | Path, tokenizer: Tokenizer, data: QuestionsConfig, limit: int, progress: Progress = silent
) -> Readings:
    """The questions at `path`, read as those of a run."""
    format: Format = "auto" if format_of_questions(Path(path), "auto") else data.format
    with opened(QuestionsConfig(path=str(path), format=format), progress) as corpus:
        return windows(read(corpus, progress), tokenizer, limit, progress)


def windows(questions: Sequence[Question], tokenizer: Tokenizer, limit: int, progress: Progress = silent) -> Readings:
    """The windows of all questions; those of one stand next to each other."""
    made: list[_Window] = []
    kept: tuple[str, Ids, list[Span]] = "", np.zeros(0, tokenizer.dtype), []
    question_N: list[int] = []
    for n, one in enumerate(questions):
        if one.context != kept[0]:  # questions on one context often follow each other
            kept = one.context, *_spanned(one, tokenizer)
        mine = _windows(one, tokenizer, kept[1], kept[2], limit)
        made += mine
        question_N += [n] * len(mine)
        if n % 1000 == 0 or n + 1 == len(questions):
            progress("encoding", n + 1, len(questions))
    numbers = np.array([(window.first, window.start, window.end) for window in made], np.int64)
    return Readings(
        questions=tuple(questions),
        ids=np.concatenate([window.ids for window in made]),
        starts=np.concatenate(([0], np.cumsum([len(window.ids) for window in made], dtype=np.int64))),
        first_N=numbers[:, 0],
        start_N=numbers[:, 1],
        end_N=numbers[:, 2],
        question_N=np.array(question_N, np.int64),
        span_2=np.concatenate([window.span_2 for window in made]),
    )


class _Window(NamedTuple):
    ids: Ids
    first: int
    start: int
    end: int
    span_2: Ints


def _spanned(one: Question, tokenizer: Tokenizer) -> tuple[Ids, list[Span]]:
    ids = _encoded(one, one.context, tokenizer)
    spans = offsets(tokenizer, [one.context])[0]
    if not len(ids) or len(spans) != len(ids):
        raise DataError(f"{one.where} has a context of {len(ids)} tokens, {one.context[:40]!r}; expected some text")
    return ids, spans


def _encoded(one: Question, text: str, tokenizer: Tokenizer) -> Ids:
    try:
        return tokenizer.encode(text)
    except DataError as error:
        raise DataError(f"{one.where}: {error}") from error


def _windows(one: Question, tokenizer: Tokenizer, context: Ids, spans: list[Span], limit: int) -> list[_Window]:
    asked, end = _encoded(one, one.question, tokenizer), np.array([tokenizer.eos], tokenizer.dtype)
    if not len(asked):
        raise DataError(f"{one.where} has the question {one.question!r}, which has nothing to read; expected a word or more")
    head = np.concatenate((asked, end))
    room = limit - len(head) - 1
    if room < 1:
        raise DataError(
            f"{one.where} has a question of {len(asked)} tokens, with which nothing of its context fits into training.context = "
            f"{limit}; raise that, or shorten the question"
        )
    first, last = _tokens_of(one, spans)
    made = []
    for begin in _begins(len(context), room):
        some = context[begin : begin + room]
        inside = begin <= first and last < begin + len(some)
        around = np.full((len(head), 2), NOWHERE), np.full((1, 2), NOWHERE)
        made.append(
            _Window(
                np.concatenate((head, some, end)),
                len(head),
                first - begin + len(head) if inside else NOWHERE,
                last - begin + len(head) if inside else NOWHERE,
                np.concatenate((around[0], np.array(spans[begin : begin + room], np.int64), around[1])),
            )
        )
    return made


def _begins(tokens: int, room: int) -> list[int]:
    """Where windows of `room` tokens begin: half a window apart, and the last one ends with the text."""
    last = max(0, tokens - room)
    return [*range(0, last, max(1, room // 2)), last]


def _tokens_of(one: Question, spans: list[Span]) -> Span:
    """The first and the last token that have a character of the first answer; beyond all of them where there is none."""
    if not one.answers:
        return len(spans), len(spans)
    begin, stop = one.answers[0].span
    found = [token for token, (first, end) in enumerate(spans) if first < stop and end > begin]
    if not found:
        raise DataError(f"{one.where} has an answer without a token, {one.answers[0].text!r}; expected a word or more")
    return found[0], found[-1]


def _pieces(questions: Iterable[Question]) -> Iterator[Piece]:
    """Each context once, however many questions there are on it."""
    for text in dict.fromkeys(text for one in questions for text in (one.context, one.question)):
        yield from pieces_of_text(text)


def _sha256(questions: Iterable[Question]) -> str:
    """Of all texts as UTF-8, and a byte after each that no UTF-8 contains."""
    digest = hashlib.sha256()
    for one in questions:
        for text in (one.context, one.question, *(f"{answer.start} {answer.text}" for answer in one.answers)):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\xff")
    return digest.hexdigest()
