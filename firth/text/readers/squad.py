"""Questions with their contexts and answers, as SQuAD writes them (Rajpurkar et al. 2016): its nested .json, or .jsonl.

A record of .jsonl has "context", "question" and "answers", {"text": […], "answer_start": […]}; or a single "answer" and, where it
stands in the context more than once, "answer_start".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from firth.errors import DataError
from firth.progress import Progress, reading
from firth.text.config import Format
from firth.text.readers.corpus import Corpus
from firth.text.readers.file_decoding import Tick, lines, texts
from firth.text.readers.records import COMPRESSED, format_of

_SHOWN = 40  # characters of a text in a message


class Answer(NamedTuple):
    text: str
    start: int  # its first character in the context

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + len(self.text)


class Question(NamedTuple):
    where: str  # file and line, or the id, for messages
    context: str
    question: str
    answers: tuple[Answer, ...] = ()  # the first is learned; any of them is right


def read(corpus: Corpus, progress: Progress) -> list[Question]:
    found: list[Question] = []
    before = 0
    for path in corpus.files:
        tick = reading(progress, before, corpus.size)
        match format_of_questions(path, corpus.format):
            case "json":
                found += _nested(path, tick)
            case "jsonl":
                found += _records(path, tick)
            case _:
                raise DataError(
                    f"{path} holds no questions that can be read; expected SQuAD's .json, or .jsonl: name the file so"
                )
        before += path.stat().st_size
    if not found:
        raise DataError(f"{corpus.name} is empty; expected questions with their contexts and answers")
    return found


def format_of_questions(path: Path, given: Format) -> str | None:
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    if name.suffix.lower() == ".json":
        return "json"
    return "jsonl" if "jsonl" in (given, format_of(path)) else None


def _nested(path: Path, tick: Tick) -> Iterator[Question]:
    """SQuAD's own form: {"data": [{"paragraphs": [{"context": …, "qas": [{"id", "question", "answers": [{…}]}]}]}]}."""
    try:
        table = json.loads("".join(texts(path, tick)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}); a file with one object per line is called .jsonl") from error
    try:
        for article in table["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    where = f'{path}, question "{asked.get("id", asked["question"][:_SHOWN])}"'
                    yield _checked(where, paragraph["context"], asked)
    except (KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else "is written otherwise"
        raise DataError(
            f'{path} {what}; expected SQuAD\'s form: "data", a list of articles with "paragraphs", each of them with "context" '
            'and "qas", a list of "question" and "answers"'
        ) from error


def _records(path: Path, tick: Tick) -> Iterator[Question]:
    for number, line in enumerate(lines(path, tick), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON ({error}); a .jsonl file holds one JSON object per line") from error
        if not isinstance(record, dict) or not {"context", "question"} <= record.keys():
            there = ", ".join(record) if isinstance(record, dict) else f"a {type(record).__name__}"
            raise DataError(f'{where} has no "context" and "question"; it has: {there or "nothing"}')
        yield _checked(where, record["context"], record)


def _checked(where: str, context: Any, record: dict[str, Any]) -> Question:
    question = record["question"]
    if not isinstance(context, str) or not isinstance(question, str):
        raise DataError(f"{where} has a question or a context that is no text; expected strings")
    answers = tuple(_answer(where, context, text, start) for text, start in _answers(where, record))
    if not answers or record.get("is_impossible"):
        raise DataError(
            f"{where} has no answer, as in SQuAD 2.0; an answer span has to be in the context: remove such questions, or take 1.1"
        )
    return Question(where, context, question, answers)


def _answers(where: str, record: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Text and first character of each: a list of objects, an object of two lists, or a single one beside the question."""
    match record.get("answers", record.get("answer")):
        case list() as many if all(isinstance(one, dict) for one in many):
            return [(one.get("text"), one.get("answer_start")) for one in many]
        case {"text": list() as told, "answer_start": list() as starts} if len(told) == len(starts):
            return list(zip(told, starts, strict=True))
        case str() as text:
            return [(text, record.get("answer_start"))]
        case None:
            return []
        case other:
            raise DataError(
                f'{where} has the answers {str(other)[:_SHOWN]}; expected {{"text": […], "answer_start": […]}}, as many of each, '
                'or "answer" and "answer_start"'
            )


def _answer(where: str, context: str, text: Any, start: Any) -> Answer:
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where} has the answer {text!r}; expected a text")
    if start is None:
        start = context.find(text)  # the first, where it stands there more than once
        if start < 0:
            raise DataError(f"{where} has the answer {text!r}, which is nowhere in its context; correct either")
    if not isinstance(start, int) or isinstance(start, bool):
        raise DataError(f'{where} has "answer_start" {start!r}; expected the number of a character, from 0 on')
    if start < 0 or context[start : start + len(text)] != text:
        there = repr(context[start : start + len(text)]) if 0 <= start < len(context) else f"none of its {len(context):,}"
        raise DataError(
            f"{where} has the answer {text!r} at character {start} of its context, where stands {there}; correct either"
        )
    return Answer(text, start)
