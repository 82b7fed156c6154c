"""/v1/chat/completions: answers to conversations."""

from __future__ import annotations

import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from firth.decoding.config import DecodingConfig
from firth.decoding.engine.engine import Job
from firth.serving.http import probabilities, tool_answers
from firth.serving.http.errors import wrong
from firth.serving.http.models import ServedModel
from firth.serving.http.prompts import ChatPrompt, Offer, prompt
from firth.serving.http.responding import Chunks, respond, usage
from firth.serving.http.schemas import ChatBody
from firth.serving.http.service import Service, new_id
from firth.serving.http.writing import ResponseText, TextDelta, Writing


async def chat(service: Service, body: ChatBody, request: Request) -> Response:
    model = service.models.get(body.model)
    if body.top_logprobs is not None and not body.logprobs:
        raise wrong("top_logprobs", '"top_logprobs" needs "logprobs": true')
    name, tokens = answer_length(service, model, body)
    config, stops = service.decoding(model, body, tokens, name)
    if body.n > service.limits.choices:
        raise wrong("n", f'"n" is {body.n}; the limit is {service.limits.choices}. Ask for fewer.')
    offer = Offer.of([tool.function for tool in body.tools], body.tool_choice, body.parallel_tool_calls)
    if offer.functions and body.logprobs:
        raise wrong("logprobs", '"logprobs" cannot be combined with "tools". Remove one of them.')
    chat_prompt = await prompt(service, model, body.messages, offer, tokens, "messages")
    writing = Writing(model, await texts_of(service, model, body, chat_prompt, (config, stops)), service.dispatcher)
    return await respond(service, request, writing, _ChatResponse(model, body, chat_prompt), stream=body.stream)


async def texts_of(
    service: Service, model: ServedModel, body: ChatBody, prompt: ChatPrompt, decoding: tuple[DecodingConfig, tuple[str, ...]]
) -> list[ResponseText]:
    """The answers to generate. `decoding`: the settings and the stop strings."""
    config, stops = decoding
    if config.constrains and prompt.offer.functions:
        raise wrong("tools", '"tools" cannot be combined with a constraint on the answer. Remove one of them.')
    ends, texts = model.language.answer_ends(), []
    begins = await service.begins(model, config, (), ends)
    for number in range(body.n):
        top, seconds = body.top_logprobs or 0, service.limits.seconds
        job = Job(prompt.ids, config, ends, ends, begins, top=top, number=number, seconds=seconds)
        texts.append(ResponseText(number, job, model.run.tokenizer, (), stops, body.logprobs, shown=prompt.shown))
    return texts


class _ChatResponse:
    def __init__(self, model: ServedModel, body: ChatBody, prompt: ChatPrompt) -> None:
        self.model, self.body, self.prompt, self.prompt_tokens = model, body, prompt, len(prompt.ids)
        self.tokenizer = model.run.tokenizer
        self.head = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": model.name}

    def whole(self, writing: Writing, pieces: list[list[TextDelta]]) -> dict[str, Any]:
        choices = []
        for text, written in zip(writing.texts, pieces, strict=True):
            if (reader := self.prompt.reader()) is not None:
                choices.append(tool_answers.choice(text.number, text.finish, reader, written))
                continue
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
        first_choices = [
            f'{{"index": {number}, "delta": {{"role": "assistant", "content": ""}}, "logprobs": null, "finish_reason": null}}'
            for number in range(self.body.n)
        ]
        head = {**self.head, "object": "chat.completion.chunk"}
        usage = options is not None and options.include_usage
        calls = self.prompt.reader() is not None
        chunks = tool_answers.ToolChunks(head, self.prompt, usage=usage) if calls else Chunks(head, self._spell, usage=usage)
        async for chunk in chunks.of(writing, self.prompt_tokens, first_choices):
            yield chunk
        service.metrics.first_token(self.model.name, writing.first_token or 0.0)

    def _spell(self, piece: TextDelta) -> str:
        delta = f'{{"content": {json.dumps(piece.text, ensure_ascii=False)}}}' if piece.text else "{}"
        logprobs = "null"
        if self.body.logprobs and piece.tokens:
            logprobs = json.dumps(probabilities.for_chat(self.tokenizer, piece.tokens), ensure_ascii=False)
        finish = "null" if piece.finish is None else f'"{piece.finish}"'
        return f'{{"index": {piece.number}, "delta": {delta}, "logprobs": {logprobs}, "finish_reason": {finish}}}'


def answer_length(service: Service, model: ServedModel, body: ChatBody) -> tuple[str, int]:
    """The parameter that says how long the answer may be, and its value; by default the run's own."""
    if body.max_completion_tokens is not None:
        return "max_completion_tokens", body.max_completion_tokens
    if body.max_tokens is not None:
        return "max_tokens", body.max_tokens
    return "max_completion_tokens", min(model.language.recipe.decoding.tokens, service.limits.tokens)
