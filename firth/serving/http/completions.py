"""/v1/completions: texts that continue prompts."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from firth.decoding.engine.engine import Job
from firth.serving.http import probabilities
from firth.serving.http.errors import wrong
from firth.serving.http.models import ServedModel
from firth.serving.http.responding import Chunks, respond, usage
from firth.serving.http.schemas import CompletionBody
from firth.serving.http.service import Service, new_id, off_loop
from firth.serving.http.writing import ResponseText, Speller, TextDelta, Writing


@dataclass(frozen=True)
class CompletionPrompt:
    ids: tuple[int, ...]
    text: str  # as `echo` repeats it; token ids are spelled only for that


async def complete(service: Service, body: CompletionBody, request: Request) -> Response:
    model = service.models.get(body.model)
    config, stops = service.decoding(model, body, body.max_tokens, "max_tokens")
    prompts = await _prompts(service, model, body)
    each = body.n if body.best_of is None else body.best_of
    _check(service, body, len(prompts), each)
    ends = model.ends
    with_logprobs = body.logprobs is not None
    scored = body.echo and with_logprobs
    texts = []
    for place, prompt in enumerate(prompts):
        before = model.language.spelled_before(np.array(prompt.ids))
        begins = await service.begins(model, config, before, ends)
        for number in range(place * each, (place + 1) * each):
            job = Job(
                prompt.ids,
                config,
                () if with_logprobs else ends,  # the token that ends a text has a log-probability, too
                may_end=ends,
                begins=begins,
                top=body.logprobs or 0,
                number=number,
                score_prompt=scored,
                continues=body.max_tokens > 0,
                seconds=service.limits.seconds,
            )
            texts.append(
                ResponseText(number, job, model.run.tokenizer, before, stops, with_logprobs, ends if with_logprobs else ())
            )
    writing = Writing(model, texts, service.dispatcher)
    return await respond(service, request, writing, _CompletionResponse(model, body, prompts, each), stream=body.stream)


class _CompletionResponse:
    """A response in OpenAI's form, as a whole or in chunks."""

    def __init__(self, model: ServedModel, body: CompletionBody, prompts: list[CompletionPrompt], each: int) -> None:
        self.model, self.body, self.prompts, self.each = model, body, prompts, each
        self.tokenizer = model.run.tokenizer
        self.head = {"id": new_id("cmpl"), "object": "text_completion", "created": int(time.time()), "model": model.name}
        self.prompt_tokens = sum(len(prompt.ids) for prompt in prompts)

    def whole(self, writing: Writing, pieces: list[list[TextDelta]]) -> dict[str, Any]:
        """The choices of each prompt: all of its texts, or those with the highest mean log-probability per token."""
        choices: list[dict[str, Any]] = []
        for place in range(len(self.prompts)):
            texts = writing.texts[place * self.each : (place + 1) * self.each]
            if self.each > self.body.n:
                texts = sorted(texts, key=lambda text: -text.log_probability / max(1, text.count))[: self.body.n]
            for text in texts:
                choices.append(self._choice(len(choices), text, pieces[text.number]))
        return {**self.head, "choices": choices, "usage": usage(self.prompt_tokens, writing.generated)}

    def _choice(self, index: int, text: ResponseText, pieces: list[TextDelta]) -> dict[str, Any]:
        written = "".join(piece.text for piece in pieces)
        shift = len(self._echoed(text))
        logprobs = None
        if self.body.logprobs is not None:
            tokens = [token for piece in pieces for token in piece.tokens]
            of_prompt = probabilities.for_completions(self.tokenizer, probabilities.prompt_tokens(self.tokenizer, text.scored))
            of_text = probabilities.for_completions(self.tokenizer, tokens, shift)
            logprobs = {name: of_prompt[name] + of_text[name] for name in of_text}
        return {"index": index, "text": self._echoed(text) + written, "logprobs": logprobs, "finish_reason": text.finish}

    def _echoed(self, text: ResponseText) -> str:
        return self.prompts[text.number // self.each].text if self.body.echo else ""

    async def chunks(self, writing: Writing, service: Service) -> Any:
        options = self.body.stream_options
        started: set[int] = set()

        def spell(piece: TextDelta) -> str:
            text = writing.texts[piece.number]
            logprobs, echoed = "null", self._echoed(text)
            if self.body.logprobs is not None:
                values = probabilities.for_completions(self.tokenizer, piece.tokens, len(echoed))
                if piece.number not in started:
                    scored = probabilities.prompt_tokens(self.tokenizer, text.scored)
                    of_prompt = probabilities.for_completions(self.tokenizer, scored)
                    values = {name: of_prompt[name] + values[name] for name in values}
                logprobs = json.dumps(values, ensure_ascii=False)
            content = json.dumps(piece.text if piece.number in started else echoed + piece.text, ensure_ascii=False)
            started.add(piece.number)
            finish = "null" if piece.finish is None else f'"{piece.finish}"'
            return f'{{"index": {piece.number}, "text": {content}, "logprobs": {logprobs}, "finish_reason": {finish}}}'

        chunks = Chunks(self.head, spell, usage=options is not None and options.include_usage)
        async for chunk in chunks.of(writing, self.prompt_tokens):
            yield chunk
        service.metrics.first_token(self.model.name, writing.first_token or 0.0)


def _check(service: Service, body: CompletionBody, prompts: int, each: int) -> None:
    if each < body.n:
        raise wrong("best_of", f'"best_of" is {each}, but "n" is {body.n}; expected at least as many')
    if body.stream and each > body.n:
        raise wrong("best_of", '"best_of" cannot be streamed: which text is best is known at the end. Remove it, or "stream".')
    if prompts * each > service.limits.choices:
        raise wrong(
            "prompt", f"the request asks for {prompts * each:,} texts; the limit is {service.limits.choices}. Ask for fewer."
        )


async def _prompts(service: Service, model: ServedModel, body: CompletionBody) -> list[CompletionPrompt]:
    """A text, a list of texts, token ids, or a list of lists of token ids."""
    given = body.prompt
    several = given if isinstance(given, list) and given and not _are_ids(given) else [given]
    if len(several) > service.limits.choices:
        raise wrong(
            "prompt", f'"prompt" has {len(several):,} prompts; the limit is {service.limits.choices}. Send fewer at once.'
        )
    return [await _prompt(service, model, one, spelled=body.echo) for one in several]


async def _prompt(service: Service, model: ServedModel, given: Any, *, spelled: bool) -> CompletionPrompt:
    run = model.language
    if isinstance(given, str):
        ids = tuple((await off_loop(len(given), lambda: run.prompt_ids(given))).tolist())
        service.check_prompt(model, len(ids), "prompt")
        return CompletionPrompt(ids, given)
    if not isinstance(given, list) or not given or not _are_ids(given):
        raise wrong("prompt", '"prompt" is wrong: expected a text, a list of texts, token ids, or a list of lists of token ids')
    vocab = run.network.vocab
    if not all(0 <= id < vocab for id in given):
        raise wrong("prompt", f'"prompt" has a token that is not in the vocabulary; expected ids from 0 to {vocab - 1}')
    service.check_prompt(model, len(given), "prompt")
    if not spelled:
        return CompletionPrompt(tuple(given), "")
    speller = Speller(run.tokenizer)
    return CompletionPrompt(tuple(given), "".join(speller.push(id) for id in given))


def _are_ids(given: list[Any]) -> bool:
    return all(type(one) is int for one in given)
