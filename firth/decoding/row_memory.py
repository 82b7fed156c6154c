"""Which text is in which row of the engine's memory, and what the other rows still hold.

The texts that write are the first n rows, so that a step is one call. Those that read are in rows behind them. All other rows
keep what was left in them until somebody needs the row: a prompt that begins with the same tokens starts from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from firth.decoding import row_views
from firth.decoding.captured_slots import CapturedSlots
from firth.decoding.slots import Slots
from firth.decoding.stream import Stream
from firth.models import LanguageModel

_WORTH_COPYING = 2  # tokens


@dataclass
class Row:
    """A row and its text; `kept`: the tokens in it that nobody needs; `used`: when it was last used."""

    stream: Stream | None = None
    kept: list[int] = field(default_factory=list)
    used: int = 0

    @property
    def tokens(self) -> list[int]:
        return self.kept if self.stream is None else self.stream.window[: self.stream.read]


class RowMemory:
    def __init__(self, model: LanguageModel, rows: int, capacity: int | None) -> None:
        self.model = model
        self.slots = Slots(model, rows, capacity)
        self.recorded = CapturedSlots(self.slots)
        self._cuts = row_views.can_be_cut(self.slots.state)
        self.forget()

    @torch.inference_mode()
    def forget(self) -> None:
        """Start again with empty rows."""
        self.writing = 0  # rows
        self._rows = [Row() for _ in range(self.slots.rows)]
        self._clock = itertools.count(1)
        for tensor in self.slots.state.tensors():
            tensor.zero_()

    def streams(self) -> list[Stream]:
        """The texts that write; stream n is in row n."""
        return [row.stream for row in self._rows[: self.writing] if row.stream is not None]

    def admit(self, stream: Stream) -> None:
        """Give a text the row that was used longest ago."""
        free = [n for n in range(self.writing, len(self._rows)) if self._rows[n].stream is None]
        self._give(min(free, key=lambda n: self._rows[n].used), stream)

    def find_prefix(self, stream: Stream) -> int:
        """Before a text reads on: use what another row holds of its next tokens. The number of tokens that it need not read."""
        best, source = stream.read + _WORTH_COPYING - 1, None
        for n, row in enumerate(self._rows):
            held = row.tokens
            if row.stream is not stream and len(held) > best and (count := common(held, stream.window)) > best:
                count = min(count, len(stream.window) - 1)  # the logits after the last token are still to be computed
                if count > best and (count == len(held) or self._cuts):
                    best, source = count, n
        if source is None:
            return 0
        found, stream.read = best - stream.read, best
        self._take(stream, source)
        return found

    def read(self, stream: Stream, most: int) -> tuple[int, Tensor | None]:
        """See Stream.read_piece."""
        row = self._row(stream)
        state = row_views.opened(self.model, self.slots.state, row, stream.read)
        count, logits_1V, state = stream.read_piece(state, most)
        row_views.close(self.slots.state, row, state)
        return count, logits_1V

    @property
    def pads(self) -> bool:
        """Whether tokens after the end of a text leave no trace in what is kept of it."""
        return self._cuts

    def read_whole(self, streams: Sequence[Stream]) -> Tensor:
        """Read the prompts of several texts, from the first token to the last, in one call; logits_BV of their next tokens."""
        token_BT = padded([stream.window for stream in streams], streams[0].device)
        x_BTd, state = self.model.hidden(token_BT, row_views.empty(self.model, self.slots.state, len(streams)))
        for b, stream in enumerate(streams):
            stream.read = len(stream.window)
            row_views.put(self.slots.state, self._row(stream), state, b, stream.read)
        last_B = torch.tensor([stream.read - 1 for stream in streams], device=x_BTd.device)
        return self.model.readout(x_BTd[torch.arange(len(streams), device=x_BTd.device), last_B].unsqueeze(1))[:, 0]

    def join(self, stream: Stream) -> None:
        """A text that has read its prompt begins to write."""
        self._swap(self._row(stream), self.writing)
        self.writing += 1

    def rest(self, stream: Stream) -> None:
        """A text that writes must read again; its row stays its own."""
        self._swap(self._row(stream), self.writing - 1)
        self.writing -= 1

    def leave(self, stream: Stream, failed: bool) -> None:
        """A text ends. What it leaves is kept, unless it is broken."""
        if self._row(stream) < self.writing:
            self.rest(stream)
        n = self._row(stream)
        self._rows[n] = Row() if failed else Row(None, self._rows[n].tokens, next(self._clock))
        if failed:
            row_views.clear(self.slots.state, n)

    def step(self, token_n1: Tensor) -> Tensor:
        """logits_nV after one more token of each text that writes."""
        return self.recorded.step(token_n1, self.writing)

    def _row(self, stream: Stream) -> int:
        return next(n for n, row in enumerate(self._rows) if row.stream is stream)

    def _give(self, n: int, stream: Stream) -> None:
        self._rows[n] = Row(stream)

    def _take(self, stream: Stream, source: int) -> None:
        """The first stream.read tokens of the row `source` become the text's: in place if nothing else is in that row."""
        row, own = self._rows[source], self._row(stream)
        row.used = next(self._clock)
        if row.stream is None and len(row.kept) == stream.read:
            self._rows[own], self._rows[source] = Row(), Row(stream)
        else:
            row_views.copy(self.slots.state, source, own, stream.read)

    def _swap(self, left: int, right: int) -> None:
        if left == right:
            return
        rows = self._rows
        row_views.swap(self.slots.state, left, right, max(len(rows[n].tokens) for n in (left, right)))
        rows[left], rows[right] = rows[right], rows[left]


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of tokens with which both begin, by bisection: comparing slices is faster than a loop."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def padded(texts: Sequence[list[int]], device: torch.device) -> Tensor:
    """token_BT; token 0 stands behind texts that are shorter than the longest."""
    longest = max(len(text) for text in texts)
    return torch.tensor([text + [0] * (longest - len(text)) for text in texts], device=device)
