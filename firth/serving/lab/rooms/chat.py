"""Chat: a conversation with a model, whose answers appear as they are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from firth.errors import ConfigError
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room
from firth.serving.lab.starters import CHAT
from firth.tasks import ability

if TYPE_CHECKING:
    from firth.text.conversation import Message

MOST_TOKENS = 1000  # of one answer
_EXPECTED = 'expected [["user", "…"], ["assistant", "…"], …]'


def reply(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The answer to the conversation so far. While it is generated, the progress message holds the text so far."""
    run, messages = request.text("run"), _messages(request)
    given = _given(request)
    pieces: list[str] = []
    with library.using(run, progress) as model:
        talker: Any = model  # a run that holds no conversations says so itself
        config = talker.generation(given)
        for piece in talker.reply(messages, config):
            pieces.append(piece)
            progress("".join(pieces), len(pieces), config.tokens)
    told = [{"role": one.role, "content": one.content} for one in messages]
    settings = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    python = library.program(run, f"messages = {told!r}", f"print(model.chat(messages, {settings}))")
    return ViewResult({}, python, {"answer": "".join(pieces)})


def _messages(request: ViewRequest) -> list[Message]:
    """The conversation, which the page sends as JSON; a system message, if there is one, is a setting of its own."""
    from firth.text.conversation import Message

    given, system = request.text("messages"), request.text("system", "")
    try:
        messages: Any = [Message(role, content) for role, content in json.loads(given)]
    except (ValueError, TypeError):
        raise ConfigError(f'messages is "{given[:60]}"; {_EXPECTED}') from None
    if not all(isinstance(part, str) for message in messages for part in message):
        raise ConfigError(f'messages is "{given[:60]}"; {_EXPECTED}')
    return [Message("system", system), *messages] if system.strip() else list(messages)


def _given(request: ViewRequest) -> dict[str, Any]:
    """Settings that are not given, or emptied, are the run's own."""
    settings: dict[str, Any] = {"seed": request.number("seed", int, 0, least=0)}
    if request.text("temperature", ""):
        settings["temperature"] = request.number("temperature", float, least=0, most=10)
    if request.text("tokens", ""):
        settings["tokens"] = request.number("tokens", int, least=1, most=MOST_TOKENS)
    return settings


ROOM = Room(
    "chat",
    "Chat",
    "A conversation with a model, which sees all of it.",
    {"reply": reply},
    ability=ability.CHAT,
    if_none="There is no run that holds conversations. Train a small one that knows dates; the whole recipe, which also "
    "translates and judges reviews, needs a GPU:",
    starter=CHAT,
    facts={"most_tokens": MOST_TOKENS},
    notice="The model sees the whole conversation again before each answer, and nothing else.",
    examples=(
        Example("Always the most probable answer", {"temperature": "0", "tokens": ""}),
        Example("A freer answer", {"temperature": "1", "tokens": ""}),
    ),
    texts_into="message",
)
