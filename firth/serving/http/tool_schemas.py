"""Tools in the bodies of requests: the functions that a client offers, and the calls of earlier answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr, WithJsonSchema, model_validator

MOST_TOOLS = 128  # as OpenAI's
_NAME = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")


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
ToolChoice = Annotated[Any, WithJsonSchema({"enum": ["auto", "none"]})]
