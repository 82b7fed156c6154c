"""The jobs of the engine, and their results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.rows import TextSoFar
from firth.errors import ConfigError, FirthError

Reason = Literal["stop", "length", "cancelled", "timeout", "failed", "lost"]
ENDS: tuple[Reason, ...] = get_args(Reason)
COUNTED = ("jobs", "tokens_generated", "prompt_tokens", "prefix_hits", "prefix_tokens", "steps", "slides")  # facts that only grow


class QueueFull(FirthError):
    """More jobs wait than the engine accepts. Try again later."""


class EngineClosed(FirthError):
    """The engine is shutting down, or was never started."""


class EngineRestarts(FirthError):
    """The engine's process ended, and another one is being started. Try again later."""


@dataclass(frozen=True)
class Job:
    """A prompt to continue. `config` gives the number of tokens, the filters by which they are chosen (which count the prompt's
    tokens, too) and the seed; beam search does not apply.

    The draws come from the generator that (seed, number) seeds, as in sequences.py: the text does not depend on its batch."""

    prompt: tuple[int, ...]  # the tokens to continue
    config: DecodingConfig  # the settings of [decoding]
    ends: tuple[int, ...] = ()  # tokens that end the text; they are not delivered
    may_end: tuple[int, ...] = ()  # tokens that may follow a text that matches a constraint: its ends, delivered or not
    begins: bool = False  # nothing that is shown stands before the text
    top: int = 0  # number of most probable alternatives to deliver with each token
    number: int = 0  # of this text among those of one request
    score_prompt: bool = False  # deliver the tokens of the prompt with their log-probabilities before the generated ones
    continues: bool = True  # False: only score the prompt, generate nothing
    seconds: float | None = None  # time limit, counted from `submit`


@dataclass(frozen=True)
class JobLimits:
    """The limits of an engine's jobs. `context`: of the model; `capacity`: of a text in memory. None: no limit."""

    vocab: int
    context: int | None
    capacity: int | None

    def check(self, job: Job) -> None:
        if not job.prompt:
            raise ConfigError("the prompt is empty; give at least one token")
        if min(job.prompt) < 0 or max(job.prompt) >= self.vocab:
            raise ConfigError(f"the prompt has a token that is not in the vocabulary; expected ids from 0 to {self.vocab - 1}")
        if job.config.beam > 1:
            raise ConfigError(f"beam is {job.config.beam}, but the engine does not search. Set it to 1.")
        needed = len(job.prompt) + (job.config.tokens - 1 if job.continues else 0)
        if self.context is not None:
            needed = min(needed, self.context)
        if self.capacity is not None and needed > self.capacity:
            raise ConfigError(
                f"the prompt has {len(job.prompt)} tokens and {job.config.tokens} are asked for, but a text may have "
                f"{self.capacity}. Shorten the prompt, or ask for fewer tokens."
            )


@dataclass(frozen=True)
class GeneratedToken:
    """A token, its log-probability under the model (before temperature and penalty), and the most probable alternatives, best
    first. The first token of a scored prompt has no log-probability."""

    id: int
    log_probability: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Finished:
    """The last event of every job. "stop": one of its `ends`; "length": all its tokens are generated, or the prompt is scored;
    "lost": the process of the engine ended."""

    reason: Reason
    error: str | None = None


Event = GeneratedToken | Finished
Deliver = Callable[[list[Event]], None]


class Ticket:
    """A submitted job, and the text that it begins, or why there is none. It can be cancelled at any time, from any thread; its
    memory is then free at the next step."""

    def __init__(self, job: Job, text: TextSoFar | FirthError, deliver: Deliver, changed: threading.Condition) -> None:
        self.job, self.text, self.deliver = job, text, deliver
        self.cancelled = False
        self.deadline = None if job.seconds is None else time.monotonic() + job.seconds
        self._changed = changed

    def cancel(self) -> None:
        with self._changed:
            self.cancelled = True
            self._changed.notify_all()

    def over(self) -> Reason | None:
        """Why the job must end now, if it must."""
        if self.cancelled:
            return "cancelled"
        return "timeout" if self.deadline is not None and time.monotonic() >= self.deadline else None
