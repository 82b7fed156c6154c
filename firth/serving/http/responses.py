"""/v1/responses: answers to conversations through OpenAI's Responses API. Nothing is stored."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from firth.decoding.config import DecodingConfig
from firth.serving.http.chat import answer_length, texts_of
from firth.serving.http.models import ServedModel
from firth.serving.http.prompts import ChatPrompt, Offer, prompt
from firth.serving.http.responding import respond
from firth.serving.http.response_output import Output
from firth.serving.http.response_schemas import ResponseBody
from firth.serving.http.service import Service, new_id
from firth.serving.http.writing import TextDelta, Writing


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
