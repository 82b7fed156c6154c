"""Questions on texts: how they are read, where their answers are among the tokens, how windows are cut, what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from questions import RECORDS, write_questions

from firth.errors import DataError
from firth.text.batches.questions import NOWHERE, QuestionWindows
from firth.text.config import QuestionsConfig, TokenizerConfig
from firth.text.data.questions import encode_questions, prepare_questions, windows
from firth.text.readers.pieces import pieces_of_text
from firth.text.readers.squad import GoldAnswer, Question
from firth.text.tokenizers.tokenizer import Tokenizer

CONTEXT = "Anna lives in New York. Bert, who is naïve, lives in Oslo 😀 with the cat of Dora."
KINDS = ("char", "word", "bpe", "wordpiece", "unigram")
FEW = RECORDS[:8]


def tokenizer_of(kind: str, text: str = CONTEXT) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab={"bpe": 300, "unigram": 300}.get(kind))  # type: ignore[arg-type]
    pieces = [piece for one in (text, "where does who live") for piece in pieces_of_text(one)]
    return Tokenizer.train(config, pieces, documents=2)


def asked(answer: str, context: str = CONTEXT) -> Question:
    return Question("here", context, "where does who live", (GoldAnswer(answer, context.index(answer)),))


def prepared(path: Path, **settings: Any) -> Any:
    return prepare_questions(QuestionsConfig(path=str(path), **({"valid": 0.0} | settings)), TokenizerConfig(kind="word"), 32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["Anna", "New York", "naïve", "Oslo 😀", "Dora", "the cat of Dora"])
def test_an_answer_is_found_among_the_tokens_and_back_in_the_text(kind: str, answer: str) -> None:
    readings = windows([asked(answer)], tokenizer_of(kind), 200)
    text, start = readings.text(0, int(readings.start_N[0]), int(readings.end_N[0]))
    assert CONTEXT[start : start + len(text)] == text  # to the letter as it stands there
    exact = {"char", "bpe", "unigram"}
    assert text == answer if kind in exact else answer in text  # a word may have its full stop


def test_the_space_before_a_token_is_no_part_of_the_answer() -> None:
    context = "in Oslo in Oslo in Oslo in Rome"
    tokenizer = tokenizer_of("bpe", context)
    assert " Oslo" in [tokenizer.token(int(id)) for id in tokenizer.encode(context)]
    readings = windows([asked("Oslo", context)], tokenizer, 200)
    assert readings.text(0, int(readings.start_N[0]), int(readings.end_N[0])) == ("Oslo", 3)


def test_a_row_is_question_eos_context_eos() -> None:
    tokenizer = tokenizer_of("word")
    batch = windows([asked("Oslo")], tokenizer, 200).batch(np.array([0]))
    assert tokenizer.decode(batch.token_BT[0]) == f"where does who live\n{CONTEXT}\n"
    assert batch.first_B.tolist() == [5]
    assert batch.length_B.tolist() == [len(batch.token_BT[0])] == [batch.tokens]
    assert tokenizer.token(int(batch.token_BT[0, batch.start_B[0]])) == "Oslo"


@given(st.integers(7, 60), st.integers(0, 25))
def test_windows_cover_the_context_and_an_answer_of_half_a_window_is_whole_in_one(limit: int, word: int) -> None:
    context = " ".join(f"w{n}" for n in range(26))
    tokenizer = tokenizer_of("word", context)
    readings = windows([asked(f"w{word}", context)], tokenizer, limit)
    assert readings.length_N.max() <= limit
    seen = [readings.ids[readings.starts[n] + readings.first_N[n] : readings.starts[n + 1] - 1] for n in range(len(readings))]
    assert set(np.concatenate(seen).tolist()) == set(tokenizer.encode(context).tolist())
    assert len(readings.answered)
    for n in readings.answered.tolist():
        assert readings.text(n, int(readings.start_N[n]), int(readings.end_N[n]))[0] == f"w{word}"
    room = limit - 6
    assert len(readings) == 1 if room >= 26 else np.diff(readings.starts).min() == limit  # none is short
    assert len(readings) <= 26 // max(1, room // 2) + 1


def test_what_does_not_fit_is_said_and_counted(tmp_path: Path) -> None:
    data = QuestionsConfig(path=str(write_questions(tmp_path / "q.jsonl", FEW)), valid=0.0)
    fitting = prepare_questions(data, TokenizerConfig(kind="word"), 32)
    assert fitting.notice is None
    cut = prepare_questions(data, TokenizerConfig(kind="word"), 14)
    answered = len(cut.train.answered)
    assert cut.notice is not None
    assert cut.notice.startswith("8 of 8 training contexts do not fit into 14 tokens with their question")
    assert f"{len(cut.train) - answered} of {len(cut.train)} windows do not hold the whole answer" in cut.notice
    assert 8 <= answered < len(cut.train)
    batches = cut.train.bucketed(4, 0)
    assert all((batches.next().start_B != NOWHERE).all() for _ in range(20))


def test_both_forms_of_squad_read_the_same(tmp_path: Path) -> None:
    nested, lines = (prepared(write_questions(tmp_path / name, FEW)).train for name in ("q.json", "q.jsonl"))
    assert [one[1:] for one in nested.questions] == [one[1:] for one in lines.questions]
    assert nested.questions[0].where.endswith(f'q.json, question "{FEW[0]["id"]}"')
    assert lines.questions[0].where.endswith("q.jsonl:1")
    packed = tmp_path / "q.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "q.json").read_bytes()))
    assert prepared(packed).sha256 == prepared(tmp_path / "q.jsonl").sha256


@pytest.mark.parametrize(
    "answers",
    [
        {"answer": "Oslo", "answer_start": 53},
        {"answer": "Oslo"},
        {"answers": [{"text": "Oslo", "answer_start": 53}, {"text": "Dora", "answer_start": 76}]},
    ],
)
def test_a_record_may_have_one_plain_answer_or_a_list(answers: dict[str, Any], tmp_path: Path) -> None:
    path = write_questions(tmp_path / "q.jsonl", [{"context": CONTEXT, "question": "where"} | answers])
    assert prepared(path).train.questions[0].answers[0] == GoldAnswer("Oslo", CONTEXT.index("Oslo"))


def test_questions_on_one_context_are_held_out_together_and_words_are_learned_from_the_rest(tmp_path: Path) -> None:
    data = prepared(write_questions(tmp_path / "q.jsonl"), valid=0.2)
    train, valid = ({one.context for one in part.questions} for part in (data.train, data.valid))
    assert not train & valid
    assert len(data.valid.questions) == 0.2 * len(RECORDS)
    assert len(data.train.questions) + len(data.valid.questions) == len(RECORDS)


def test_batches_are_a_function_of_seed_and_position(tmp_path: Path) -> None:
    readings = prepared(write_questions(tmp_path / "q.jsonl")).train
    one, other = (readings.bucketed(8, 3) for _ in range(2))
    batches = [one.next() for _ in range(110)]
    other.seek(104)
    assert np.array_equal(other.next().token_BT, batches[104].token_BT)
    assert not np.array_equal(readings.bucketed(8, 4).next().token_BT, batches[0].token_BT)


def test_another_file_is_read_with_the_tokens_of_the_run(tmp_path: Path) -> None:
    data = prepared(write_questions(tmp_path / "q.jsonl"))
    other = encode_questions(write_questions(tmp_path / "o.json", FEW), data.tokenizer, QuestionsConfig(path="-"), 32)
    assert isinstance(other, QuestionWindows)
    assert len(other.questions) == 8


ONE = FEW[0]
BAD: dict[str, tuple[Any, str]] = {
    "an answer outside its text": (
        ONE | {"answers": {"text": ["Rome"], "answer_start": [400]}},
        r"q\.jsonl:1: the answer 'Rome' is not at character 400 of its context, which ends at \d+\. Correct it",
    ),
    "an answer elsewhere": (
        ONE | {"answers": {"text": ["Rome"], "answer_start": [0]}},
        r"q\.jsonl:1: the answer 'Rome' is not at character 0 of its context, which has 'Anna' there",
    ),
    "before its text": (ONE | {"answers": {"text": ["Oslo"], "answer_start": [-6]}}, "at character -6"),  # counted from the end
    "nowhere": (ONE | {"answers": None, "answer": "Paris"}, "'Paris' does not occur in its context"),
    "plain, nowhere": ({"context": "a b", "question": "c", "answer": "d"}, "'d' does not occur in its context"),
    "impossible": (ONE | {"answers": {"text": [], "answer_start": []}}, "no answer, as in SQuAD 2.0: .* use SQuAD 1.1"),
    "impossible, said so": (ONE | {"is_impossible": True}, "no answer, as in SQuAD 2.0"),
    "lists of two lengths": (ONE | {"answers": {"text": ["Rome"], "answer_start": []}}, "of equal length"),
    "an answer that is a number": (ONE | {"answers": {"text": [3], "answer_start": [4]}}, "the answer 3; expected a text"),
    "a start that is none": (ONE | {"answers": {"text": ["Rome"], "answer_start": ["4"]}}, "\"answer_start\" '4'"),
    "no context": ({"question": "a"}, r'q\.jsonl:1 has no column "context"; it has: question'),
    "no object": ([1], r"q\.jsonl:1 is not a JSON object"),
    "a number for a text": (ONE | {"context": 3}, "the question or the context is not a string"),
    "an empty answer": (ONE | {"answers": {"text": [" "], "answer_start": [4]}}, "is empty; expected questions"),
    "an empty context": ({"context": " ", "question": "a", "answer": " "}, "is empty; expected questions"),
    "an empty question": (ONE | {"question": None}, "is empty; expected questions"),
}


def test_all_records_without_text_are_told_at_once_and_skipped_or_refused(tmp_path: Path) -> None:
    blank = [{"context": "\n"}, {"question": None}, {"answers": {"text": [""], "answer_start": [4]}}, {"question": " "}]
    path = write_questions(tmp_path / "q.jsonl", [*FEW, *(ONE | change for change in blank)])
    empty = r"4 of 12 records of .*q\.jsonl have no question, context or answer{}: .*q\.jsonl:9, .*q\.jsonl:10, .*q\.jsonl:11, …"
    with pytest.warns(UserWarning, match=empty.format(" and are skipped")):
        data = prepared(path)
    assert data.sha256 == prepared(write_questions(tmp_path / "few.jsonl", FEW)).sha256
    with pytest.raises(DataError, match=empty.format("") + r'\. Complete or remove them, or set data\.empty = "skip"\.$'):
        prepared(path, empty="refuse")
    with pytest.raises(DataError, match=r"4 of 12"):
        encode_questions(path, data.tokenizer, QuestionsConfig(path="-", empty="refuse"), 32)


def test_all_questions_without_an_answer_are_told_at_once(tmp_path: Path) -> None:
    path = write_questions(tmp_path / "q.jsonl", [ONE, ONE | {"is_impossible": True}, ONE | {"answers": []}])
    with pytest.raises(DataError, match=r"2 of 3 records of .* have no answer, as in SQuAD 2\.0: .*q\.jsonl:2, .*q\.jsonl:3\. "):
        prepared(path)


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_learned_from_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    record, message = BAD[name]
    with pytest.raises(DataError, match=message):
        prepared(write_questions(tmp_path / "q.jsonl", [record]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.jsonl", "{", r"q\.jsonl:1 is not JSON"),
        ("q.json", "{", r"q\.json is not JSON .* with one object per line \.jsonl"),
        ("q.json", "[1]", r"has another structure; expected SQuAD's form"),
        ("q.json", '{"version": 1}', r"lacks 'data'; expected SQuAD's form"),
        ("q.json", '{"data": [{"paragraphs": [{"qas": [{"question": "a"}]}]}]}', "lacks 'context'"),
        ("q.json", '{"data": []}', "is empty; expected questions"),
        ("q.txt", "a", r"q\.txt cannot be read as questions"),
    ],
)
def test_a_file_that_holds_no_questions_is_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        prepared(tmp_path / name)


def test_an_answer_outside_its_text_is_named_by_its_id_in_nested_json(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'q\.json, question "seven": the answer'):
        prepared(
            write_questions(tmp_path / "q.json", [ONE | {"id": "seven", "answers": {"text": ["Rome"], "answer_start": [1]}}])
        )


def test_a_question_that_leaves_no_room_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"context": "a b", "question": "c " * 40, "answer": "a"}))
    with pytest.raises(DataError, match=r"q\.jsonl:1: a question of 40 tokens .* training\.context = 32"):
        prepared(path)
