"""Turn the messages and tools of a request into the tokens of a prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firth.errors import DataError
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.models import ServedModel
from firth.serving.http.schemas import ChatMessage, Function
from firth.serving.http.service import Service
from firth.tasks.abilities.chat import as_messages, conversation_ids
from firth.text.conversation import Message
from firth.text.template_format import TemplateFormat
from firth.text.tool_calls import CallReader
from firth.text.tool_format import TemplateMessage, ToolFormat

_RESERVED = 4  # a quarter of the context, at most, is kept free for the answer, as in `run.chat`


@dataclass(frozen=True)
class Offer:
    """The tools that a model may call, and the maximum number of calls (None: no maximum)."""

    functions: Sequence[Function] = ()
    most: int | None = None

    @classmethod
    def of(cls, functions: Sequence[Function], choice: Any, parallel: bool) -> Offer:
        """From a request's tools; `choice` is its tool_choice."""
        names = [function.name for function in functions]
        for name in names:
            if names.count(name) > 1:
                raise wrong("tools", f'"tools" has two functions with the name "{name}"')
        if choice in (None, "auto"):
            return cls(functions, None if parallel else 1)
        if choice == "none":
            return cls()
        if choice == "required" or isinstance(choice, dict):
            message = '"tool_choice" can be "auto" or "none": firth cannot make a model call a function.'
            raise ApiError(400, message, param="tool_choice", code="unsupported_parameter")
        raise wrong("tool_choice", f'"tool_choice" is {json.dumps(choice)[:60]}; expected "auto" or "none"')


@dataclass(frozen=True)
class ChatPrompt:
    ids: tuple[int, ...]
    offer: Offer = Offer()
    format: ToolFormat | None = None

    @property
    def shown(self) -> Mapping[int, str]:
        """Special tokens to keep in an answer, because they mark its tool calls."""
        return self.format.shown if self.format is not None and self.offer.functions else {}

    def reader(self) -> CallReader | None:
        """A reader for the calls in one answer; None if there are no tools."""
        if self.format is None or not self.offer.functions:
            return None
        return self.format.reader({one.name: one.parameters for one in self.offer.functions}, most=self.offer.most)


async def prompt(
    service: Service, model: ServedModel, messages: Sequence[ChatMessage], offer: Offer, tokens: int, param: str
) -> ChatPrompt:
    """The prompt that an answer of at most `tokens` tokens continues. Where `run.chat` would leave out the oldest rounds, it is
    refused; `param` is the parameter with the conversation. In a thread, because a chat template runs in another process."""

    def check_length(length: int) -> None:
        context = model.context
        service.check_prompt(model, length, param)
        service.check_prompt(model, length, param, None if context is None else context - min(tokens, context // _RESERVED))

    if offer.functions or any(message.role == "tool" or message.tool_calls for message in messages):
        chat_prompt = await asyncio.to_thread(_with_tools, model, _for_template(messages), offer)
        check_length(len(chat_prompt.ids))
        return chat_prompt
    plain = as_messages([Message(_role(message), _text(message)) for message in messages])

    def without_tools() -> ChatPrompt:
        run = model.language
        check_length(len(run.format.prompt(plain)))
        return ChatPrompt(tuple(conversation_ids(run, run.format, plain, tokens).tolist()))

    return await asyncio.to_thread(without_tools)


def _with_tools(model: ServedModel, messages: Sequence[TemplateMessage], offer: Offer) -> ChatPrompt:
    try:
        format = model.language.format
        if not isinstance(format, TemplateFormat):
            raise DataError("this model has no chat template, so it cannot use tools. Remove them, or use another model.")
        tools = format.tools
    except DataError as error:
        raise ApiError(400, str(error), param="tools", code="unsupported_parameter") from error
    ids = tools.prompt(messages, [function.for_template() for function in offer.functions])
    return ChatPrompt(tuple(ids.tolist()), offer, tools)


def _for_template(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """The messages as chat templates expect them. After an assistant's calls come their results, in any order."""
    rendered: list[dict[str, Any]] = []
    open_calls: dict[str, str] = {}  # id → function
    expected: tuple[str, ...] = ("system", "user")
    for number, message in enumerate(messages):
        role = "tool" if message.role == "tool" else _role(message)
        where = f"messages.{number}"
        if role not in expected:
            raise wrong(where, f'message {number + 1} has the role "{role}"; expected {" or ".join(expected)}')
        one: dict[str, Any] = {"role": role, "content": _text(message, empty=bool(message.tool_calls))}
        if message.tool_calls:
            one["tool_calls"] = [_call(call, where) for call in _calls(message, where)]
            open_calls |= {call.id: call.function.name for call in message.tool_calls}
        if role == "tool":
            if message.tool_call_id not in open_calls:
                raise wrong(where, f'message {number + 1} answers the tool call "{message.tool_call_id}", which is not open')
            one |= {"tool_call_id": message.tool_call_id, "name": open_calls.pop(message.tool_call_id)}
        expected = ("tool",) if open_calls else {"assistant": ("user",), "tool": ("assistant",)}.get(role, ())
        expected = expected or (("user",) if role == "system" else ("assistant",))
        rendered.append(one)
    if rendered[-1]["role"] not in ("user", "tool") or open_calls:
        raise wrong("messages", "the last message must come from the user, or be the result of the last tool call")
    return rendered


def _calls(message: ChatMessage, where: str) -> list[Any]:
    if message.role != "assistant":
        raise wrong(where, f'a message of the role "{message.role}" has "tool_calls"; only an assistant\'s can')
    return message.tool_calls or []


def _call(call: Any, where: str) -> dict[str, Any]:
    """The arguments of a call as an object, which templates expect."""
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise wrong(where, f'the arguments of "{call.function.name}" are not a JSON object')
    return {"type": "function", "id": call.id, "function": {"name": call.function.name, "arguments": arguments}}


def _role(message: ChatMessage) -> Any:
    return "system" if message.role == "developer" else message.role


def _text(message: ChatMessage, *, empty: bool = False) -> str:
    content = message.content
    if content is None and empty:
        return ""
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                kind = part.get("type") if isinstance(part, dict) else part
                told = f'a message has a part of the type "{str(kind)[:40]}", which is not supported by firth. Send text.'
                raise ApiError(400, told, param="messages", code="unsupported_parameter")
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise wrong("messages", "the content of a message is wrong: expected a text")
    return content
