"""A conversation as tokens: the one place that decides how messages are written for a model, and which tokens it learns.

<user> Translate … <end> <assistant> dit is een boek <end> <user> And in … <end> <assistant> … <end>
                                     ~~~~~~~~~~~~~~~ ~~~~~                               ~ ~~~~~      learned
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.tokenizers.special_tokens import END, Ids
from firth.text.tokenizers.tokenizer import Tokenizer

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")


class Message(NamedTuple):
    role: Role
    content: str


Phrasing = Literal["known", "held out"]


class Skill(NamedTuple):
    """The skill that a question tests, and whether its wording occurs in training."""

    name: str
    phrasing: Phrasing = "known"


class Conversation(NamedTuple):
    where: str  # file and line, for messages
    messages: tuple[Message, ...]
    skills: tuple[Skill | None, ...]  # of each answer; None: unknown

    @property
    def answers(self) -> list[int]:
        """For each message, if it is an answer."""
        return [n for n, message in enumerate(self.messages) if message.role == "assistant"]


class QuestionFacts(NamedTuple):
    """Facts about a question, by which its answer is evaluated."""

    skill: Skill | None
    round: int  # from 1

    @classmethod
    def of(cls, conversation: Conversation) -> list[QuestionFacts]:
        return [cls(skill, number) for number, skill in enumerate(conversation.skills, start=1)]


@dataclass(frozen=True)
class Rendered:
    """The tokens of a conversation, and which of them the model has to write."""

    ids: Ids
    learned: NDArray[np.bool_]


class ChatFormat:
    """Messages → token ids. A chat template of another model family can take its place: `render`, `prompt` and `end`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.markers:
            raise DataError("this tokenizer has no markers such as <user> and <assistant>; expected one trained on conversations")
        self.tokenizer = tokenizer
        self.end = tokenizer.markers[END]
        self._marker_of = {role: tokenizer.markers[f"<{role}>"] for role in ROLES}
        self._markers = np.array(list(tokenizer.markers.values()))

    def render(self, messages: Sequence[Message]) -> Rendered:
        """The whole conversation. The answers are learned, each with its <end>; markers and the other messages are given."""
        parts = [self._message(message) for message in messages]
        learned = [
            np.arange(len(ids)) > 0 if message.role == "assistant" else np.zeros(len(ids), bool)
            for message, ids in zip(messages, parts, strict=True)
        ]
        return Rendered(np.concatenate(parts), np.concatenate(learned))

    def prompt(self, messages: Sequence[Message]) -> Ids:
        """The conversation so far and <assistant>, which the next answer continues."""
        assistant_marker = np.array([self._marker_of["assistant"]], self.tokenizer.dtype)
        return np.concatenate([*(self._message(message) for message in messages), assistant_marker])

    def fitted(self, messages: Sequence[Message], room: int) -> Sequence[Message]:
        """The messages whose prompt has at most `room` tokens: the oldest rounds are dropped, but not the system's message."""
        system = [message for message in messages[:1] if message.role == "system"]
        rest = messages[len(system) :]
        while len(rest) > 1 and len(self.prompt([*system, *rest])) > room:
            rest = rest[2:]
        return [*system, *rest]

    def _message(self, message: Message) -> Ids:
        content, end = self._content(message.content), self.end
        return np.concatenate(([self._marker_of[message.role]], content, [end])).astype(self.tokenizer.dtype)

    def _content(self, text: str) -> Ids:
        """A literal <user> in a text is no marker, even where the tokenizer would read it as one."""
        ids = self.tokenizer.encode(text)
        if self.tokenizer.unknown is not None and np.isin(ids, self._markers).any():
            ids = np.where(np.isin(ids, self._markers), self.tokenizer.unknown, ids)
        return ids


def check_messages(messages: Sequence[Message], where: str = "the conversation") -> None:
    """Raise a DataError unless user and assistant take turns, after an optional first message of the system."""
    expected: tuple[Role, ...] = ("system", "user")
    if not messages:
        raise DataError(f"{where} has no messages; expected the user and the assistant in turn")
    for number, message in enumerate(messages, start=1):
        if message.role not in expected:
            either = " or ".join(f'"{role}"' for role in expected)
            raise DataError(f'{where}: message {number} has the role "{message.role}"; expected {either}')
        if message.role != "system" and not message.content.strip():
            raise DataError(
                f"{where}: message {number}, of the {message.role}, is empty. Write something, or remove the message."
            )
        expected = ("assistant",) if message.role == "user" else ("user",)


def history_text(messages: Sequence[Message]) -> str:
    """The conversation so far in one line, as the source of an encoder–decoder: the contents, separated by a bar."""
    return " | ".join(" ".join(message.content.split()) for message in messages)
