"""The texts that are being written, and the settings of each: what filters look at. Letters: n rows, N tokens, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.decoding.sampling.filter import Filter
from firth.text.tokenizers.spelling import Spelling


@dataclass(frozen=True, eq=False)
class Spelled:
    """The spelling of a text's tokens, and the tokens that end it; `begins`: no visible text comes before them."""

    spelling: Spelling
    ends: tuple[int, ...] = ()
    begins: bool = False


class TextSoFar:
    """The tokens of a text so far, prompt included, and the memory of its filters (`notes`)."""

    def __init__(self, config: Any, tokens: Sequence[int] = (), spelled: Spelled | None = None) -> None:
        self.config = config  # a DecodingConfig, which imports the filters
        self.tokens = list(tokens)
        notes = {one: one.remember(config, spelled) for one in config.acting}
        self.notes: dict[type[Filter], Any] = {one: note for one, note in notes.items() if note is not None}
        self._seen_V: Tensor | None = None

    def add(self, token: int, probability: float) -> None:
        """`probability`: the probability with which it was drawn, after all filters."""
        self.tokens.append(token)
        if self._seen_V is not None:
            self._seen_V[token] = True
        for note in self.notes.values():
            note.add(token, probability)

    @property
    def matches(self) -> bool:
        """True if it may end here."""
        return all(note.matches for note in self.notes.values())

    @property
    def ended(self) -> bool:
        """True if nothing can follow."""
        return any(note.ended for note in self.notes.values())

    @property
    def failure(self) -> str | None:
        """The reason why the text cannot be continued, if there is one."""
        return next((note.failure for note in self.notes.values() if note.failure), None)

    def seen_V(self, vocab: int, device: torch.device) -> Tensor:
        """True for each token that has occurred."""
        if self._seen_V is None:
            self._seen_V = torch.zeros(vocab, dtype=torch.bool, device=device)
            self._seen_V[torch.tensor(self.tokens, dtype=torch.long, device=device)] = True
        return self._seen_V


class FilterRows:
    """Rows on which the same filters act; their settings as columns."""

    def __init__(self, texts: Sequence[TextSoFar], device: torch.device) -> None:
        self.texts, self.device = texts, device
        self.configs = [text.config for text in texts]
        self._columns: dict[tuple[str, torch.dtype], Tensor] = {}

    def column(self, setting: str, x_nV: Tensor) -> Tensor:
        """The values of a setting, one per row, as numbers like x: setting_n1."""
        key = setting, x_nV.dtype
        if key not in self._columns:
            self._columns[key] = self.as_column([float(getattr(config, setting)) for config in self.configs], x_nV)
        return self._columns[key]

    def as_column(self, values: Sequence[float], x_nV: Tensor) -> Tensor:
        """values_n1, or value_11 where they are all the same: filled in, not copied, since a copy cannot be recorded."""
        if len(set(values)) == 1:
            return torch.full((1, 1), values[0], dtype=x_nV.dtype, device=self.device)
        return torch.tensor(values, dtype=x_nV.dtype, device=self.device).unsqueeze(1)

    def as_rows(self, allowed: Sequence[NDArray[np.bool_]]) -> Tensor:
        """found_nV on the device."""
        return torch.from_numpy(np.stack(allowed)).to(self.device)

    def seen_nV(self, vocab: int) -> Tensor:
        """True for each token that has occurred in a text."""
        return torch.stack([text.seen_V(vocab, self.device) for text in self.texts])
