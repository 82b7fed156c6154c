"""The messages between firth and the processes that run chat templates, JSON after its length; and the limits of the latter."""

from __future__ import annotations

import json
from typing import IO, Any

MEMORY = 200 << 20  # bytes of a process
SECONDS, PROCESSOR_SECONDS = 2.0, 1.0  # for a request, by the clock and by the processor's
BEGIN, END = "\ufdd0", "\ufdd1"  # marks around the assistant's messages: code points that Unicode reserves for internal use
_LENGTH = 8  # bytes


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Lone surrogates pass, as they do through a template."""
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    stream.write(len(body).to_bytes(_LENGTH, "big"))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream, or if the frame is invalid."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    if len(head) < _LENGTH or size > MEMORY:
        return None
    body = stream.read(size)
    return body if len(body) == size else None


def parse_frame(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "surrogatepass"))
