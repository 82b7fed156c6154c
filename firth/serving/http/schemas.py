"""The bodies of requests. A parameter that firth does not support is refused by its name, never ignored, unless it changes
nothing about the answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema, create_model, model_validator
from pydantic_core import PydanticCustomError

from firth.decoding.config import FILTERS, DecodingConfig, setting_names
from firth.serving.requests import SURROGATE, has_lone_surrogate

MOST_TOOLS = 128  # as OpenAI's
_NAME = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
ToolChoice = Annotated[Any, WithJsonSchema({"enum": ["auto", "none"]})]
# OpenAI's parameters that do not affect the text, and the neutral values of others.
HARMLESS = frozenset(("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"))
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
    "reasoning": ({},),
    "top_logprobs": (0,),
}
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_IDS = {"type": "array", "items": {"type": "integer"}}
PROMPT = {"anyOf": [*TEXTS["anyOf"], _IDS, {"type": "array", "items": _IDS}]}
Texts = Annotated[Any, WithJsonSchema(TEXTS)]
Number = Annotated[float, Field(allow_inf_nan=False)]
SAMPLING = (*(name for one in FILTERS for name in setting_names(one)), "seed")  # settings of [decoding] in a request
_TYPES: dict[type, Any] = {int: StrictInt, float: Number, str: StrictStr, tuple: list[StrictStr]}


class Strict(BaseModel):
    """Refuses parameters that firth does not know. A parameter that is None counts as absent."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_none(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


class Function(Strict):
    """`strict` must be false, because firth cannot force a model to follow the schema."""

    name: Annotated[StrictStr, _NAME]
    description: StrictStr = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: Literal[False] = False

    def for_template(self) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


class Tool(Strict):
    type: Literal["function"]
    function: Function


class CalledFunction(Strict):
    name: Annotated[StrictStr, _NAME]
    arguments: StrictStr


class ToolCall(Strict):
    id: StrictStr
    type: Literal["function"] = "function"
    function: CalledFunction


Tools = Annotated[list[Tool], Field(max_length=MOST_TOOLS)]


class Body(BaseModel):
    """The base class of all requests."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    harmless: ClassVar[frozenset[str]] = HARMLESS

    model: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_what_says_nothing(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if has_lone_surrogate(given):
            raise PydanticCustomError("surrogate", SURROGATE)
        return {
            name: value
            for name, value in given.items()
            if value is not None
            and name not in cls.harmless
            and (name in cls.model_fields or value not in _NEUTRAL.get(name, ()))
        }


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool = False


def _type(setting: str) -> Any:
    return (_TYPES[type(DecodingConfig.__dataclass_fields__[setting].default)] | None, None)


if TYPE_CHECKING:
    _Settings = Body
else:
    _Settings = create_model("_Settings", __base__=Body, **{name: _type(name) for name in SAMPLING})


class Sampling(_Settings):
    """The settings by which tokens are drawn. Those that are None come from the run's [decoding]; without `seed`, a random one is
    used."""

    stream: StrictBool = False


class NamedSchema(BaseModel):
    """A JSON schema; its name, its description and `strict` change nothing: an answer always satisfies the schema."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    name: StrictStr | None = None
    description: StrictStr | None = None
    strict: StrictBool | None = None
    given: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """The required form of an answer: text, any JSON object, or JSON that a schema describes."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: NamedSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise PydanticCustomError("schema", 'the type "json_schema" and a "json_schema" need one another')
        return self

    def as_setting(self) -> str | None:
        """The setting `json_schema`."""
        if self.type == "text":
            return None
        return json.dumps({"type": "object"} if self.json_schema is None else self.json_schema.given)


class Generation(Sampling):
    """The settings by which one or more texts are written."""

    response_format: ResponseFormat = Field(default_factory=ResponseFormat)
    stop: Texts | None = None
    n: Annotated[StrictInt, Field(ge=1)] = 1
    stream_options: StreamOptions | None = None


class CompletionBody(Generation):
    prompt: Annotated[Any, WithJsonSchema(PROMPT)] = ""
    max_tokens: Annotated[StrictInt, Field(ge=0)] = 16
    echo: StrictBool = False
    logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    best_of: Annotated[StrictInt, Field(ge=1)] | None = None


class ChatMessage(Strict):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[Any, WithJsonSchema({"type": "string"})] = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: StrictStr | None = None


class ChatBody(Generation):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    logprobs: StrictBool = False
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    tools: Tools = []  # noqa: RUF012 (pydantic copies it)
    tool_choice: ToolChoice = None
    parallel_tool_calls: StrictBool = True


class EmbeddingBody(Body):
    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: StrictInt | None = None


class InputBody(Body):
    """Texts to classify or to tag."""

    input: Texts


class TranslationBody(Body):
    input: Texts
    beam: Annotated[StrictInt, Field(ge=1, le=64)] | None = None
    penalty: Number | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    repetition_penalty: Number | None = None
    source_language: StrictStr | None = None
    target_language: StrictStr | None = None


class AnswerBody(Body):
    question: Texts
    context: StrictStr


class AttentionBody(Body):
    input: StrictStr
    target: StrictStr | None = None
    context: StrictStr | None = None
    part: StrictStr | None = None
    layers: list[StrictInt] | None = None
