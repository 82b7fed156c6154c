"""Questions whose answer is a span of a context, as in SQuAD: read, tokenised and cut into windows.

A row is the question, <eos>, a stretch of its context, <eos>; for an imported tokenizer with special tokens of its own, those, as
in [CLS] question [SEP] context [SEP]. A context too long for one row is split into windows that overlap
by half, so that one of them holds the whole answer if that is at most half a window long.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from firth.errors import DataError
from firth.progress import Progress, reported, silent
from firth.text.batches.padding import Ints, concatenated
from firth.text.batches.questions import NOWHERE, QuestionWindows
from firth.text.config import QuestionsConfig, TokenizerConfig
from firth.text.data.running_text import open_corpus, with_local_paths
from firth.text.fingerprint import sha256_of_texts
from firth.text.holdout import SplitData, parts
from firth.text.readers.corpus import find
from firth.text.readers.pieces import pieces_of_texts
from firth.text.readers.reader import Format
from firth.text.readers.squad import Question, question_format, read_questions
from firth.text.tokenizers.offsets import Span, offsets
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

QuestionData = SplitData[QuestionWindows]


def prepare_questions(
    data: QuestionsConfig, tokenizer: TokenizerConfig | Tokenizer, limit: int, progress: Progress = silent
) -> QuestionData:
    """Read, split, tokenise, cut into windows of at most `limit` tokens.

    Without a validation file, `data.valid` of the questions are held out: the end of a shuffle that depends on their number
    alone, all questions on one context together. The vocabulary is learned from the training part alone (characters also from
    the held-out part, as for running text).
    """
    data = with_local_paths(data, progress)
    with open_corpus(data, progress) as corpus:
        whole = read_questions(corpus, progress)
    train, valid, test = parts(
        data,
        whole,
        lambda path: read_questions(find(path, data.format, empty=data.empty), progress),
        "questions",
        lambda one: one.context,
    )
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(train, valid)
        texts = dict.fromkeys(text for one in known for text in (one.context, one.question))  # each context once
        tokenizer = Tokenizer.train(tokenizer, pieces_of_texts(texts), documents=2 * len(known))
    made = [None if part is None else windows(part, tokenizer, limit, progress) for part in (train, valid, test)]
    assert made[0] is not None
    return SplitData(tokenizer, made[0], made[1], made[2], sha256_of_texts(map(_texts, whole)), _notice(made[0], limit))


def _notice(train: QuestionWindows, limit: int) -> str | None:
    """A sentence on the contexts that do not fit into one window; None if all do."""
    if not train.several:
        return None
    unlearned = len(train) - len(train.answered)
    return (
        f"{train.several:,} of {len(train.questions):,} training contexts do not fit into {limit:,} tokens with their question "
        f"and are split into windows that overlap by half. {unlearned:,} of {len(train):,} windows do not hold the whole answer "
        "and are not used for training."
    )


def encode_questions(
    path: str | Path, tokenizer: Tokenizer, data: QuestionsConfig, limit: int, progress: Progress = silent
) -> QuestionWindows:
    """The questions at `path`, read with the settings of a run."""
    format: Format = "auto" if question_format(Path(path), "auto") else data.format
    with open_corpus(QuestionsConfig(path=str(path), format=format, empty=data.empty), progress) as corpus:
        return windows(read_questions(corpus, progress), tokenizer, limit, progress)


def windows(questions: Sequence[Question], tokenizer: Tokenizer, limit: int, progress: Progress = silent) -> QuestionWindows:
    """The windows of all questions; those of one question are consecutive."""
    made: list[_Window] = []
    kept: tuple[str, Ids, list[Span]] = "", np.zeros(0, tokenizer.dtype), []
    question_N: list[int] = []
    for n, one in enumerate(reported(questions, "encoding", progress)):
        if one.context != kept[0]:  # questions on one context are often consecutive
            kept = one.context, *_spanned(one, tokenizer)
        mine = _windows(one, tokenizer, kept[1], kept[2], limit)
        made += mine
        question_N += [n] * len(mine)
    numbers = np.array([(window.first, window.start, window.end) for window in made], np.int64)
    ids, starts = concatenated([window.ids for window in made])
    return QuestionWindows(
        questions=tuple(questions),
        ids=ids,
        starts=starts,
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
        raise DataError(f"{one.where} has the context {one.context[:40]!r}, of {len(ids)} tokens; expected some text")
    return ids, spans


def _encoded(one: Question, text: str, tokenizer: Tokenizer) -> Ids:
    try:
        return tokenizer.encode(text)
    except DataError as error:
        raise DataError(f"{one.where}: {error.marked}") from error


def _windows(one: Question, tokenizer: Tokenizer, context: Ids, spans: list[Span], limit: int) -> list[_Window]:
    begin, between, end = _separators(tokenizer)
    asked = _encoded(one, one.question, tokenizer)
    if not len(asked):
        raise DataError(f"{one.where} has the question {one.question!r}, which has no tokens; expected a word or more")
    head = np.concatenate((begin, asked, between))
    room = limit - len(head) - 1
    if room < 1:
        raise DataError(
            f"{one.where}: a question of {len(asked)} tokens leaves no room for its context within training.context = {limit}. "
            "Raise training.context, or shorten the question."
        )
    first, last = _tokens_of(one, spans)
    made = []
    for place in _begins(len(context), room):
        some = context[place : place + room]
        inside = place <= first and last < place + len(some)
        around = np.full((len(head), 2), NOWHERE), np.full((1, 2), NOWHERE)
        made.append(
            _Window(
                np.concatenate((head, some, end)),
                len(head),
                first - place + len(head) if inside else NOWHERE,
                last - place + len(head) if inside else NOWHERE,
                np.concatenate((around[0], np.array(spans[place : place + room], np.int64), around[1])),
            )
        )
    return made


def _separators(tokenizer: Tokenizer) -> tuple[Ids, Ids, Ids]:
    """The token before the question, that between question and context, and that after the context."""
    if tokenizer.between and len(tokenizer.end) == 1:
        parts = (tokenizer.begin, tokenizer.between, tokenizer.end)
        return tuple(np.array(part, tokenizer.dtype) for part in parts)  # type: ignore[return-value]  # three of them
    if tokenizer.eos is None:  # of a run that training.init names
        raise DataError(
            "the vocabulary has no <eos> to put between question and passage. Start from a run that was trained on several "
            "documents, or remove training.init."
        )
    end = np.array([tokenizer.eos], tokenizer.dtype)
    return end[:0], end, end


def _begins(tokens: int, room: int) -> list[int]:
    """The beginnings of windows of `room` tokens: half a window apart; the last one ends with the text."""
    last = max(0, tokens - room)
    return [*range(0, last, max(1, room // 2)), last]


def _tokens_of(one: Question, spans: list[Span]) -> Span:
    """The first and the last token that overlap the first answer; beyond the last token if there is none."""
    if not one.answers:
        return len(spans), len(spans)
    begin, stop = one.answers[0].span
    tokens = [token for token, (first, end) in enumerate(spans) if first < stop and end > begin]
    if not tokens:
        raise DataError(f"{one.where} has the answer {one.answers[0].text!r}, which has no tokens; expected a word or more")
    return tokens[0], tokens[-1]


def _texts(one: Question) -> list[str]:
    """All that the fingerprint covers."""
    return [one.context, one.question, *(f"{answer.start} {answer.text}" for answer in one.answers)]
