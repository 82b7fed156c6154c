"""The addresses of the abilities that OpenAI has no word for, such as /v1/translate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from firth.progress import Progress
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.input_tokens import InputTokens
from firth.serving.http.models import ServedModel
from firth.serving.http.schemas import AnswerBody, AttentionBody, InputBody, TranslationBody
from firth.serving.http.service import Service
from firth.serving.http.streaming import while_connected
from firth.serving.http.validation import texts_of
from firth.serving.http.worker import Compute
from firth.tasks.ability import ANSWER, ATTENTION, TRANSLATE, Ability


async def translate(service: Service, body: TranslationBody, request: Request) -> Response:
    model = service.models.get(body.model)
    run, texts = model.for_worker.expect(TRANSLATE), texts_of(body.input, "input", service.limits)
    if body.max_tokens is not None and body.max_tokens > service.limits.tokens:
        raise wrong("max_tokens", f'"max_tokens" is {body.max_tokens:,}; the limit of this server is {service.limits.tokens:,}')
    given = {
        "beam": body.beam,
        "penalty": body.penalty,
        "tokens": body.max_tokens,
        "repetition_penalty": body.repetition_penalty,
    }
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
