"""The rows of the engine's memory: the text that each holds, and the prefixes that free rows still hold.

The texts being generated are the first n rows, so that a step is one call. Prompts that are read together are in consecutive
rows behind them. A free row keeps its old contents until it is needed: a prompt that begins with the same tokens starts from
there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from firth.decoding.engine import row_views
from firth.decoding.engine.captured_prompts import CapturedPrompts
from firth.decoding.engine.slots import CapturedSlots, Slots
from firth.decoding.engine.stream import Stream
from firth.decoding.graphs.captured import MOST
from firth.decoding.graphs.recorded import advance_in_place
from firth.layers.state import can_be_cut
from firth.models import LanguageModel

_WORTH_COPYING = 2  # tokens


@dataclass
class CacheRow:
    """A row of memory and its text; `writes`: the text is being generated; `kept`: tokens of an earlier text that the row still
    holds; `used`: time of its last use."""

    stream: Stream | None = None
    kept: list[int] = field(default_factory=list)
    used: int = 0
    writes: bool = False

    @property
    def tokens(self) -> list[int]:
        return self.kept if self.stream is None else self.stream.window[: self.stream.read]


class RowMemory:
    def __init__(self, model: LanguageModel, rows: int, capacity: int | None) -> None:
        self.model = model
        self.slots = Slots(model, rows, capacity)
        self.recorded = CapturedSlots(self.slots)
        self._prompts = CapturedPrompts.of(model, rows, capacity)
        self._device = next(model.parameters()).device
        self._cuts = can_be_cut(self.slots.state)
        self.forget()

    @torch.inference_mode()
    def forget(self) -> None:
        """Clear all rows."""
        self._rows = [CacheRow() for _ in range(self.slots.rows)]
        self._clock = itertools.count(1)
        for tensor in self.slots.state.tensors():
            tensor.zero_()

    def streams(self) -> list[Stream]:
        """The texts that are being generated; stream n is in row n."""
        writers = [n for n, row in enumerate(self._rows) if row.writes]
        self._bring_together(writers, 0)
        return [row.stream for row in self._rows[: len(writers)] if row.stream is not None]

    def warm_up(self) -> None:
        """On a GPU, record all graphs before the first request."""
        self.recorded.warm_up()
        if self._prompts is not None:
            self._prompts.warm_up()

    def admit(self, stream: Stream) -> None:
        """Give a text the least recently used row."""
        free = [n for n, row in enumerate(self._rows) if row.stream is None]
        self._rows[min(free, key=lambda n: self._rows[n].used)] = CacheRow(stream)

    def find_prefix(self, stream: Stream) -> int:
        """Before a text continues to read, reuse its next tokens from another row; returns the number of tokens that need not be
        read."""
        best, source = stream.read + _WORTH_COPYING - 1, None
        for n, row in enumerate(self._rows):
            held = row.tokens
            if row.stream is not stream and len(held) > best and (count := common(held, stream.window)) > best:
                count = min(count, len(stream.window) - 1)  # the logits after the last token are still to be computed
                if count > best and (count == len(held) or self._cuts):
                    best, source = count, n
        if source is None:
            return 0
        length, stream.read = best - stream.read, best
        self._take(stream, source)
        return length

    def read(self, stream: Stream, most: int) -> tuple[int, Tensor | None]:
        """See Stream.read_piece."""
        row = self._row(stream)
        state = row_views.opened(self.model, self.slots.state, row, stream.read)
        count, logits_1V, state = stream.read_piece(state, most)
        row_views.close(self.slots.state, row, state)
        return count, logits_1V

    @property
    def pads(self) -> bool:
        """True if tokens after the end of a text do not affect its stored state."""
        return self._cuts

    def has_room(self, stream: Stream, tokens: int) -> bool:
        """True if this many tokens, padding included, fit after those already read."""
        return self.slots.capacity is None or stream.read + tokens <= self.slots.capacity

    def replays(self, stream: Stream) -> bool:
        """True if the prompt of this text is read by a recorded step."""
        return self._prompts is not None and not stream.read and stream.left <= MOST

    def read_together(self, streams: Sequence[Stream]) -> tuple[list[Stream], Tensor]:
        """Read the rests of several prompts in one call: the texts in the order of their rows, and logits_BV of their next
        tokens."""
        first = len(self.streams())
        self._bring_together([self._row(stream) for stream in streams], first)
        streams = [row.stream for row in self._rows[first : first + len(streams)] if row.stream is not None]
        rests = [stream.window[stream.read :] for stream in streams]
        state = row_views.several(self.slots.state, first, [stream.read for stream in streams])
        if self._prompts is not None and all(self.replays(stream) for stream in streams):
            logits_BV = self._prompts.read(rests, state)
        else:
            logits_BV = self._read_rests(rests, state)
        for stream in streams:
            stream.read = len(stream.window)
        if self._cuts:
            state.length_B.copy_(torch.tensor([stream.read for stream in streams]))
        return list(streams), logits_BV

    def _read_rests(self, rests: Sequence[list[int]], state: Any) -> Tensor:
        """logits_BV after the last tokens; `state` is then the one after them and their padding."""
        token_BT = padded(rests, self._device)
        x_BTd, after = self.model.hidden(token_BT, state)
        advance_in_place(state, after)
        last_B = torch.tensor([len(rest) - 1 for rest in rests], device=self._device)
        return self.model.readout(x_BTd[torch.arange(len(rests), device=self._device), last_B].unsqueeze(1))[:, 0]

    def join(self, stream: Stream) -> None:
        """Start generating a text whose prompt has been read."""
        self._rows[self._row(stream)].writes = True

    def rest(self, stream: Stream) -> None:
        """Let a text read again, in its own row."""
        self._rows[self._row(stream)].writes = False

    def leave(self, stream: Stream, failed: bool) -> None:
        """Remove a text that has ended. Its state is kept for later prompts, unless it is invalid."""
        n = self._row(stream)
        self._rows[n] = CacheRow() if failed else CacheRow(None, self._rows[n].tokens, next(self._clock))
        if failed:
            row_views.clear(self.slots.state, n)

    def step(self, token_n1: Tensor, state: None) -> tuple[Tensor, None]:
        """logits_n1V after one more token of each text that is being generated, whose state is here."""
        return self.recorded.step(token_n1, len(token_n1)).unsqueeze(1), None

    def _row(self, stream: Stream) -> int:
        return next(n for n, row in enumerate(self._rows) if row.stream is stream)

    def _take(self, stream: Stream, source: int) -> None:
        """Give the text the first stream.read tokens of the row `source`: in place if nothing else uses that row."""
        row, own = self._rows[source], self._row(stream)
        row.used = next(self._clock)
        if row.stream is None and len(row.kept) == stream.read:
            self._rows[own], self._rows[source] = CacheRow(), CacheRow(stream)
        else:
            row_views.copy(self.slots.state, source, own, stream.read)

    def _bring_together(self, members: Sequence[int], first: int) -> None:
        """Make these rows consecutive, from `first` on and in any order, by exchanging them with the rows that are there."""
        there = range(first, first + len(members))
        outside = [n for n in members if n not in there]
        inside = [n for n in there if n not in set(members)]
        if not outside:
            return
        rows = self._rows
        longest = max(len(rows[n].tokens) for n in (*outside, *inside))
        row_views.exchange(self.slots.state, outside, inside, longest + 1)  # one: a step may be under way
        for left, right in zip(outside, inside, strict=True):
            rows[left], rows[right] = rows[right], rows[left]


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix, by bisection: comparing slices is faster than a loop."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def padded(texts: Sequence[list[int]], device: torch.device) -> Tensor:
    """token_BT, with token 0 after texts that are shorter than the longest."""
    longest = max(len(text) for text in texts)
    return torch.tensor([text + [0] * (longest - len(text)) for text in texts], device=device)
