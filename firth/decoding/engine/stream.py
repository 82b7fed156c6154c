"""One text in the engine: what its memory holds, what it has yet to read, and what it has to deliver.

Letters: T time, V vocabulary, d width, k alternatives.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.engine.jobs import Event, GeneratedToken, Job, Reason, Ticket
from firth.decoding.sampling.draw import Draws
from firth.decoding.sampling.rows import TextSoFar
from firth.models import LanguageModel

_SCORED_AT_ONCE = 32  # tokens whose logits, in float64, are in memory at the same time


@dataclass(frozen=True)
class Pass:
    """Tokens to read from an empty memory. The tokens from `scored` on are scored: they predict `targets`, one each."""

    tokens: Sequence[int]
    scored: int = 0
    targets: Sequence[int] = ()


def passes(job: Job, context: int | None) -> Iterator[Pass]:
    """The pieces in which a prompt is read: all of it at once if the context holds it. Otherwise it is scored in windows that
    overlap by half, as inspection.predictions.of_text does, and continued from its last `context` tokens, as generate.EndlessText
    does."""
    prompt, length = job.prompt, len(job.prompt)
    if context is None or length <= context:
        yield Pass(prompt, 0, prompt[1:] if job.score_prompt else ())
        return
    at = 0
    while job.score_prompt and at < length - 1:
        begin = max(0, at - context // 2)
        end = min(begin + context, length - 1)
        yield Pass(prompt[begin:end], at - begin, prompt[at + 1 : end + 1])
        at = end
    if job.continues or not job.score_prompt:
        yield Pass(prompt[-context:])


class Stream:
    """A running job. `window`: the tokens of its memory, of which the first `read` have been processed."""

    def __init__(self, ticket: Ticket, text: TextSoFar, model: LanguageModel, device: torch.device) -> None:
        self.ticket, self.job, self.text = ticket, ticket.job, text
        self.model, self.device = model, device
        self.draws = Draws(self.config.seed, self.job.number)
        self.events: list[Event] = []
        self.written = 0
        self.window: list[int] = []
        self.read = 0
        self._passes = deque(passes(self.job, model.context))
        if self.job.score_prompt:
            self.events.append(GeneratedToken(self.job.prompt[0], None))
        self._begin(self._passes.popleft())

    @property
    def config(self) -> DecodingConfig:
        return self.job.config

    @property
    def drawn(self) -> int:
        return self.written

    @property
    def top(self) -> int:
        return self.job.top

    @property
    def next_token(self) -> int:
        return self.window[self.read]

    @property
    def left(self) -> int:
        """Tokens that remain to be read."""
        return len(self.window) - self.read

    @property
    def may_skip(self) -> bool:
        """True if tokens need not be read when another row has their state: they are not scored."""
        return not self._current.targets

    @property
    def reads_once_more(self) -> bool:
        """True if only the rest of its prompt remains to be read, without scores."""
        return self.may_skip and not self._passes

    def read_piece(self, state: Any, most: int) -> tuple[int, Tensor | None, Any]:
        """Read up to `most` tokens. Returns their number, the logits_1V of the next token if the prompt ends with them, and the
        state after them."""
        first, end = self.read, min(self.read + most, len(self.window))
        token_1T = torch.tensor([self.window[first:end]], device=self.device)
        x_1Td, state = self.model.hidden(token_1T, state)
        self.read = end
        self._score(x_1Td[0], first)
        if end < len(self.window):
            return end - first, None, state
        if self._passes:
            self._begin(self._passes.popleft())
            return end - first, None, state
        return end - first, self.model.readout(x_1Td[:, -1:])[:, 0], state

    def write(self, id: int, log_probability: float, share: float, top: tuple[tuple[int, float], ...]) -> Reason | None:
        """Append a token that was drawn with probability `share`, unless it ends the text. Returns the reason if the text
        ends."""
        if not math.isfinite(log_probability):
            return "failed"
        if id in self.job.ends:
            return "stop"
        self.events.append(GeneratedToken(id, log_probability, top))
        self.written += 1
        self.window.append(id)
        self.text.add(id, share)
        if self.text.failure is not None:
            return "failed"
        if self.text.ended:
            return "stop"
        return "length" if self.written == self.config.tokens else None

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def slide(self) -> bool:
        """If the context is full, keep the later half of its tokens, to be read again from position 0 (see EndlessText)."""
        limit = self.model.context
        if limit is None or len(self.window) <= limit:
            return False
        self._begin(Pass(self.window[-max(1, limit // 2) :]))
        return True

    def _begin(self, current: Pass) -> None:
        self._current, self.window, self.read = current, list(current.tokens), 0

    def _score(self, x_Td: Tensor, first: int) -> None:
        """Deliver the targets of those of the tokens first … first + T that are scored."""
        current = self._current
        begin, end = max(first, current.scored), min(first + len(x_Td), current.scored + len(current.targets))
        for at in range(begin, end, _SCORED_AT_ONCE):
            until = min(at + _SCORED_AT_ONCE, end)
            targets = current.targets[at - current.scored : until - current.scored]
            self.events += scores(self.model, x_Td[at - first : until - first], targets, self.top)


def scores(model: LanguageModel, x_Td: Tensor, targets: Sequence[int], top: int) -> list[GeneratedToken]:
    """The targets with their log-probabilities after the hidden states x_Td."""
    log_p_TV = torch.log_softmax(model.readout(x_Td.unsqueeze(0))[0].double(), -1)
    target_T1 = torch.tensor(targets, device=x_Td.device).unsqueeze(1)
    best_Tk, id_Tk = log_p_TV.topk(min(top, log_p_TV.shape[1]), dim=1)
    columns = zip(targets, log_p_TV.gather(1, target_T1).squeeze(1).tolist(), id_Tk.tolist(), best_Tk.tolist(), strict=True)
    return [GeneratedToken(id, value, tuple(zip(ids, best, strict=True))) for id, value, ids, best in columns]
