"""Answers to a conversation so far: messages become tokens by the run's own markers, or by a public model's chat template."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError
from firth.tasks.run import Run, has_template
from firth.text.chat_template import template_of
from firth.text.conversation import ChatFormat, Message, check_messages
from firth.text.template_format import TemplateFormat, special_tokens
from firth.text.tokenizers.tokenizer import Tokenizer

_RESERVED = 4  # a quarter of the context, at most, is kept free for the answer

Messages = Sequence[Message | Mapping[str, str]]


def as_messages(given: str | Messages) -> list[Message]:
    """Check that user and assistant take turns and that the last message is the user's."""
    if isinstance(given, str):
        given = [Message("user", given)]
    messages = [one if isinstance(one, Message) else _message(one) for one in given]
    check_messages(messages)
    if messages[-1].role != "user":
        raise DataError(f"the last message is the {messages[-1].role}'s; expected a question of the user")
    return messages


def _message(given: Mapping[str, str]) -> Message:
    try:
        return Message(given["role"], given["content"])  # type: ignore[arg-type]  # check_messages refuses other roles
    except (KeyError, TypeError) as error:
        raise ConfigError(f'a message is {given!r}; expected {{"role": "user", "content": "…"}}') from error


def conversation_ids(run: Run[Any], format: ChatFormat, messages: Sequence[Message], tokens: int) -> NDArray[np.int64]:
    """The conversation, up to where the answer of at most `tokens` tokens begins; the oldest rounds are left out if it is too
    long."""
    for message in messages:
        run.ids(message.content)  # warns about or refuses characters outside the vocabulary
    context = run.network.context
    ids = format.prompt(messages)
    if context is not None and len(ids) > (room := context - min(tokens, context // _RESERVED)):
        kept = format.fitted(messages, room)
        ids = format.prompt(kept)
        if len(ids) > room:
            raise DataError(f"the message has {len(ids):,} tokens, but this model reads {room:,}. Shorten it.")
        if len(kept) < len(messages):
            warnings.warn(
                f"the conversation is longer than {room:,} tokens, so the model no longer sees its oldest rounds", stacklevel=4
            )
    return ids.astype(np.int64)


def imported_format(tokenizer: Tokenizer) -> ChatFormat | None:
    """The format of a public model's messages: the chat template of its tokenizer_config.json; None if it has none."""
    if not has_template(tokenizer):
        return None
    template = template_of(tokenizer.settings, "tokenizer_config.json")
    return TemplateFormat(tokenizer, template, special_tokens(tokenizer))
