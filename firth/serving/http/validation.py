"""Messages about a wrong body, in one sentence with the parameter's name; and the checks that need a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firth.errors import did_you_mean
from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.limits import Limits

_UNSUPPORTED = frozenset(
    (
        "audio", "context_management", "conversation", "frequency_penalty", "function_call", "functions",
        "logit_bias", "max_tool_calls", "modalities", "moderation", "parallel_tool_calls", "prediction", "presence_penalty",
        "previous_response_id", "reasoning", "reasoning_effort", "suffix", "tool_choice", "tools",
        "top_logprobs", "verbosity", "web_search_options",
    )
)  # fmt: skip
_MOST_STOPS = 16


def validation_error(errors: Sequence[Mapping[str, Any]], known: Sequence[str]) -> ApiError:
    """The first of pydantic's errors."""
    error = errors[0]
    place = [str(part) for part in error["loc"] if part != "body"]
    param, kind = ".".join(place), error["type"]
    if kind == "json_invalid":
        return ApiError(400, f"the request is not JSON: {error.get('ctx', {}).get('error', error['msg'])}")
    if kind == "surrogate":
        return ApiError(400, error["msg"])
    if not place:
        return ApiError(400, "the request is not an object; send a JSON object with the parameters")
    if kind == "missing":
        return wrong(param, f'"{param}" is missing')
    if kind == "extra_forbidden":
        name = place[-1]
        if name in _UNSUPPORTED or len(place) > 1:
            return ApiError(
                400, f'"{param[:60]}" is not supported by firth. Remove it.', param=param, code="unsupported_parameter"
            )
        message = f'there is no parameter "{param[:60]}".{did_you_mean(name, known)}'
        return ApiError(400, message, param=param, code="unknown_parameter")
    return wrong(param, f'"{param}" is wrong: {error["msg"][0].lower()}{error["msg"][1:]}')


def texts_of(given: Any, param: str, limits: Limits) -> list[str]:
    """A string or a list of strings."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise wrong(param, f'"{param}" is wrong: expected a text, or a list of at least one text')
    if len(texts) > limits.inputs:
        raise ApiError(
            413, f'"{param}" has {len(texts):,} texts; the limit is {limits.inputs:,}. Send fewer at once.', param=param
        )
    return texts


def stops_of(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(one, str) and one for one in stops):
        raise wrong("stop", f'"stop" is wrong: expected a text, or a list of up to {_MOST_STOPS} texts, none of them empty')
    return tuple(stops)
