"""Limits: what one request may ask for, and how much the server takes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from firth.errors import ConfigError
from firth.serving.connection_limits import ConnectionLimits

RETRY_AFTER = 1  # seconds after which a refused client may try again


@dataclass(frozen=True, kw_only=True)
class Limits:
    body: int = 4 << 20  # bytes
    prompt: int | None = None  # tokens of a prompt; None: the model's context, or `tokens_without_context`
    tokens_without_context: int = 65_536  # of a prompt for a model whose context has no bound
    tokens: int = 4096  # that a request may ask for, in each text
    choices: int = 128  # texts that a request may ask for: prompts × best_of
    inputs: int = 2048  # texts that a request may give to embed, translate, classify or tag
    input_tokens: int = 8192  # of each of them, unless `prompt` is given
    all_input_tokens: int = 300_000  # in total; a context counts once for each of its questions
    held: int = 256 << 20  # total size of the bodies of running requests in one process, in bytes
    weights: int = 1 << 20  # attention weights in a response
    queue: int = 256  # texts that wait for a slot, and requests that wait for other work; in each model
    seconds: float = 600.0  # that a request may take, with the time in the queue
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)

    def __post_init__(self) -> None:
        for name in ("body", "tokens", "choices", "inputs", "queue", "seconds", "input_tokens", "all_input_tokens", "held"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"the limit `{name}` is {getattr(self, name)}; expected more than 0")
        if self.prompt is not None and self.prompt < 1:
            raise ConfigError(f"the limit `prompt` is {self.prompt}; expected more than 0")
        object.__setattr__(self, "connection", replace(self.connection, body=self.body))

    def shared(self, processes: int) -> Limits:
        """The limits of each of `processes` processes that share the connections."""
        whole = self.connection
        each = replace(whole, total=-(-whole.total // processes), per_address=-(-whole.per_address // processes))
        return replace(self, connection=each)

    def prompt_tokens(self, context: int | None) -> int:
        """The longest prompt for a model with this context."""
        most = self.tokens_without_context if context is None else context
        return most if self.prompt is None else min(most, self.prompt)
