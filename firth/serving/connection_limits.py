"""ConnectionLimits: what a client may send, and how slowly, before the application sees a request. The values are nginx's."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

from firth.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    line: int = 8 << 10  # bytes of the request line, and of each header
    head: int = 32 << 10  # bytes of the request line and all headers
    headers: int = 100
    head_seconds: float = 10.0  # time for the head, from the first byte or from the start of the connection
    pause: float = 30.0  # seconds between two pieces of a body, and for a client to read what was sent to it
    rate: int = 16 << 10  # bytes: a body may take `pause` seconds, plus one second for every `rate` bytes
    body: int = 4 << 20  # bytes of a body that extend its deadline, at most
    idle_seconds: float = 75.0  # between two requests
    pipelined: int = 16  # requests that a client may send before it gets the response to the first
    total: int = 4096  # connections at once
    per_address: int = 256  # connections at once from one address; 0: any number
    loopback: bool = False  # apply `per_address` to this machine, too, where a proxy may forward many clients

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value == 0 and field.name not in ("per_address", "loopback")):
                raise ConfigError(f"the limit `{field.name}` is {value}; expected more than 0")

    def of_address(self, *, own: bool) -> int:
        """Maximum number of connections from one address. `own`: the address of this machine."""
        return self.per_address if self.per_address and (self.loopback or not own) else sys.maxsize
