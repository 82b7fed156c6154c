"""Conversations with tools, as a chat template writes them. Whether it can, and in which format the model will write its calls,
is found out by rendering a small conversation and reading it back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from firth.errors import DataError
from firth.text.tool_calls import FORMATS, CallFormat, CallReader, ParsedCall, Schemas

if TYPE_CHECKING:
    from firth.text.chat_template import ChatTemplate
    from firth.text.tokenizers.special_tokens import Ids

_CALL = ParsedCall("probe_function", {"probe_argument": "probe_value"})
_PARAMETERS = {"type": "object", "properties": {"probe_argument": {"type": "string", "description": "probe_about"}}}
_TOOL = {"type": "function", "function": {"name": _CALL.name, "description": "probe_description", "parameters": _PARAMETERS}}
_ID = "probe0001"  # Mistral's templates expect nine letters and digits
_ASKED = {"role": "user", "content": "probe_question"}
_CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "id": _ID, "function": {"name": _CALL.name, "arguments": _CALL.arguments}}],
}
_RETURNED = {"role": "tool", "tool_call_id": _ID, "name": _CALL.name, "content": "probe_result"}

TemplateMessage = Mapping[str, Any]  # a message as templates expect it: {"role", "content", "tool_calls" …}


class TemplateProperties(Protocol):
    """The properties of a template that a TemplateFormat needs."""

    @property
    def template(self) -> ChatTemplate: ...
    @property
    def special(self) -> Mapping[str, int]: ...
    def safe_message(self, message: TemplateMessage) -> TemplateMessage: ...
    def without_special(self, text: str, but: Collection[str]) -> str: ...
    def encode(self, text: str) -> Ids: ...


class ToolFormat:
    """The tool format of a template. Raises a DataError if it has no tools, or writes calls in none of the FORMATS."""

    def __init__(self, format: TemplateProperties) -> None:
        self._format, self._template = format, format.template.for_tools
        if _CALL.name not in self._rendered([_ASKED], [_TOOL]):
            raise DataError("the chat template of this model does not support tools. Remove them, or use another model.")
        self.calls = self._found_format()
        # special tokens are not part of the text, but these mark calls
        self.shown = {id: marker for marker in self.calls.markers if (id := format.special.get(marker)) is not None}

    def prompt(self, messages: Sequence[TemplateMessage], tools: Sequence[Mapping[str, Any]]) -> Ids:
        """The conversation up to the assistant's next message."""
        return self._format.encode(self._rendered([self._format.safe_message(one) for one in messages], tools))

    def reader(self, functions: Schemas, *, most: int | None = None) -> CallReader:
        return CallReader(self.calls, functions, most=most)

    def _rendered(self, messages: Sequence[TemplateMessage], tools: Sequence[Mapping[str, Any]], answer_next: bool = True) -> str:
        return self._template.render_with_tools(messages, tools, answer_next=answer_next)

    def _found_format(self) -> CallFormat:
        before = self._rendered([_ASKED], [_TOOL])
        try:
            called = self._rendered([_ASKED, _CALLED], [_TOOL], answer_next=False)
            returned = self._rendered([_ASKED, _CALLED, _RETURNED], [_TOOL])
        except DataError as error:
            raise DataError(f"the chat template of this model lists tools, but writes no calls: {error}") from error
        if _RETURNED["content"] not in returned:
            raise DataError("the chat template of this model ignores the results of tools. Use another model.")
        answer = called.removeprefix(before)
        for format in FORMATS:
            if self._reads(format, answer):
                return format
        known = ", ".join(format.label for format in FORMATS)
        raise DataError(
            f"the chat template of this model writes tool calls in a format that firth does not read. It reads: {known}."
        )

    def _reads(self, format: CallFormat, answer: str) -> bool:
        reader = CallReader(format, {_CALL.name: _PARAMETERS})
        text = self._format.without_special(answer, but=format.markers)
        calls = [*reader.push(text)[1], *reader.finish()[1]]
        return calls == [_CALL]
