"""Answers of a model that can call tools, in the format of /v1/chat/completions."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from typing import Any

from firth.serving.http.prompts import ChatPrompt
from firth.serving.http.responding import Chunks
from firth.serving.http.writing import TextDelta
from firth.text.tool_calls import CallReader, ParsedCall

_random = random.Random()  # not random.SystemRandom, as in `service`


def call_id() -> str:
    """Nine letters and digits: the templates of Mistral's models refuse others."""
    return "".join(_random.choices(string.ascii_letters + string.digits, k=9))


def arguments_text(call: ParsedCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def read_whole(reader: CallReader, pieces: list[TextDelta]) -> tuple[str, list[ParsedCall]]:
    """The text and the calls of an answer."""
    parts = [*(reader.push(piece.text) for piece in pieces), reader.finish()]
    return "".join(text for text, _ in parts), [call for _, calls in parts for call in calls]


def finish_reason(reason: str | None, called: int) -> str | None:
    return "tool_calls" if reason == "stop" and called else reason


def as_tool_call(call: ParsedCall) -> dict[str, Any]:
    return {"id": call_id(), "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}


def choice(number: int, finish: str | None, reader: CallReader, pieces: list[TextDelta]) -> dict[str, Any]:
    text, calls = read_whole(reader, pieces)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [as_tool_call(call) for call in calls]
    else:
        message["content"] = text
    return {"index": number, "message": message, "logprobs": None, "finish_reason": finish_reason(finish, len(calls))}


class ToolChunks(Chunks):
    """A call is sent when it is complete: first its function, then its arguments."""

    def __init__(self, head: dict[str, object], prompt: ChatPrompt, *, usage: bool) -> None:
        super().__init__(head, lambda piece: "", usage=usage)
        self._prompt = prompt
        self._readers: dict[int, CallReader] = {}
        self._sent: dict[int, int] = {}  # calls of each choice

    def spelled(self, piece: TextDelta) -> str:
        return "".join(self.chunk(json.dumps(choice, ensure_ascii=False)) for choice in self._choices(piece))

    def _choices(self, piece: TextDelta) -> Iterator[dict[str, Any]]:
        number = piece.number
        if number not in self._readers:
            reader = self._prompt.reader()
            assert reader is not None  # otherwise the chunks are plain ones
            self._readers[number] = reader
        reader = self._readers[number]
        text, calls = reader.push(piece.text)
        if piece.finish is not None:
            rest, more = reader.finish()
            text, calls = text + rest, calls + more
        if text:
            yield _choice(number, {"content": text})
        for call in calls:
            index = self._sent[number] = self._sent.get(number, -1) + 1
            whole = as_tool_call(call)
            arguments = whole["function"]["arguments"]
            yield _choice(number, {"tool_calls": [{**whole, "index": index, "function": {"name": call.name, "arguments": ""}}]})
            yield _choice(number, {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        if piece.finish is not None:
            yield _choice(number, {}, finish_reason(piece.finish, reader.calls_read))


def _choice(number: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": number, "delta": delta, "logprobs": None, "finish_reason": finish}
