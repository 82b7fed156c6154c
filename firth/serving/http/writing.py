"""The texts of one request, from the tokens that the engine delivers to pieces of text with their log-probabilities."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol

from firth.decoding.engine.jobs import EngineRestarts, Event, Finished, GeneratedToken, Job
from firth.serving.http.dispatcher import Dispatcher
from firth.serving.http.errors import ApiError
from firth.serving.http.models import ServedModel
from firth.tasks.abilities.stop_strings import StopStrings
from firth.text.tokenizers.tokenizer import Tokenizer

_BEFORE = 8  # tokens before a text that can decide how it is spelled: a character has up to four bytes
FinishReason = Literal["stop", "length"]


class Speller:
    """`push(id)` is the text that this token adds; "" while it ends inside a character."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._waiting: deque[int] = deque()
        self._spelled = tokenizer.spell(iter(self._waiting.popleft, None))
        for id in before[-_BEFORE:]:
            self.push(id)

    def push(self, id: int) -> str:
        self._waiting.append(id)
        return next(self._spelled)


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Token(NamedTuple):
    written: GeneratedToken
    offset: int  # where its text begins in the text


class TextDelta(NamedTuple):
    """Text added to one of the responses."""

    number: int
    text: str
    tokens: list[Token]  # only where log-probabilities are asked for
    finish: FinishReason | None


@dataclass(eq=False)
class ResponseText:
    """One text: `read` events of the engine, then `take` the new piece."""

    number: int
    job: Job
    tokenizer: Tokenizer
    before: Sequence[int]  # the tokens that decide how the first one is spelled
    stops: tuple[str, ...]
    keeps_tokens: bool
    ends: tuple[int, ...] = ()  # end tokens that the engine does not know of; their log-probability is kept
    shown: Mapping[int, str] = field(default_factory=dict)  # special tokens that are kept in the text
    ticket: Cancellable | None = None
    scored: list[GeneratedToken] = field(default_factory=list)  # the prompt's tokens
    count: int = 0  # tokens generated
    log_probability: float = 0.0
    finish: FinishReason | None = None

    def __post_init__(self) -> None:
        self._speller = Speller(self.tokenizer, self.before)
        self._stop = StopStrings(self.stops)
        self._to_score = len(self.job.prompt) if self.job.score_prompt else 0
        self._text: list[str] = []
        self._tokens: list[Token] = []
        self._spelled = 0  # characters so far, those held back included
        self._sent = 0  # characters in pieces that were taken

    def read(self, events: list[Event]) -> None:
        for event in events:
            if self.finish is not None:
                return
            if isinstance(event, Finished):
                self._end(event)
            elif len(self.scored) < self._to_score:
                self.scored.append(event)
            else:
                self._add(event)

    def _add(self, token: GeneratedToken) -> None:
        if token.id in self.ends:
            self._tokens.append(Token(token, self._spelled))
            self._text.append(self._stop.held)
            self._finish_early()
            return
        piece = self.shown.get(token.id) or self._speller.push(token.id)
        if self.keeps_tokens:
            self._tokens.append(Token(token, self._spelled))
        self._spelled += len(piece)
        self.count += 1
        self.log_probability += token.log_probability or 0.0
        if piece:
            self._text.append(self._stop.push(piece))
            if self._stop.found:
                self._finish_early()

    def _finish_early(self) -> None:
        self.finish = "stop"
        if self.ticket is not None:
            self.ticket.cancel()

    def _end(self, event: Finished) -> None:
        match event.reason:
            case "stop" | "length":
                self.finish = event.reason
                self._text.append(self._stop.held)
            case "cancelled":
                raise ApiError(503, "the server is shutting down. Try again in a moment.", code="shutting_down")
            case "timeout":
                raise TimeoutError
            case "lost":
                raise EngineRestarts("the process of the engine ended")
            case "failed":
                raise ApiError(500, f"the text could not be written: {event.error}")

    def take(self) -> TextDelta:
        """The text added since the last call. A token is part of the text if its first character is."""
        text = "".join(self._text)
        self._text.clear()
        self._sent += len(text)
        if self.finish is not None and not self._stop.found:
            tokens, self._tokens = self._tokens, []
        else:
            ready = sum(token.offset < self._sent for token in self._tokens)
            tokens, self._tokens = self._tokens[:ready], self._tokens[ready:]
        return TextDelta(self.number, text, tokens, self.finish)


class Writing:
    """The texts of one request. They are submitted together, or refused together; `cancel` frees those that are still running."""

    def __init__(self, model: ServedModel, texts: list[ResponseText], dispatcher: Dispatcher) -> None:
        self.model, self.texts = model, texts
        self.first_token: float | None = None  # seconds
        self._inbox = dispatcher.inbox()
        self._began = time.perf_counter()
        engine = model.writer()
        try:
            for text in texts:
                text.ticket = engine.submit(text.job, partial(dispatcher.put, self._inbox, text.number))
        except Exception:
            self.cancel()
            raise

    async def pieces(self) -> AsyncIterator[list[TextDelta]]:
        """The additions to the texts as they come, until all are finished."""
        unfinished = len(self.texts)
        while unfinished:
            changed: dict[int, ResponseText] = {}
            for index, events in await self._inbox.take():
                text = self.texts[index]
                if text.finish is None:
                    text.read(events)
                    changed[index] = text
            if self.first_token is None:
                self.first_token = time.perf_counter() - self._began
            unfinished -= sum(text.finish is not None for text in changed.values())
            yield [text.take() for text in changed.values()]

    async def all(self) -> list[list[TextDelta]]:
        """The pieces of each text, when all are finished."""
        deltas: list[list[TextDelta]] = [[] for _ in self.texts]
        async for pieces in self.pieces():
            for piece in pieces:
                deltas[piece.number].append(piece)
        return deltas

    def cancel(self) -> None:
        self._inbox.close()
        for text in self.texts:
            if text.ticket is not None and text.finish is None:
                text.ticket.cancel()

    @property
    def generated(self) -> int:
        return sum(text.count for text in self.texts)
