"""The web application: one route for each address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from firth.decoding.engine.jobs import EngineRestarts
from firth.errors import FirthError
from firth.serving.http import chat, completions, responses, schemas, task_routes
from firth.serving.http.errors import as_api_error
from firth.serving.http.gate import Gate
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Counting, Metrics
from firth.serving.http.models import Models
from firth.serving.http.page import page
from firth.serving.http.response_schemas import ResponseBody
from firth.serving.http.service import Service
from firth.serving.http.streaming import ClientLeft, no_response
from firth.serving.http.validation import validation_error
from firth.tasks.ability import ABILITIES, ANSWER, ATTENTION, CHAT, EMBED, GENERATE, TRANSLATE, Ability
from firth.version import __version__

ABOUT = "OpenAI-compatible addresses for language models, and firth's own for translation, classification, tagging and more."
WRITING = _COMPLETIONS, _CHAT, _RESPONSES = GENERATE.route, CHAT.route, "/v1/responses"


def build(models: Models, limits: Limits | None = None, keys: Keys | None = None, metrics: Metrics | None = None) -> FastAPI:
    """The application; it starts the models' threads when it starts, and ends them when it ends."""
    metrics = metrics or Metrics(models.facts)
    service = Service(models, limits or Limits(), metrics)
    app = _application(service, keys, openapi_url="/openapi.json")
    _add_models(app, service)
    _add_writing(app, service)
    _add_own(app, service)
    _add_facts(app, service, metrics)
    return app


def build_writing(models: Models, limits: Limits, keys: Keys, counting: Counting) -> FastAPI:
    """Only the addresses at which models write text: WRITING."""
    service = Service(models, limits, counting)
    app = _application(service, keys, openapi_url=None)
    _add_writing(app, service)
    return app


def _application(service: Service, keys: Keys | None, openapi_url: str | None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.models.start()
        try:
            yield
        finally:
            await asyncio.to_thread(service.models.close)

    about: dict[str, Any] = {"title": "firth", "version": __version__, "description": ABOUT}
    app = FastAPI(**about, docs_url=None, redoc_url=None, openapi_url=openapi_url, lifespan=lifespan)
    app.add_middleware(Gate, keys=keys or Keys(), limits=service.limits, metrics=service.metrics)
    _add_errors(app)
    return app


def _add_writing(app: FastAPI, service: Service) -> None:
    @app.post(_COMPLETIONS)
    async def complete(body: schemas.CompletionBody, request: Request) -> Response:
        """Continue prompts: texts or token ids."""
        return await completions.complete(service, body, request)

    @app.post(_CHAT)
    async def answer_messages(body: schemas.ChatBody, request: Request) -> Response:
        """Answer a conversation, with a model that has a chat template or was trained on conversations."""
        return await chat.chat(service, body, request)

    @app.post(_RESPONSES)
    async def answer_input(body: ResponseBody, request: Request) -> Response:
        """The same through OpenAI's Responses API. Nothing is stored."""
        return await responses.answer(service, body, request)


def _add_models(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The models that are served."""
        return {"object": "list", "data": [_model(service, model.name) for model in service.models]}

    @app.get("/v1/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        """One of the models."""
        return _model(service, name)


_OWN: dict[Ability, tuple[Callable[[Service, Any, Request], Awaitable[Response]], type[schemas.Body]]] = {
    EMBED: (task_routes.embed, schemas.EmbeddingBody),
    TRANSLATE: (task_routes.translate, schemas.TranslationBody),
    ANSWER: (task_routes.answer, schemas.AnswerBody),
    ATTENTION: (task_routes.attention, schemas.AttentionBody),
}


def _add_own(app: FastAPI, service: Service) -> None:
    """A route for each ability that has one. Those without a body of their own take a list of texts."""
    for ability in ABILITIES:
        if ability.route and ability.route not in WRITING:
            answer, body_class = _OWN.get(ability, (partial(task_routes.each_text, ability), schemas.InputBody))
            app.post(ability.route, name=ability.method, description=ability.about)(_endpoint(service, answer, body_class))


def _endpoint(
    service: Service, answer: Callable[[Service, Any, Request], Awaitable[Response]], body_class: type[schemas.Body]
) -> Callable[..., Awaitable[Response]]:
    async def endpoint(body: Any, request: Request) -> Response:
        return await answer(service, body, request)

    endpoint.__annotations__["body"] = body_class  # FastAPI reads and checks the body by it
    return endpoint


def _add_facts(app: FastAPI, service: Service, counted: Metrics) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """The state of the server, and how busy it is."""
        if not all(model.ready for model in service.models):
            raise EngineRestarts("an engine is not ready")
        busy = service.models.facts().values()
        count = {name: sum(int(facts.get(name, 0)) for facts in busy) for name in ("running", "waiting", "slots")}
        return {"status": "ok", "version": __version__, **count}

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(counted.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page(app.openapi()))


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ClientLeft)
    async def client_left(request: Request, error: Exception) -> Response:
        return no_response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return validation_error(error.errors(), _parameters(request)).response()

    async def refused(request: Request, error: Exception) -> JSONResponse:
        return as_api_error(error).response()

    for kind in (HTTPException, FirthError, TimeoutError):
        app.add_exception_handler(kind, refused)


def _parameters(request: Request) -> list[str]:
    field = getattr(request.scope.get("route"), "body_field", None)
    body = getattr(getattr(field, "field_info", None), "annotation", None)
    return list(body.model_fields) if isinstance(body, type) and issubclass(body, schemas.Body) else []


def _model(service: Service, name: str) -> dict[str, Any]:
    model = service.models.get(name)
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "firth",
        "task": model.run.task.name,
        "context": model.context,
        "chats": model.chats,
        "abilities": [one.name for one in model.run.abilities],
    }
