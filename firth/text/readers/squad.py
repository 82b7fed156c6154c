"""Questions with their contexts and answers, as in SQuAD (Rajpurkar et al. 2016): its nested .json, or a table.

A table (jsonl, parquet, csv or tsv) has the columns "context" and "question", and "answers" or "answer":
"answers" is {"text": […], "answer_start": […]}, or a list of such pairs; "answer" is a string, with "answer_start" beside it if
the string occurs in the context more than once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.errors import DataError
from firth.progress import Progress
from firth.text.readers.blank_records import BlankRecords
from firth.text.readers.corpus import Corpus
from firth.text.readers.file_decoding import Tick, whole_text
from firth.text.readers.formats import by_suffix, file_format, one_of_tables
from firth.text.readers.reader import Column, Format, TableReader

_SHOWN = 40  # characters of a text in a message
_REQUIRED = ("context", "question")
_OPTIONAL = ("answers", "answer", "answer_start", "is_impossible")
_COLUMNS = tuple(Column(name, setting=None, optional=name in _OPTIONAL) for name in (*_REQUIRED, *_OPTIONAL))


class GoldAnswer(NamedTuple):
    text: str
    start: int  # its first character in the context

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + len(self.text)


class Question(NamedTuple):
    where: str  # file and line, or the id, for messages
    context: str
    question: str
    answers: tuple[GoldAnswer, ...] = ()  # the model learns the first; any of them counts as correct


def read_questions(corpus: Corpus, progress: Progress) -> list[Question]:
    """All questions. Those without a text are skipped or refused as `corpus.empty` says; those without an answer are refused."""
    questions: list[Question] = []
    blank, unanswered, total = BlankRecords(), BlankRecords(), 0
    for path, tick in corpus.each_file(progress):
        format = question_format(path, corpus.format)
        if format is None:
            raise DataError(f"{path} cannot be read as questions. Use SQuAD's .json, or a {one_of_tables()} file.")
        for where, values in format.rows(path, _COLUMNS, tick, corpus.columns):
            total += 1
            record = dict(zip((*_REQUIRED, *_OPTIONAL), values, strict=True))
            answers = _answers(where, record)
            if not answers or str(record["is_impossible"]).lower() in ("true", "1"):
                unanswered.add(where)
            elif any(_is_blank(text) for text in (record["context"], record["question"], *(text for text, _ in answers))):
                blank.add(where)
            else:
                questions.append(_checked(where, record, answers))
    remedy = "Every answer must be a span of its context: remove them, or use SQuAD 1.1."
    unanswered.refuse(corpus.name, total, "no answer, as in SQuAD 2.0", remedy)
    if not questions:
        raise DataError(f"{corpus.name} is empty; expected questions with their contexts and answers")
    blank.settle(corpus.empty, corpus.name, total, "no question, context or answer")
    return questions


def _is_blank(text: Any) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def question_format(path: Path, given: Format) -> type[TableReader] | None:
    """Nested SQuAD for .json, whatever `given` is; None for files without questions."""
    if by_suffix(path, (Squad,)) is Squad:
        return Squad
    chosen = file_format(path, given, columns=True)
    return chosen if issubclass(chosen, TableReader) else None


class Squad(TableReader):
    kind, suffixes = "squad", (".json",)

    @classmethod
    def records(cls, path: Path, tick: Tick) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return _nested(path, tick)


def _nested(path: Path, tick: Tick) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """SQuAD's own form: {"data": [{"paragraphs": [{"context": …, "qas": [{"id", "question", "answers": [{…}]}]}]}]}."""
    try:
        table = json.loads(whole_text(path, tick))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}). Name a file with one object per line .jsonl.") from error
    try:
        for article in table["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    where = f'{path}, question "{asked.get("id", asked["question"][:_SHOWN])}"'
                    yield where, dict.fromkeys(_REQUIRED) | asked | {"context": paragraph["context"]}
    except (KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else "has another structure"
        raise DataError(
            f'{path} {what}; expected SQuAD\'s form: "data", a list of articles with "paragraphs", each of them with "context" '
            'and "qas", a list of "question" and "answers"'
        ) from error


def _checked(where: str, record: dict[str, Any], answers: Sequence[tuple[Any, Any]]) -> Question:
    context, question = record["context"], record["question"]
    if not isinstance(context, str) or not isinstance(question, str):
        raise DataError(f"{where}: the question or the context is not a string")
    return Question(where, context, question, tuple(_answer(where, context, text, start) for text, start in answers))


def _answers(where: str, record: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The text and first character of each answer."""
    match record["answer"] if record["answers"] is None else record["answers"]:
        case list() as many if all(isinstance(one, dict) for one in many):
            return [(one.get("text"), one.get("answer_start")) for one in many]
        case {"text": list() as found, "answer_start": list() as starts} if len(found) == len(starts):
            return list(zip(found, starts, strict=True))
        case str() as text:
            return [(text, _number(record["answer_start"]))]
        case None:
            return []
        case other:
            raise DataError(
                f'{where} has the answers {str(other)[:_SHOWN]}; expected {{"text": […], "answer_start": […]}} of equal length, '
                'or "answer" and "answer_start"'
            )


def _number(start: Any) -> Any:
    """A csv cell is text: "12" → 12, and an empty cell is absent."""
    if not isinstance(start, str):
        return start
    whole = start.strip().isdecimal() and len(start) < 19
    return int(start) if whole else (start if start.strip() else None)


def _answer(where: str, context: str, text: Any, start: Any) -> GoldAnswer:
    if not isinstance(text, str):
        raise DataError(f"{where} has the answer {text!r}; expected a text")
    if start is None:
        start = context.find(text)  # the first occurrence
        if start < 0:
            raise DataError(f"{where}: the answer {text!r} does not occur in its context. Correct one of them.")
    if not isinstance(start, int) or isinstance(start, bool):
        raise DataError(f'{where} has "answer_start" {start!r}; expected the position of a character, counted from 0')
    if start < 0 or context[start : start + len(text)] != text:
        there = f"has {context[start : start + len(text)]!r} there" if 0 <= start < len(context) else f"ends at {len(context):,}"
        raise DataError(f"{where}: the answer {text!r} is not at character {start} of its context, which {there}. Correct it.")
    return GoldAnswer(text, start)
