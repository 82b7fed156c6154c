"""The addresses of the abilities that take a list of inputs: /v1/embeddings, and those that OpenAI has no word for, such as
/v1/translate. The tokens of the inputs are counted before anything is computed with them."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from firth.errors import FirthError
from firth.progress import Progress
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.limits import Limits
from firth.serving.http.models import ServedModel
from firth.serving.http.schemas import AnswerBody, AttentionBody, EmbeddingBody, InputBody, TranslationBody
from firth.serving.http.service import Service
from firth.serving.http.streaming import while_connected
from firth.serving.http.validation import texts_of
from firth.serving.http.worker import Compute
from firth.tasks.ability import ANSWER, ATTENTION, EMBED, TRANSLATE, Ability
from firth.text.tokenizers.tokenizer import Tokenizer

_LONG_TOKEN, _SPARE = 16, 65_536  # a text longer than 16 characters per allowed token + 65,536 is refused without tokenising it


class InputTokens:
    """Each input is one or more texts of at most `most` tokens. A call, in the worker's thread, counts the tokens or raises."""

    def __init__(self, limits: Limits, tokenizer: Tokenizer, param: str, inputs: Sequence[str | tuple[str, ...]]) -> None:
        self._tokenizer, self._param, self._inputs = tokenizer, param, inputs
        self._most, self._all = limits.prompt or limits.input_tokens, limits.all_input_tokens
        self._known: dict[str, int] = {}  # texts that are part of several inputs
        self.total = 0

    def __call__(self, progress: Progress) -> None:
        for done, one in enumerate(self._inputs):
            progress("counting", done, len(self._inputs))
            self.total += sum(map(self._count, (one,) if isinstance(one, str) else one))
            if self.total > self._all:
                raise self._refused(f"more than {self._all:,} tokens in all. Send fewer texts at once.")

    def _count(self, text: str) -> int:
        if text not in self._known:
            if len(text) > _LONG_TOKEN * self._most + _SPARE:
                raise self._refused(f"a text of {len(text):,} characters; the limit is {self._most:,} tokens. Shorten it.")
            self._known[text] = self._tokens(text)
            if self._known[text] > self._most:
                raise self._refused(f"a text of {self._known[text]:,} tokens; the limit is {self._most:,}. Shorten it.")
        return self._known[text]

    def _tokens(self, text: str) -> int:
        try:
            return len(self._tokenizer.encode(text))
        except FirthError:  # a character outside the vocabulary, which some runs skip
            return len(text)

    def _refused(self, why: str) -> ApiError:
        return ApiError(413, f'"{self._param}" has {why}', param=self._param, code="context_length_exceeded")


async def translate(service: Service, body: TranslationBody, request: Request) -> Response:
    model = service.models.get(body.model)
    run, texts = model.for_worker.expect(TRANSLATE), texts_of(body.input, "input", service.limits)
    if body.max_tokens is not None and body.max_tokens > service.limits.tokens:
        raise wrong("max_tokens", f'"max_tokens" is {body.max_tokens:,}; the limit of this server is {service.limits.tokens:,}')
    given = {"beam": body.beam, "penalty": body.penalty, "tokens": body.max_tokens, "repetition_penalty": body.repetition_penalty}
    config, languages = run.decoding(given), (body.source_language, body.target_language)
    in_languages = run.in_languages(*languages)

    def compute(inputs: list[Any], progress: Progress) -> Any:
        return in_languages.translations(inputs, config, progress=progress)

    translations = await _asked(service, model, request, ("translate", config, languages), compute, texts)
    data = [
        {"index": n, "text": best.text, "log_probability": best.log_probability, "score": best.score}
        for n, (best, *_) in enumerate(translations)
    ]
    return _listed(model, data)


async def each_text(ability: Ability, service: Service, body: InputBody, request: Request) -> Response:
    """The results of an ability's method for each text of a list."""
    model = service.models.get(body.model)
    run, texts = model.for_worker.expect(ability), texts_of(body.input, "input", service.limits)
    method = getattr(run, ability.method)
    results = await _asked(service, model, request, ability.name, lambda inputs, progress: method(inputs), texts)
    return _listed(model, [{"index": n, **_fields(one)} for n, one in enumerate(results)])


def _fields(result: Any) -> dict[str, Any]:
    return dataclasses.asdict(result) if dataclasses.is_dataclass(result) else {"output": result}  # type: ignore[arg-type]


async def answer(service: Service, body: AnswerBody, request: Request) -> Response:
    model = service.models.get(body.model)
    run, questions = model.for_worker.expect(ANSWER), texts_of(body.question, "question", service.limits)

    def compute(inputs: list[Any], progress: Progress) -> Any:
        answers: list[Any] = []
        for question, context in inputs:
            progress("answering", len(answers), len(inputs))
            answers.append(run.answer(question, context, progress=progress))
        return answers

    inputs = [(question, body.context) for question in questions]
    answers = await _asked(service, model, request, "answer", compute, inputs, "context")
    return _listed(model, [{"index": n, **dataclasses.asdict(one)} for n, one in enumerate(answers)])


async def attention(service: Service, body: AttentionBody, request: Request) -> Response:
    model = service.models.get(body.model)
    model.for_worker.expect(ATTENTION)

    def compute(inputs: list[Any], progress: Progress) -> Any:
        return [_weights(service, model, body)]

    (facts,) = await while_connected(request, service.limits.seconds, model.worker.ask(object(), compute, [None]))
    return JSONResponse({"object": "attention", "model": model.name, **facts})


def _weights(service: Service, model: ServedModel, body: AttentionBody) -> dict[str, Any]:
    """weights[layer][head][query][key]"""
    run, layers = model.for_worker, body.layers
    tokens = len(run.source_tokenizer.encode(body.input))
    service.check_prompt(model, tokens, "input")
    service.check_prompt(model, tokens, "input", math.isqrt(service.limits.weights))  # a head has more weights beyond that
    attention = run.attention(body.input, target=body.target, context=body.context, part=body.part, layers=layers)
    size = len(attention.layers) * attention.heads * len(attention.queries) * len(attention.keys)
    if size > service.limits.weights:
        message = f"the response would have {size:,} weights; the limit is {service.limits.weights:,}. Name fewer layers."
        raise ApiError(413, message, param="layers")
    return {
        "parts": attention.parts,
        "queries": attention.queries,
        "keys": attention.keys,
        "layers": attention.layers,
        "weights": [attention.weights(layer).tolist() for layer in attention.layers],
    }


async def _asked(
    service: Service,
    model: ServedModel,
    request: Request,
    key: Hashable,
    compute: Compute,
    inputs: list[Any],
    param: str = "input",
) -> Any:
    count = InputTokens(service.limits, model.for_worker.source_tokenizer, param, inputs)
    return await while_connected(request, service.limits.seconds, model.worker.ask(key, compute, inputs, count))


def _listed(model: ServedModel, data: list[dict[str, Any]]) -> Response:
    return JSONResponse({"object": "list", "model": model.name, "data": data})


async def embed(service: Service, body: EmbeddingBody, request: Request) -> Response:
    model = service.models.get(body.model)
    texts = texts_of(body.input, "input", service.limits)
    if not all(text.strip() for text in texts):
        raise wrong("input", '"input" has an empty text; expected at least one word in each')
    run = model.for_worker.expect(EMBED)

    def compute(inputs: list[Any], progress: Progress) -> Any:
        return run.embed(inputs, progress=progress)

    count = InputTokens(service.limits, run.source_tokenizer, "input", texts)
    embeddings = await while_connected(request, service.limits.seconds, model.worker.ask("embed", compute, texts, count))
    vectors = np.asarray(embeddings, dtype="<f4")
    if body.dimensions is not None and body.dimensions != vectors.shape[1]:
        raise wrong(
            "dimensions", f'"dimensions" is {body.dimensions}, but this model has vectors of {vectors.shape[1]}. Remove it.'
        )
    data = [
        {"object": "embedding", "index": n, "embedding": _spelled(row, body.encoding_format)} for n, row in enumerate(vectors)
    ]
    counted = {"prompt_tokens": count.total, "total_tokens": count.total}
    return JSONResponse({"object": "list", "data": data, "model": model.name, "usage": counted})


def _spelled(row: np.ndarray[Any, np.dtype[np.float32]], encoding: str) -> str | list[float]:
    """As numbers, or as the base64 of float32 in little-endian order."""
    return base64.b64encode(row.tobytes()).decode() if encoding == "base64" else row.tolist()
