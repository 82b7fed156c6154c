"""Files of conversations: what is read, and which line and message is at fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_lines import chat, digits, write_chats

from firth.errors import ConfigError, DataError
from firth.progress import silent
from firth.text.config import ConversationsConfig, TokenizerConfig
from firth.text.conversation import Skill
from firth.text.data.conversations import encode_conversations, prepare_conversations
from firth.text.readers.chat_files import read_conversations
from firth.text.readers.corpus import find

WORDS = TokenizerConfig(kind="word")


def test_messages_are_read_with_their_roles_and_skills(tmp_path: Path) -> None:
    lines = [chat(("hello", "good day"), system="be polite"), chat(("name 3", "three"), ("again", "three"), skill="names")]
    first, second = read_conversations(find(str(write_chats(tmp_path / "c.jsonl", lines))), silent)
    assert [tuple(message) for message in first.messages] == [
        ("system", "be polite"),
        ("user", "hello"),
        ("assistant", "good day"),
    ]
    assert (first.where, first.answers, first.skills) == (f"{tmp_path / 'c.jsonl'}:1", [2], (None,))
    assert (second.answers, second.skills) == ([1, 3], (Skill("names"), Skill("names")))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"text": "hello"}, r'c\.jsonl:2 has no column "messages"; it has: text'),
        ({"messages": "hello"}, r"""c\.jsonl:2: "messages" is 'hello'; expected a list"""),
        ({"messages": ["hello"]}, r"c\.jsonl:2: message 1 is 'hello'; expected an object"),
        ({"messages": [{"role": "user"}]}, r'c\.jsonl:2: message 1 has no "content" that is a string; it has role'),
        ({"messages": [{"role": "User", "content": "a"}]}, r'message 1 has the role "User"; .* Did you mean "user"\?'),
        ({"messages": [{"role": "user", "content": "a"}]}, r"c\.jsonl:2 ends with a message of the user"),
        ({"messages": chat(("a", "b"))["messages"] * 2 + chat(("a", "b"))["messages"][1:]}, "message 5 has the role"),
        ({"messages": chat(("a", "\ud800"))["messages"]}, "message 2 holds .* half of a surrogate pair"),
        (chat(("a", "b"), skill=""), r'c\.jsonl:2: message 2: "skill" is \'\''),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_message(line: dict[str, object], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (chat(("hello", "good day")), line)))
    with pytest.raises(DataError, match=complaint):
        read_conversations(find(str(path)), silent)


def test_all_conversations_with_an_empty_message_are_told_at_once_and_skipped_or_refused(tmp_path: Path) -> None:
    whole = chat(("hello", "good day"), system="")  # the system may say nothing
    lines = [whole, chat(("hello", " ")), {"messages": []}, chat(("\n", "good day")), {"messages": None}, whole]
    path = write_chats(tmp_path / "c.jsonl", lines)
    problem = r"4 of 6 records of .*c\.jsonl have no messages or an empty one{}: .*:2, .*:3, .*:4, …"
    with pytest.warns(UserWarning, match=problem.format(" and are skipped")):
        data = prepare_conversations(ConversationsConfig(path=str(path), valid=0), WORDS)
    assert len(data.train) == 2
    refusing = ConversationsConfig(path=str(path), empty="refuse")
    for attempt in (lambda: prepare_conversations(refusing, WORDS), lambda: encode_conversations(path, data.tokenizer, refusing)):
        with pytest.raises(DataError, match=problem.format("") + r'\. Complete or remove them, or set data\.empty = "skip"\.$'):
            attempt()


def test_a_share_is_held_out_and_the_vocabulary_comes_from_the_rest(tmp_path: Path) -> None:
    path = write_chats(tmp_path / "c.jsonl")
    data = prepare_conversations(ConversationsConfig(path=str(path), valid=0.2), WORDS)
    assert data.valid is not None
    assert (len(data.train), len(data.valid), data.test) == (80, 20, None)
    assert {*data.train.texts}.isdisjoint(data.valid.texts)
    again = encode_conversations(path, data.tokenizer, ConversationsConfig(path=str(path)))
    assert len(again) == 100


def test_long_conversations_are_left_out_of_training_and_that_is_said(tmp_path: Path) -> None:
    lines = [*digits(), chat(("name " * 40, "three"))]
    config = ConversationsConfig(path=str(write_chats(tmp_path / "c.jsonl", lines)), valid=0)
    data = prepare_conversations(config, WORDS, limit=32)
    assert len(data.train) == 100
    assert data.notice is not None
    assert data.notice.startswith("1 of 101 training conversations (0.99 %) have more than 32 tokens")
    with pytest.raises(DataError, match="all 101 training conversations have more than 3 tokens"):
        prepare_conversations(config, WORDS, limit=3)


def test_a_text_without_roles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.text has no roles"):
        prepare_conversations(ConversationsConfig(text="hello"), WORDS)
    (tmp_path / "c.txt").write_text("hello\n")
    with pytest.raises(DataError, match="is read as txt, which has no lists of messages"):
        prepare_conversations(ConversationsConfig(path=str(tmp_path / "c.txt")), WORDS)
    with pytest.raises(ConfigError, match=r'data\.skills .* only applies to data\.name = "chats"'):
        ConversationsConfig(path="c.jsonl", skills=("dates",))
