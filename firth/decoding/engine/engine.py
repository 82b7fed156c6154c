"""The engine of a server: many texts at once in one decode loop (continuous batching).

A job waits in a queue, its prompt is read in pieces between the steps, and then its text is one row of the batch until it ends.
All rows make one step together, whatever their lengths; rows join and leave between steps. One thread does all the work.

Letters: n rows that write, V vocabulary.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from firth.decoding.engine.jobs import (
    COUNTED,
    ENDS,
    Deliver,
    EngineClosed,
    Event,
    Finished,
    GeneratedToken,
    Job,
    JobLimits,
    QueueFull,
    Reason,
    Ticket,
)
from firth.decoding.engine.row_memory import RowMemory
from firth.decoding.engine.stream import Stream
from firth.decoding.loop import Loop
from firth.decoding.sampling.choice import PendingChoice, Sampler
from firth.decoding.sampling.rows import Spelled, TextSoFar
from firth.errors import ConfigError, FirthError
from firth.models import LanguageModel
from firth.text.tokenizers.tokenizer import Tokenizer

__all__ = ["Deliver", "Engine", "EngineClosed", "Event", "Finished", "GeneratedToken", "Job", "QueueFull", "Reason", "Ticket"]

_log = logging.getLogger("firth.engine")


@dataclass(frozen=True)
class _Launched:
    """A step whose tokens have not been read yet; streams[n] is the text of row n."""

    streams: list[Stream]
    choosing: PendingChoice


class Engine:
    """`slots` texts at once, of `capacity` tokens each (by default the model's context), so that the memory is fixed from the
    start. Between two steps, at most `chunk` tokens of prompts are read (by default 256, on a GPU 2,048). At most `queue` jobs
    wait. Jobs with a constraint need the `tokenizer`."""

    def __init__(
        self,
        network: LanguageModel,
        slots: int = 16,
        capacity: int | None = None,
        chunk: int | None = None,
        queue: int = 256,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        for name, value in (("slots", slots), ("capacity", capacity), ("chunk", chunk), ("queue", queue)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected 1 or more")
        self.network, self.slots, self.queue, self._tokenizer = network, slots, queue, tokenizer
        self.capacity = min((limit for limit in (capacity, network.context) if limit is not None), default=None)
        self.limits = JobLimits(network.vocab, network.context, self.capacity)
        self._device = next(network.parameters()).device
        self.chunk = chunk or (256 if self._device.type == "cpu" else 2048)
        self._memory = RowMemory(network, slots, self.capacity)
        self._changed = threading.Condition()
        self._waiting: deque[Ticket] = deque()
        self._streams: dict[Ticket, Stream] = {}  # all that are in work: they read, or write as a row of the memory
        self._reading: deque[Stream] = deque()
        self._loop: Loop[Stream] | None = None  # of the streams that write; None: they have changed
        self._launched: _Launched | None = None
        # Not where a step in vain would leave a trace in what is kept of a text.
        self._looks_ahead = self._device.type == "cuda" and self._memory.pads
        self._pending: list[tuple[Ticket, list[Event]]] = []  # the last events of jobs that have ended
        self._counts: Counter[str] = Counter()
        self._open, self._cancel_all = True, False
        self._thread: threading.Thread | None = None

    def start(self, after_turn: Callable[[], None] = lambda: None) -> None:
        """Work in a thread of its own, until `close`. On a GPU, steps are recorded first, which takes some seconds. The thread
        calls `after_turn` when the events of a turn are delivered."""
        self._memory.warm_up()
        self._thread = threading.Thread(target=self._run, args=(after_turn,), name="firth-engine", daemon=True)
        self._thread.start()

    def close(self, drain: bool = True, seconds: float | None = None) -> None:
        """Refuse new jobs and end: after all accepted jobs are finished (`drain`), or cancel them. With `seconds`, jobs that are
        not finished by then are cancelled, too."""
        with self._changed:
            self._open, self._cancel_all = False, not drain
            self._changed.notify_all()
        if self._thread is None:
            while self.busy:
                self.turn()
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            with self._changed:
                self._cancel_all = True
            self._thread.join()

    def text(self, job: Job) -> TextSoFar:
        """The text that a job starts with. If it must match a regular expression or a schema, this may take a second."""
        spelled = None
        if self._tokenizer is not None and job.config.constrains:
            spelled = Spelled(self._tokenizer.spelling, job.may_end, job.begins)
        return TextSoFar(job.config, job.prompt, spelled)

    def submit(self, job: Job, deliver: Deliver, text: TextSoFar | FirthError | None = None) -> Ticket:
        """Queue a `job`. `deliver` is called in the engine's thread with the new events, at most once per step; the last event is
        Finished. It must return quickly. `text`: the result of `Engine.text` for this job, or its error, with which the job
        then ends."""
        self.limits.check(job)
        text = text or self.text(job)
        with self._changed:
            if not self._open:
                raise EngineClosed("the engine is closed and accepts no more requests")
            if len(self._waiting) >= self.queue:
                raise QueueFull(f"{len(self._waiting)} requests are waiting already. Try again later.")
            ticket = Ticket(job, text, deliver, self._changed)
            self._waiting.append(ticket)
            self._counts["jobs"] += 1
            self._changed.notify_all()
        return ticket

    def facts(self) -> dict[str, int | float]:
        """The state of the engine, for /health and /metrics; everything except `running`, `waiting` and sizes is a counter."""
        running = {"running": len(self._streams), "reading": len(self._reading), "waiting": len(self._waiting)}
        sizes = {"slots": self.slots, "capacity": self.capacity or 0, "queue": self.queue}
        return {**running, **sizes, **{name: self._counts[name] for name in (*COUNTED, *ENDS)}}

    @property
    def ready(self) -> bool:
        """True if it accepts jobs."""
        return self._open

    @torch.inference_mode()
    def turn(self) -> None:
        """One step of every text that is being generated, and a piece of the prompts. The engine's thread calls it repeatedly."""
        try:
            self._drop_ended()
            self._admit()
            self._read()
            self._step()
        except Exception as error:  # the texts in work are lost, the engine is not
            _log.exception("a step failed")
            for stream in list(self._streams.values()):
                self._finish(stream, "failed", _told(error))
            self._reading.clear()
            self._memory.forget()
            self._loop = self._launched = None
        self._deliver()

    def _run(self, after_turn: Callable[[], None]) -> None:
        while self._wait():
            self.turn()
            after_turn()

    def _wait(self) -> bool:
        """Wait until there is something to do; False if there never will be."""
        with self._changed:
            while self._open and not self.busy:
                self._changed.wait()
            return self.busy

    @property
    def busy(self) -> bool:
        """True if it has jobs."""
        return bool(self._waiting or self._streams)

    def _drop_ended(self) -> None:
        """End the jobs that are cancelled or out of time, waiting ones included."""
        with self._changed:
            ended = [(ticket, reason) for ticket in self._waiting if (reason := self._over(ticket))]
            for ticket, _ in ended:
                self._waiting.remove(ticket)
        for ticket, reason in ended:
            self._end(ticket, [], reason)
        for stream in list(self._streams.values()):
            if (reason := self._over(stream.ticket)) is not None:
                self._leave(stream, reason)

    def _over(self, ticket: Ticket) -> Reason | None:
        return "cancelled" if self._cancel_all else ticket.over()

    def _admit(self) -> None:
        """Admit waiting jobs in the order of arrival as soon as a row will be free for them."""
        while len(self._streams) < self.slots:
            with self._changed:
                if not self._waiting:
                    return
                ticket = self._waiting.popleft()
            try:
                self._reading.append(self._begin(ticket))
            except Exception as error:
                _log.exception("a request failed")
                self._end(ticket, [], "failed", _told(error))

    def _begin(self, ticket: Ticket) -> Stream:
        if isinstance(ticket.text, FirthError):
            raise ticket.text
        stream = Stream(ticket, ticket.text, self.network, self._device)
        self._memory.admit(stream)
        self._streams[ticket] = stream
        return stream

    def _read(self) -> None:
        """Read up to `chunk` tokens of the prompts, which take turns."""
        budget = self.chunk
        while budget > 0 and self._reading:
            stream = self._reading.popleft()
            self._skip_known(stream)
            if budget < self.chunk and stream.left > budget:  # a small piece would cost as much time as a large one
                self._reading.appendleft(stream)
                return
            together = [stream, *self._others_like(stream, budget)]
            try:
                together, count, logits_BV = self._piece(together, budget)
            except Exception as error:
                _log.exception("a prompt failed")
                for one in together:
                    self._leave(one, "failed", _told(error))
                continue
            self._counts["prompt_tokens"] += count
            budget -= count
            if logits_BV is None:
                self._reading.append(stream)
            else:
                self._begin_writing(together, logits_BV)

    def _piece(self, streams: list[Stream], budget: int) -> tuple[list[Stream], int, Tensor | None]:
        """Read a piece of one prompt, or the rest of several; returns the texts in the order of the logits, if there are any."""
        if len(streams) == 1 and not (self._memory.replays(streams[0]) and streams[0].reads_once_more):
            return streams, *self._memory.read(streams[0], budget)
        count = sum(stream.left for stream in streams)
        streams, logits_BV = self._memory.read_together(streams)
        return streams, count, logits_BV

    def _others_like(self, stream: Stream, budget: int) -> list[Stream]:
        """Prompts whose rest can be read in the same call as that of `stream`: they fit into the budget, and none is much shorter
        than another. Jobs with the same prompt can reuse its memory afterwards."""
        length, others, prompts = stream.left, [], {tuple(stream.window[:-1])}
        if not stream.reads_once_more or length > budget // 2:
            return []
        least = (length + 1) // 2 if self._memory.pads else length
        for other in self._reading:
            if not other.reads_once_more or (tuple(other.window[:-1]) in prompts and length > 1):
                continue
            self._skip_known(other)
            if least <= other.left <= length and self._memory.has_room(other, length):
                others.append(other)
                prompts.add(tuple(other.window[:-1]))
                if (len(others) + 2) * length > budget:
                    break
        for other in others:
            self._reading.remove(other)
        return others

    def _skip_known(self, stream: Stream) -> int:
        """Reuse the memory of a prefix that another text has read; returns the number of tokens that need not be read."""
        known = self._memory.find_prefix(stream) if stream.may_skip else 0
        self._counts["prefix_hits"] += known > 0
        self._counts["prefix_tokens"] += known
        return known

    def _begin_writing(self, streams: list[Stream], logits_BV: Tensor) -> None:
        chosen = Sampler(streams, self._device).choose(logits_BV)
        for stream, id, log_p, share, top in chosen.of(streams):
            before = stream.written
            reason = stream.write(id, log_p, share, top) if stream.job.continues else "length"
            self._counts["tokens_generated"] += stream.written - before
            if reason is not None:
                self._leave(stream, reason)
            elif stream.slide():
                self._slide(stream)
            else:
                self._memory.join(stream)
                self._loop = None

    def _step(self) -> None:
        """Generate one more token for every text. On a GPU, the next step is launched before the tokens of this one are read, so
        that the GPU does not wait for Python."""
        launched, self._launched = self._launched, None
        if launched is not None:
            if self._may_look_ahead():
                self._launched = self._launch()
            self._write(launched)
        if self._launched is None and self._memory.streams():
            self._launched = self._launch()
        if self._launched is not None and not self._looks_ahead:
            launched, self._launched = self._launched, None
            self._write(launched)
        if not self._streams:
            self._launched = self._loop = None

    def _launch(self) -> _Launched:
        if self._loop is None:
            streams = self._memory.streams()
            token_n1 = torch.tensor([[stream.next_token] for stream in streams], device=self._device)
            self._loop = Loop(self._memory, None, token_n1, streams)
        self._counts["steps"] += 1
        return _Launched(self._loop.rows, self._loop.choose(self._loop.logits()))

    def _may_look_ahead(self) -> bool:
        """True if the same texts can make another step, whatever their tokens are. For a text that ends, that step is wasted."""
        if not self._looks_ahead or self._loop is None or self._loop.reads_text:
            return False
        streams, limit = self._loop.rows, self.network.context
        if not all(self._memory.has_room(stream, 2) and (limit is None or len(stream.window) < limit) for stream in streams):
            return False
        return any(stream.written + 1 < stream.config.tokens for stream in streams)

    def _write(self, launched: _Launched) -> None:
        """Append the tokens of a step to the texts that are still running."""
        chosen = launched.choosing.read()
        for stream, id, log_p, share, top in chosen.of(launched.streams):
            if self._streams.get(stream.ticket) is not stream:
                continue
            before = stream.written
            stream.read += 1
            reason = stream.write(id, log_p, share, top)
            self._counts["tokens_generated"] += stream.written - before
            if reason is not None:
                self._leave(stream, reason)
            elif stream.slide():
                self._memory.rest(stream)
                self._loop = None
                self._slide(stream)

    def _slide(self, stream: Stream) -> None:
        self._counts["slides"] += 1
        self._reading.appendleft(stream)

    def _leave(self, stream: Stream, reason: Reason, error: str | None = None) -> None:
        if stream in self._reading:
            self._reading.remove(stream)
        self._memory.leave(stream, failed=reason == "failed")
        self._loop = None
        self._finish(stream, reason, error)

    def _finish(self, stream: Stream, reason: Reason, error: str | None = None) -> None:
        if reason == "failed" and error is None:
            error = stream.text.failure or "the model's logits are not finite"
        del self._streams[stream.ticket]
        self._end(stream.ticket, stream.take_events(), reason, error)

    def _end(self, ticket: Ticket, events: list[Event], reason: Reason, error: str | None = None) -> None:
        self._counts[reason] += 1
        self._pending.append((ticket, [*events, Finished(reason, error)]))

    def _deliver(self) -> None:
        """Deliver the events of this turn, and cancel the jobs whose receiver fails."""
        running = [(ticket, stream.take_events()) for ticket, stream in self._streams.items()]
        for ticket, events in (*self._pending, *running):
            try:
                if events:
                    ticket.deliver(events)
            except Exception:
                _log.exception("events could not be delivered")
                ticket.cancelled = True
        self._pending.clear()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
