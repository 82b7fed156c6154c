"""Parse tool calls in generated text: where they begin and end, and which function they call with which arguments.

Hermes, Qwen      <tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>          once or several times
Qwen Coder        <tool_call><function=weather><parameter=city>Paris</parameter></function></tool_call>
Mistral           [TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}}]                  or weather[ARGS]{"city": …}
Phi, Granite      <|tool_call|>[{"name": "weather", "arguments": {"city": "Paris"}}]<|/tool_call|>    Apriel: <tool_calls> …
Llama             {"name": "weather", "parameters": {"city": "Paris"}}                                the whole answer
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n;,"  # between two calls
_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?=\{)")
_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)

Schemas = Mapping[str, Mapping[str, Any]]  # function → JSON schema of its parameters


class ParsedCall(NamedTuple):
    name: str
    arguments: dict[str, Any]


def _json_calls(text: str, schemas: Schemas) -> list[ParsedCall] | None:
    """{"name": …, "arguments": {…}}, one or several, or a list of them."""
    calls: list[ParsedCall] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        value, at = _value(text, at)
        for one in value if isinstance(value, list) else [value]:
            call = _call(one)
            if call is None:
                return None
            calls.append(call)
        while at < end and text[at] in _BETWEEN:
            at += 1
    return calls


def _mistral_calls(text: str, schemas: Schemas) -> list[ParsedCall] | None:
    """weather{"city": "Paris"}, once or several times, without the [TOOL_CALLS] before each; or the common format."""
    calls: list[ParsedCall] = []
    at = 0
    while at < len(text.rstrip()):
        name = _NAMED.match(text, at)
        value, at = _value(text, name.end()) if name else (None, at)
        if name is None or not isinstance(value, dict):
            return _json_calls(text, schemas)
        calls.append(ParsedCall(name[1], value))
    return calls


def _parameter_calls(text: str, schemas: Schemas) -> list[ParsedCall] | None:
    """<function=weather><parameter=city>Paris</parameter></function>. A value is JSON, unless its schema says that it is text."""
    function = _FUNCTION.fullmatch(text)
    if function is None:
        return None
    name, body = function.groups()
    properties = schemas.get(name, {}).get("properties")
    arguments, at = dict[str, Any](), 0
    while at < len(body.rstrip()):
        match = _PARAMETER.match(body, at)
        if match is None:
            return None
        parameter, at = match[1], match.end()
        schema = properties.get(parameter) if isinstance(properties, dict) else None
        is_text = isinstance(schema, dict) and schema.get("type") == "string"
        value, end = (None, 0) if is_text else _value(match[2], 0)
        arguments[parameter] = value if end and not match[2][end:].strip() else match[2]
    return [ParsedCall(name, arguments)]


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value and where it ends; None if there is none."""
    at += len(text[at:]) - len(text[at:].lstrip())
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


def _call(value: Any) -> ParsedCall | None:
    """The function in another family's format, which models sometimes use."""
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments, _ = _value(arguments, 0)
    return ParsedCall(name, arguments) if isinstance(arguments, dict) else None


class CallFormat(NamedTuple):
    """Calls stand between `begin_marker` ("" if they are the whole answer) and `end_marker` ("" for the end of the text). `reads`
    finds the calls between them; None if there is anything else."""

    label: str
    begin_marker: str
    end_marker: str = ""
    reads: Callable[[str, Schemas], list[ParsedCall] | None] = _json_calls
    also: tuple[str, ...] = ()  # further strings that may be special tokens
    dropped: tuple[str, ...] = ()  # special tokens without a meaning of their own, which are dropped

    @property
    def markers(self) -> tuple[str, ...]:
        return tuple(marker for marker in (self.begin_marker, self.end_marker, *self.also) if marker)

    def calls(self, inside: str, schemas: Schemas) -> list[ParsedCall] | None:
        for marker in self.dropped:
            inside = inside.replace(marker, "")
        return self.reads(inside, schemas)


FORMATS = (
    CallFormat("Hermes", "<tool_call>", "</tool_call>"),
    CallFormat("Qwen Coder", "<tool_call>", "</tool_call>", _parameter_calls),
    CallFormat("Mistral", "[TOOL_CALLS]", "", _mistral_calls, ("[ARGS]", "[CALL_ID]"), ("[TOOL_CALLS]",)),
    CallFormat("Phi", "<|tool_call|>", "<|/tool_call|>"),
    CallFormat("Apriel", "<tool_calls>", "</tool_calls>"),
    CallFormat("Nemotron", "<TOOLCALL>", "</TOOLCALL>"),
    CallFormat("Llama", "", "", _json_calls, ("<|python_tag|>",), ("<|python_tag|>",)),
)


class CallReader:
    """Tells the calls from the rest of a text, as it comes. A call counts if it is complete and of one of the `functions`;
    whatever else looks like one stays text. White space around calls is dropped."""

    def __init__(self, format: CallFormat, functions: Schemas, *, most: int | None = None) -> None:
        """`most`: maximum number of calls; further ones are dropped."""
        self._format, self._functions, self._most = format, functions, most
        self._held = self._space = ""  # text that may still become a call, and the white space before it
        self._inside = self._said = False  # between opening and closing; whether there was text
        self.calls_read = 0

    def push(self, piece: str) -> tuple[str, list[ParsedCall]]:
        """The text and the calls that are certain after `piece`."""
        self._held += piece
        text, calls = "", list[ParsedCall]()
        while (step := self._closed() if self._inside else self._opened()) is not None:
            text, calls = text + step[0], calls + step[1]
        if not self._inside:
            certain = self._certain()
            text, self._held = text + self._held[:certain], self._held[certain:]
        self._said = self._said or bool(text)
        return text, calls

    def finish(self) -> tuple[str, list[ParsedCall]]:
        """The rest, at the end of the text."""
        held, self._held = self._held, ""
        if self._inside:
            self._inside = False
            return self._decided(held, "")
        return "" if self.calls_read and not held.strip() else held, []

    def _opened(self) -> tuple[str, list[ParsedCall]] | None:
        """The text before the next call."""
        begin_marker, held = self._format.begin_marker, self._held
        if begin_marker:
            begin = held.find(begin_marker)
        else:  # the whole answer
            begin = 0 if not self._said and held.lstrip().startswith(("{", "[", *self._format.also)) else -1
        if begin < 0:
            return None
        self._held, self._inside = held[begin + len(begin_marker) :], True
        text = held[:begin].rstrip()
        self._space = held[len(text) : begin]
        return text, []

    def _closed(self) -> tuple[str, list[ParsedCall]] | None:
        """The finished call."""
        end_marker = self._format.end_marker
        if not end_marker or (end := self._held.find(end_marker)) < 0:
            return None
        inside, self._held, self._inside = self._held[:end], self._held[end + len(end_marker) :], False
        return self._decided(inside, end_marker)

    def _decided(self, inside: str, end_marker: str) -> tuple[str, list[ParsedCall]]:
        calls = self._format.calls(inside, self._functions)
        if not calls or any(call.name not in self._functions for call in calls):
            return self._space + self._format.begin_marker + inside + end_marker, []
        kept = calls if self._most is None else calls[: self._most - self.calls_read]
        self.calls_read += len(kept)
        return "", kept

    def _certain(self) -> int:
        """The length of the held text that cannot begin a tool call: it has no partial marker at its end, and no space before
        one."""
        if not self._format.begin_marker and self._said:
            return len(self._held)
        begin_markers = (self._format.begin_marker,) if self._format.begin_marker else self._format.also
        partial = max((n for one in begin_markers for n in range(1, len(one)) if self._held.endswith(one[:n])), default=0)
        return len(self._held[: len(self._held) - partial].rstrip())
