"""What passes between firth and the processes in which chat templates run: JSON after its length; and what they may need."""

from __future__ import annotations

import json
from typing import IO, Any

MEMORY = 200 << 20  # bytes of a process
SECONDS, PROCESSOR_SECONDS = 2.0, 1.0  # for a request, by the clock and by the processor's
BEGIN, END = "\ufdd0", "\ufdd1"  # around what the assistant writes; Unicode reserves them for use within a program
_LENGTH = 8  # bytes


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Lone surrogates pass, as they do through a template."""
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    stream.write(len(body).to_bytes(_LENGTH, "big"))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """None at the end of the stream, or when no honest frame begins here."""
    head = stream.read(_LENGTH)
    size = int.from_bytes(head, "big")
    if len(head) < _LENGTH or size > MEMORY:
        return None
    body = stream.read(size)
    return body if len(body) == size else None


def parse_frame(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "surrogatepass"))
