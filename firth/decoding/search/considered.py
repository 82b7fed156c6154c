"""The candidates that a beam search considered in one step, recorded while it runs.

Letters: A texts still being searched, S beams per group, C candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BeamCandidate:
    """A hypothesis with one more token. It is dropped if it neither becomes a beam nor ends."""

    text: int  # the number of the text
    parent: int  # the beam that it continues
    token: int
    log_probability: float  # Σ log p(token | tokens before it), of the model
    searched: float  # the same sum of the search, before the length penalty; it differs with a repetition penalty
    beam: int | None  # the beam that it becomes
    ended: bool


Note = Callable[[int, Sequence[BeamCandidate]], None]  # (group, its candidates, best first), once for each group in every step


def considered(
    text_A: Tensor,
    parent_AC: Tensor,
    token_AC: Tensor,
    log_p_AC: Tensor,
    searched_AC: Tensor,
    ended_AC: Tensor,
    place_AS: Tensor,
    dead_AS: Tensor,
    first: int,
) -> Iterator[BeamCandidate]:
    """The candidates of a group whose beams, with the numbers from `first` on, are those at place_AS, unless they are dead."""
    kept: list[dict[int, int]] = [
        {place: first + beam for beam, (place, dead) in enumerate(zip(places, deaths, strict=True)) if not dead}
        for places, deaths in zip(place_AS.tolist(), dead_AS.tolist(), strict=True)
    ]
    for a, c in (searched_AC > -torch.inf).nonzero().tolist():
        yield BeamCandidate(
            int(text_A[a]),
            int(parent_AC[a, c]),
            int(token_AC[a, c]),
            float(log_p_AC[a, c]),
            float(searched_AC[a, c]),
            kept[a].get(c),
            bool(ended_AC[a, c]),
        )
