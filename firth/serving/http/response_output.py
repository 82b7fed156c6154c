"""The output of /v1/responses as it is generated: messages and function calls, and the events that announce them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firth.serving.http.service import new_id
from firth.serving.http.tool_answers import arguments_text, call_id
from firth.serving.http.writing import TextDelta
from firth.text.tool_calls import CallReader, ParsedCall

Event = dict[str, Any]


class Output:
    """`items` holds the output so far. Without a reader, all of it is text."""

    def __init__(self, reader: CallReader | None) -> None:
        self._reader = reader
        self.items: list[dict[str, Any]] = []
        self._text: list[str] | None = None  # of the unfinished message

    def read(self, piece: TextDelta) -> Iterator[Event]:
        text, calls = (piece.text, []) if self._reader is None else self._reader.push(piece.text)
        yield from self._say(text, calls)
        if piece.finish is None:
            return
        if self._reader is not None:
            yield from self._say(*self._reader.finish())
        if not self.items:
            yield from self._open()
        yield from self._close("completed" if piece.finish == "stop" else "incomplete")

    def _say(self, text: str, calls: list[ParsedCall]) -> Iterator[Event]:
        if text:
            if self._text is None:
                yield from self._open()
            assert self._text is not None
            self._text.append(text)
            yield {"type": "response.output_text.delta", **self._place(), "content_index": 0, "delta": text, "logprobs": []}
        for call in calls:
            yield from self._close("completed")
            yield from self._call(call)

    def _open(self) -> Iterator[Event]:
        item = {"id": new_id("msg"), "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        self.items.append(item)
        self._text = []
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": {**item}}
        yield {"type": "response.content_part.added", **self._place(), "content_index": 0, "part": _part("")}

    def _close(self, status: str) -> Iterator[Event]:
        """Finish the current message, if there is one."""
        if self._text is None:
            return
        text, self._text, item = "".join(self._text), None, self.items[-1]
        yield {"type": "response.output_text.done", **self._place(), "content_index": 0, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **self._place(), "content_index": 0, "part": _part(text)}
        item |= {"status": status, "content": [_part(text)]}
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": {**item}}

    def _call(self, call: ParsedCall) -> Iterator[Event]:
        arguments = arguments_text(call)
        item = {"id": new_id("fc"), "type": "function_call", "call_id": call_id(), "name": call.name, "arguments": arguments}
        item["status"] = "completed"
        self.items.append(item)
        started = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": started}
        yield {"type": "response.function_call_arguments.delta", **self._place(), "delta": arguments}
        yield {"type": "response.function_call_arguments.done", **self._place(), "name": call.name, "arguments": arguments}
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": {**item}}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
