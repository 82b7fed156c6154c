"""/v1/chat/completions: answers to conversations."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from firth.decoding.engine import Job
from firth.serving.http import probabilities
from firth.serving.http.chunks import Chunks, usage
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.models import ServedModel
from firth.serving.http.responding import respond
from firth.serving.http.schemas import ChatBody, ChatMessage
from firth.serving.http.service import Service, new_id
from firth.serving.http.writing import Piece, Text, Writing
from firth.tasks.abilities.chat import as_messages, conversation_ids
from firth.text.conversation import Message

_RESERVED = 4  # a quarter of the context, at most, is kept free for the answer, as in `run.chat`


async def chat(service: Service, body: ChatBody, request: Request) -> Response:
    model = service.models.get(body.model)
    if body.top_logprobs is not None and not body.logprobs:
        raise wrong("top_logprobs", '"top_logprobs" needs "logprobs": true')
    name, tokens = _tokens(service, model, body)
    config, stops = service.decoding(model, body, tokens, name)
    if body.n > service.limits.choices:
        raise wrong("n", f'"n" is {body.n}; the limit is {service.limits.choices}. Ask for fewer.')
    messages = as_messages([_message(message) for message in body.messages])
    ids = await asyncio.to_thread(_ids, service, model, messages, tokens)  # a chat template runs in another process
    texts = []
    for number in range(body.n):
        job = Job(
            ids,
            config,
            model.language.answer_ends(),
            top=body.top_logprobs or 0,
            number=number,
            seconds=service.limits.seconds,
        )
        texts.append(Text(number, job, model.run.tokenizer, (), stops, body.logprobs))
    writing = Writing(model, texts, service.post)
    return await respond(service, request, writing, _Answer(model, body, len(ids)), stream=body.stream)


class _Answer:
    def __init__(self, model: ServedModel, body: ChatBody, prompt_tokens: int) -> None:
        self.model, self.body, self.prompt_tokens = model, body, prompt_tokens
        self.tokenizer = model.run.tokenizer
        self.head = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": model.name}

    def whole(self, writing: Writing, pieces: list[list[Piece]]) -> dict[str, Any]:
        choices = []
        for text, written in zip(writing.texts, pieces, strict=True):
            tokens = [token for piece in written for token in piece.tokens]
            choices.append(
                {
                    "index": text.number,
                    "message": {"role": "assistant", "content": "".join(piece.text for piece in written), "refusal": None},
                    "logprobs": probabilities.for_chat(self.tokenizer, tokens) if self.body.logprobs else None,
                    "finish_reason": text.finish,
                }
            )
        counted = usage(self.prompt_tokens, writing.generated)
        return {**self.head, "object": "chat.completion", "choices": choices, "usage": counted}

    async def chunks(self, writing: Writing, service: Service) -> Any:
        options = self.body.stream_options
        opening = [
            f'{{"index": {number}, "delta": {{"role": "assistant", "content": ""}}, "logprobs": null, "finish_reason": null}}'
            for number in range(self.body.n)
        ]
        head = {**self.head, "object": "chat.completion.chunk"}
        chunks = Chunks(head, self._spell, usage=options is not None and options.include_usage)
        async for chunk in chunks.of(writing, self.prompt_tokens, opening):
            yield chunk
        service.metrics.first_token(self.model.name, writing.first_token or 0.0)

    def _spell(self, piece: Piece) -> str:
        delta = f'{{"content": {json.dumps(piece.text, ensure_ascii=False)}}}' if piece.text else "{}"
        logprobs = "null"
        if self.body.logprobs and piece.tokens:
            logprobs = json.dumps(probabilities.for_chat(self.tokenizer, piece.tokens), ensure_ascii=False)
        finish = "null" if piece.finish is None else f'"{piece.finish}"'
        return f'{{"index": {piece.number}, "delta": {delta}, "logprobs": {logprobs}, "finish_reason": {finish}}}'


def _tokens(service: Service, model: ServedModel, body: ChatBody) -> tuple[str, int]:
    """The parameter that says how long the answer may be, and its value; by default the run's own."""
    if body.max_completion_tokens is not None:
        return "max_completion_tokens", body.max_completion_tokens
    if body.max_tokens is not None:
        return "max_tokens", body.max_tokens
    return "max_completion_tokens", min(model.language.recipe.decoding.tokens, service.limits.tokens)


def _message(given: ChatMessage) -> Message:
    content = given.content
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                kind = part.get("type") if isinstance(part, dict) else part
                message = f'a message has a part of the type "{str(kind)[:40]}", which is not supported by firth. Send text.'
                raise ApiError(400, message, param="messages", code="unsupported_parameter")
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise wrong("messages", "the content of a message is wrong: expected a text")
    return Message("system" if given.role == "developer" else given.role, content)


def _ids(service: Service, model: ServedModel, messages: list[Message], tokens: int) -> tuple[int, ...]:
    """The conversation as tokens. Where `run.chat` would leave out its oldest rounds, it is refused."""
    run, context = model.language, model.context
    room = None if context is None else context - min(tokens, context // _RESERVED)
    ids = run.format.prompt(messages)
    service.check_prompt(model, len(ids), "messages")
    service.check_prompt(model, len(ids), "messages", room)
    return tuple(conversation_ids(run, run.format, messages, tokens).tolist())
