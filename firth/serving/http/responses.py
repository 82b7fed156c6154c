"""/v1/responses: answers to conversations through OpenAI's Responses API. Nothing is stored."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from firth.decoding.config import DecodingConfig
from firth.serving.http.chat import answer_length, texts_of
from firth.serving.http.models import ServedModel
from firth.serving.http.prompts import ChatPrompt, Offer, prompt
from firth.serving.http.responding import respond
from firth.serving.http.response_schemas import ResponseBody
from firth.serving.http.service import Service, new_id
from firth.serving.http.tool_answers import arguments_text, call_id
from firth.serving.http.writing import TextDelta, Writing
from firth.text.tool_calls import CallReader, ParsedCall

Event = dict[str, Any]


class Output:
    """`items` holds the output so far. Without a reader, all of it is text."""

    def __init__(self, reader: CallReader | None) -> None:
        self._reader = reader
        self.items: list[dict[str, Any]] = []
        self._text: list[str] | None = None  # of the unfinished message

    def read(self, piece: TextDelta) -> Iterator[Event]:
        text, calls = (piece.text, []) if self._reader is None else self._reader.push(piece.text)
        yield from self._say(text, calls)
        if piece.finish is None:
            return
        if self._reader is not None:
            yield from self._say(*self._reader.finish())
        if not self.items:
            yield from self._open()
        yield from self._close("completed" if piece.finish == "stop" else "incomplete")

    def _say(self, text: str, calls: list[ParsedCall]) -> Iterator[Event]:
        if text:
            if self._text is None:
                yield from self._open()
            assert self._text is not None
            self._text.append(text)
            yield {"type": "response.output_text.delta", **self._place(), "content_index": 0, "delta": text, "logprobs": []}
        for call in calls:
            yield from self._close("completed")
            yield from self._call(call)

    def _open(self) -> Iterator[Event]:
        item = {"id": new_id("msg"), "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        self.items.append(item)
        self._text = []
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": {**item}}
        yield {"type": "response.content_part.added", **self._place(), "content_index": 0, "part": _part("")}

    def _close(self, status: str) -> Iterator[Event]:
        """Finish the current message, if there is one."""
        if self._text is None:
            return
        text, self._text, item = "".join(self._text), None, self.items[-1]
        yield {"type": "response.output_text.done", **self._place(), "content_index": 0, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **self._place(), "content_index": 0, "part": _part(text)}
        item |= {"status": status, "content": [_part(text)]}
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": {**item}}

    def _call(self, call: ParsedCall) -> Iterator[Event]:
        arguments = arguments_text(call)
        item = {"id": new_id("fc"), "type": "function_call", "call_id": call_id(), "name": call.name, "arguments": arguments}
        item["status"] = "completed"
        self.items.append(item)
        started = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": started}
        yield {"type": "response.function_call_arguments.delta", **self._place(), "delta": arguments}
        yield {"type": "response.function_call_arguments.done", **self._place(), "name": call.name, "arguments": arguments}
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": {**item}}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


async def answer(service: Service, body: ResponseBody, request: Request) -> Response:
    model, chat = service.models.get(body.model), body.as_chat()
    _, tokens = answer_length(service, model, chat)
    config, stops = service.decoding(model, chat, tokens, "max_output_tokens")
    offer = Offer.of([tool.function for tool in chat.tools], chat.tool_choice, chat.parallel_tool_calls)
    chat_prompt = await prompt(service, model, chat.messages, offer, tokens, "input")
    writing = Writing(model, await texts_of(service, model, chat, chat_prompt, (config, stops)), service.dispatcher)
    return await respond(service, request, writing, _Response(model, body, chat_prompt, config), stream=body.stream, end=b"")


class _Response:
    def __init__(self, model: ServedModel, body: ResponseBody, prompt: ChatPrompt, config: DecodingConfig) -> None:
        self._model, self._body, self._prompt, self._config = model, body, prompt, config
        self._head = {"id": new_id("resp"), "object": "response", "created_at": int(time.time())}
        self._output = Output(prompt.reader())

    def whole(self, writing: Writing, pieces: list[list[TextDelta]]) -> dict[str, Any]:
        for piece in pieces[0]:
            for _ in self._output.read(piece):
                pass
        return self._response(_status(writing), writing)

    async def chunks(self, writing: Writing, service: Service) -> AsyncIterator[bytes]:
        number = 0

        def spelled(event: dict[str, Any]) -> str:
            nonlocal number
            data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
            number += 1
            return f"event: {event['type']}\ndata: {data}\n\n"

        first_events = ("response.created", "response.in_progress")
        yield "".join(spelled({"type": kind, "response": self._response("in_progress")}) for kind in first_events).encode()
        async for pieces in writing.pieces():
            if events := "".join(spelled(event) for piece in pieces for event in self._output.read(piece)):
                yield events.encode()
        status = _status(writing)
        yield spelled({"type": f"response.{status}", "response": self._response(status, writing)}).encode()
        service.metrics.first_token(self._model.name, writing.first_token or 0.0)

    def _response(self, status: str, writing: Writing | None = None) -> dict[str, Any]:
        """The response object; `writing` is None until the output is finished."""
        body = self._body
        return {
            **self._head,
            "status": status,
            "model": self._model.name,
            "output": self._output.items if writing is not None else [],
            "usage": None if writing is None else _usage(len(self._prompt.ids), writing.generated),
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata,
            "parallel_tool_calls": body.parallel_tool_calls,
            "previous_response_id": None,
            "store": False,
            "temperature": self._config.temperature,
            "top_p": self._config.top_p,
            "text": {"format": body.text.format.model_dump(by_alias=True, exclude_none=True)},
            "tool_choice": body.tool_choice or "auto",
            "tools": [tool.model_dump() for tool in body.tools],
            "truncation": "disabled",
        }


def _status(writing: Writing) -> str:
    return "incomplete" if writing.texts[0].finish == "length" else "completed"


def _usage(given: int, written: int) -> dict[str, Any]:
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + written,
    }
