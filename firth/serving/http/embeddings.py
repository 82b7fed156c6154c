"""/v1/embeddings: texts as vectors."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from firth.progress import Progress
from firth.serving.http.errors import wrong
from firth.serving.http.input_tokens import InputTokens
from firth.serving.http.schemas import EmbeddingBody
from firth.serving.http.service import Service
from firth.serving.http.streaming import while_connected
from firth.serving.http.validation import texts_of
from firth.tasks.ability import EMBED


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
