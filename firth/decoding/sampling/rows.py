"""The texts that are being written, and the settings of each: what filters look at. Letters: n rows, N tokens, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.sampling.filter import Filter


class Text:
    """The tokens of a text so far, its prompt included, and what filters keep of it (`notes`)."""

    def __init__(self, config: Any, tokens: Sequence[int] = ()) -> None:
        self.config = config  # a DecodingConfig, which imports the filters
        self.tokens = list(tokens)
        self.notes: dict[type[Filter], Any] = {one: note for one in config.acting if (note := one.remember(config)) is not None}
        self._seen_V: Tensor | None = None

    def add(self, token: int, probability: float) -> None:
        """`probability`: that it was drawn with, after all filters."""
        self.tokens.append(token)
        if self._seen_V is not None:
            self._seen_V[token] = True
        for note in self.notes.values():
            note.add(token, probability)

    def seen_V(self, vocab: int, device: torch.device) -> Tensor:
        """Which tokens have occurred."""
        if self._seen_V is None:
            self._seen_V = torch.zeros(vocab, dtype=torch.bool, device=device)
            self._seen_V[torch.tensor(self.tokens, dtype=torch.long, device=device)] = True
        return self._seen_V


class Rows:
    """Rows on which the same filters act; their settings as columns."""

    def __init__(self, texts: Sequence[Text], device: torch.device) -> None:
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

    def seen_nV(self, vocab: int) -> Tensor:
        """Which tokens have occurred in each text."""
        return torch.stack([text.seen_V(vocab, self.device) for text in self.texts])
