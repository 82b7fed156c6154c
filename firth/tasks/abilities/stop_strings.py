"""Ending a text where a stop string occurs, wherever the boundaries between the tokens are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def stop_at(text: str, stops: Sequence[str]) -> int | None:
    """The position of the stop string that is complete first; None if the text has none."""
    ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    return min(ends)[1] if ends else None


class StopStrings:
    """Streams a text up to its first stop string. The end of the text so far is held back while it could still begin a stop
    string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.held = ""
        self.found = False

    def push(self, piece: str) -> str:
        """The text that can be shown after `piece`."""
        if not self.stops:
            return piece
        held = self.held + piece
        end = stop_at(held, self.stops)
        certain = len(held) - _begun(held, self.stops) if end is None else end
        self.found, self.held = end is not None, held[certain:]
        return held[:certain]


def until_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces of a text up to its first stop string."""
    text = StopStrings(stops)
    for piece in pieces:
        if certain := text.push(piece):
            yield certain
        if text.found:
            return
    if text.held:
        yield text.held


def _begun(text: str, stops: Sequence[str]) -> int:
    """The length of the longest suffix of `text` that is a prefix of a stop string."""
    longest = min(len(text), max(map(len, stops), default=1) - 1)
    return next((n for n in range(longest, 0, -1) if any(stop.startswith(text[-n:]) for stop in stops)), 0)
