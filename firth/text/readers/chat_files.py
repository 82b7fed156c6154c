"""Conversations in jsonl or parquet files: {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", …}, …]}.

The first message may be the system's; then user and assistant take turns, and the last message is the assistant's. An answer
may name what was asked of it, {"role": "assistant", "content": "No", "skill": "sentiment"}: it is then also evaluated by skill.
"""

from __future__ import annotations

from typing import Any, cast

from firth.errors import DataError, did_you_mean
from firth.progress import Progress
from firth.text.conversation import ROLES, Conversation, Message, Role, Skill, check_messages
from firth.text.readers.blank_records import BlankRecords
from firth.text.readers.corpus import Corpus
from firth.text.readers.formats import file_format
from firth.text.readers.reader import Column, TableReader

_MESSAGES = (Column("messages", setting=None),)
_SHOWN = 40  # characters of a value in a message


def read_conversations(corpus: Corpus, progress: Progress) -> list[Conversation]:
    """All conversations. Those without messages, or with an empty one, are skipped or refused as `corpus.empty` says."""
    conversations: list[Conversation] = []
    blank = BlankRecords()
    if not corpus.files:
        raise DataError(f"{corpus.name} is text without roles. Set data.path to a .jsonl file of conversations.")
    for path, tick in corpus.each_file(progress):
        format = file_format(path, corpus.format, columns=True)
        if not issubclass(format, TableReader) or not format.nested:
            raise DataError(f"{path} is read as {format.kind}, which has no lists of messages. Use a .jsonl or .parquet file.")
        for where, (value,) in format.rows(path, _MESSAGES, tick, None):
            messages = _messages(where, value)
            if not messages or any(one.role != "system" and not one.content.strip() for one in messages):
                blank.add(where)
            else:
                conversations.append(_conversation(where, messages, value))
    if not conversations:
        raise DataError(f"{corpus.name} is empty; expected conversations")
    blank.settle(corpus.empty, corpus.name, len(conversations) + blank.count, "no messages or an empty one")
    return conversations


def _messages(where: str, value: Any) -> tuple[Message, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DataError(f'{where}: "messages" is {str(value)[:_SHOWN]!r}; expected a list of objects with "role" and "content"')
    return tuple(_message(where, number, one) for number, one in enumerate(value, start=1))


def _conversation(where: str, messages: tuple[Message, ...], value: list[Any]) -> Conversation:
    check_messages(messages, where)
    if messages[-1].role != "assistant":
        raise DataError(f"{where} ends with a message of the {messages[-1].role}. Add the assistant's answer, or remove it.")
    skills = [_skill(where, number, one) for number, one in enumerate(value, start=1) if one["role"] == "assistant"]
    return Conversation(where, messages, tuple(skills))


def _message(where: str, number: int, value: Any) -> Message:
    if not isinstance(value, dict):
        raise DataError(f'{where}: message {number} is {str(value)[:_SHOWN]!r}; expected an object with "role" and "content"')
    for key in ("role", "content"):
        if not isinstance(value.get(key), str):
            raise DataError(f'{where}: message {number} has no "{key}" that is a string; it has {", ".join(value) or "nothing"}')
    if value["role"] not in ROLES:
        near = did_you_mean(value["role"], ROLES)
        raise DataError(f'{where}: message {number} has the role "{value["role"]}"; expected system, user or assistant.{near}')
    return Message(cast(Role, value["role"]), _encodable(where, number, value["content"]))


def _encodable(where: str, number: int, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: message {number} holds {text[error.start]!r}, half of a surrogate pair. Remove it.") from error
    return text.replace("\r\n", "\n")


def _skill(where: str, number: int, value: dict[str, Any]) -> Skill | None:
    skill = value.get("skill")
    if skill is None:
        return None
    if not isinstance(skill, str) or not skill:
        raise DataError(f'{where}: message {number}: "skill" is {skill!r}; expected a name such as "sentiment"')
    return Skill(skill)
