"""The body of a request to /v1/responses, and its translation to /v1/chat/completions."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError, WithJsonSchema

from firth.serving.http.errors import ApiError, wrong
from firth.serving.http.schemas import (
    HARMLESS,
    MOST_TOOLS,
    CalledFunction,
    ChatBody,
    ChatMessage,
    Function,
    NamedSchema,
    ResponseFormat,
    Sampling,
    Strict,
    Tool,
    ToolCall,
    ToolChoice,
)
from firth.serving.http.validation import validation_error

_INPUT = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]}
_TEXTS = ("input_text", "output_text", "text")
_MOST_ITEMS = 10_000


class ResponseTool(Function):
    type: Literal["function"]

    def as_tool(self) -> Tool:
        return Tool(type="function", function=Function(**self.model_dump(exclude={"type"})))


class Format(NamedSchema):
    """As ResponseFormat, with the parts of the schema beside its type."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    given: Annotated[dict[str, Any] | None, Field(alias="schema")] = None  # type: ignore[assignment]

    def as_response_format(self) -> ResponseFormat:
        if self.given is None:
            return ResponseFormat(type=self.type)
        return ResponseFormat(type=self.type, json_schema=NamedSchema.model_validate({"schema": self.given}))


class TextConfig(Strict):
    format: Format = Field(default_factory=Format)


class ResponseBody(Sampling):
    """Nothing is stored: each request holds the whole conversation."""

    harmless: ClassVar[frozenset[str]] = (HARMLESS - {"store", "metadata"}) | {"prompt_cache_retention", "stream_options"}

    input: Annotated[Any, WithJsonSchema(_INPUT)]
    instructions: StrictStr | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    tools: Annotated[list[ResponseTool], Field(default_factory=list, max_length=MOST_TOOLS)]
    tool_choice: ToolChoice = None
    parallel_tool_calls: StrictBool = True
    metadata: dict[str, StrictStr] = Field(default_factory=dict)
    text: TextConfig = Field(default_factory=TextConfig)
    truncation: Literal["disabled"] = "disabled"  # a conversation that is too long is refused
    background: Literal[False] = False
    store: Literal[False] = False

    def as_chat(self) -> ChatBody:
        """The same request to /v1/chat/completions."""
        try:
            return ChatBody(
                **{name: value for name in Sampling.model_fields if (value := getattr(self, name)) is not None},
                messages=messages_of(self.input, self.instructions),
                max_completion_tokens=self.max_output_tokens,
                tools=[tool.as_tool() for tool in self.tools],
                tool_choice=self.tool_choice,
                parallel_tool_calls=self.parallel_tool_calls,
                response_format=self.text.format.as_response_format(),
            )
        except ValidationError as error:  # an error in an item of `input`
            raise validation_error(error.errors(), ()) from error


def messages_of(given: Any, instructions: str | None) -> list[ChatMessage]:
    """The messages of `input`; the instructions become the system message. Consecutive calls form one assistant message."""
    messages = [] if instructions is None else [ChatMessage(role="system", content=instructions)]
    if isinstance(given, str):
        return [*messages, ChatMessage(role="user", content=given)]
    if not isinstance(given, list) or not given or len(given) > _MOST_ITEMS:
        raise wrong("input", f'"input" is wrong: expected a text, or a list of 1 to {_MOST_ITEMS:,} items')
    for number, item in enumerate(given):
        where = f"input.{number}"
        if not isinstance(item, dict):
            raise wrong(where, f'"{where}" is wrong: expected an object')
        match item.get("type", "message"):
            case "message":
                messages.append(_message(item, where))
            case "function_call":
                _add_call(messages, _call(item, where))
            case "function_call_output":
                id = _string(item, "call_id", where)
                messages.append(ChatMessage(role="tool", tool_call_id=id, content=_content(item.get("output"), where)))
            case kind:
                told = f'"{where}" has the type "{str(kind)[:40]}", which is not supported by firth. Remove it.'
                raise ApiError(400, told, param=where, code="unsupported_parameter")
    return messages


def _message(item: dict[str, Any], where: str) -> ChatMessage:
    role = item.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise wrong(where, f'"{where}" has the role {json.dumps(role)[:40]}; expected system, developer, user or assistant')
    _expect_known(item, {"role", "content", "type", "id", "status", "phase"}, where)
    return ChatMessage(role=role, content=_content(item.get("content"), where))


def _call(item: dict[str, Any], where: str) -> ToolCall:
    _expect_known(item, {"call_id", "name", "arguments", "type", "id", "status"}, where)
    function = CalledFunction(name=_string(item, "name", where), arguments=_string(item, "arguments", where))
    return ToolCall(id=_string(item, "call_id", where), function=function)


def _add_call(messages: list[ChatMessage], call: ToolCall) -> None:
    if not messages or messages[-1].role != "assistant":
        messages.append(ChatMessage(role="assistant"))
    messages[-1].tool_calls = [*(messages[-1].tool_calls or []), call]


def _content(given: Any, where: str) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise wrong(where, f'the content of "{where}" is wrong: expected a text, or a list of texts')
    for part in given:
        kind = part.get("type") if isinstance(part, dict) else part
        if kind not in _TEXTS or not isinstance(part.get("text"), str):
            told = f'"{where}" has a part of the type "{str(kind)[:40]}", which is not supported by firth. Send text.'
            raise ApiError(400, told, param=where, code="unsupported_parameter")
    return "".join(part["text"] for part in given)


def _string(item: dict[str, Any], name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise wrong(f"{where}.{name}", f'"{where}.{name}" is wrong: expected a text')
    return value


def _expect_known(item: dict[str, Any], known: set[str], where: str) -> None:
    for name, value in item.items():
        if name not in known and value is not None:
            told = f'"{where}.{name[:40]}" is not supported by firth. Remove it.'
            raise ApiError(400, told, param=where, code="unsupported_parameter")
