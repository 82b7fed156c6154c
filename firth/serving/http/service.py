"""The parts that the routes share: the models, the limits, the way from the engines to the loop, the counters."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from firth.decoding.config import CONSTRAINING, DecodingConfig
from firth.decoding.sampling.rows import TextSoFar as DecodedText
from firth.errors import ConfigError
from firth.serving.http.dispatcher import Dispatcher
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Counting
from firth.serving.http.models import Models, ServedModel
from firth.serving.http.schemas import SAMPLING, Generation
from firth.serving.http.validation import stops_of
from firth.tasks.abilities.drafting import spelled_after

T = TypeVar("T")
_LONG = 4000  # characters that take so long to tokenise that the loop does not wait for them
_SETTING = re.compile(r"decoding\.(\w+)")
_random = random.Random()  # not the system's numbers: each would be a call that lets other threads go first


def new_id(kind: str) -> str:
    return f"{kind}-{_random.getrandbits(96):024x}"


@dataclass(eq=False)
class Service:
    models: Models
    limits: Limits
    metrics: Counting
    dispatcher: Dispatcher = field(default_factory=Dispatcher)

    def decoding(self, model: ServedModel, body: Generation, tokens: int, name: str) -> tuple[DecodingConfig, tuple[str, ...]]:
        """The settings for a text of at most `tokens` tokens, and the strings that end it. `name`: the parameter of `tokens`."""
        if tokens > self.limits.tokens:
            raise wrong(name, f'"{name}" is {tokens:,}; the limit of this server is {self.limits.tokens:,}. Ask for fewer.')
        run = model.language
        given = {"tokens": max(1, tokens), "seed": _random.getrandbits(32), **self._settings(body), "beam": 1, "beam_groups": 1}
        stops = stops_of(body.stop)
        try:
            config = run.decoding(given)
        except ConfigError as error:
            setting = _SETTING.search(str(error))
            raise ApiError(400, str(error), param=setting[1] if setting else None) from error
        return config, config.stop if stops is None else stops

    def _settings(self, body: Generation) -> dict[str, Any]:
        given = {name: value for name in SAMPLING if (value := getattr(body, name)) is not None}
        schema = body.response_format.as_setting()
        if schema is not None and "json_schema" in given:
            raise wrong("response_format", '"response_format" and "json_schema" say the same. Remove one of them.')
        return given if schema is None else {**given, "json_schema": schema}

    async def begins(self, model: ServedModel, config: DecodingConfig, before: Sequence[int], ends: tuple[int, ...]) -> bool:
        """Job.begins of a text that follows the tokens `before`. A constraint that the vocabulary cannot meet is refused here,
        before the engine sees it."""
        if not config.constrains:
            return False

        def prepared() -> bool:
            spelled = spelled_after(model.language, before, ends)
            DecodedText(config, (), spelled)
            return spelled.begins

        try:
            return await asyncio.to_thread(prepared)
        except ConfigError as error:
            raise ApiError(400, str(error), param=next(name for name in CONSTRAINING if getattr(config, name))) from error

    def check_prompt(self, model: ServedModel, length: int, param: str, most: int | None = None) -> None:
        """`most`: by default the limit of the model and the server."""
        most = self.limits.prompt_tokens(model.context) if most is None else most
        if length > most:
            raise ApiError(
                413,
                f'"{param}" has {length:,} tokens; the limit is {most:,}. Shorten it.',
                param=param,
                code="context_length_exceeded",
            )


async def off_loop(characters: int, work: Callable[[], T]) -> T:
    """The result of `work` on so many characters: at once, or in a thread if there are many of them."""
    return await asyncio.to_thread(work) if characters > _LONG else work()
