"""Short prompts of several texts, read by recorded steps on a GPU and then copied into the rows of the engine's memory.

Both the number of texts and their length are padded to powers of two, so that few graphs are enough for all.

Letters: B texts, R rows with padding, W tokens with padding, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.graphs.captured import MOST, Captured, can_capture, padded_width
from firth.layers.kernels.recorded import copy_all
from firth.layers.state import FixedKeyValue
from firth.models import LanguageModel

_SHORTEST = 8  # tokens: shorter prompts are padded to as many


class CapturedPrompts:
    """For up to `texts` prompts at once, of at most `capacity` tokens each."""

    def __init__(self, model: LanguageModel, texts: int, capacity: int) -> None:
        self._rows = [1 << n for n in range(padded_width(texts).bit_length())]
        self._widths = [1 << n for n in range(_SHORTEST.bit_length() - 1, capacity.bit_length()) if 1 << n <= capacity]
        self._capacity, self._device = capacity, next(model.parameters()).device
        self._steps = Captured(model, graphs=len(self._rows) * len(self._widths))

    @staticmethod
    def of(model: LanguageModel, texts: int, capacity: int | None) -> CapturedPrompts | None:
        """None where prompts cannot be padded, or need not be recorded."""
        if capacity is None or capacity < MOST or not can_capture(model):
            return None
        prompts = CapturedPrompts(model, texts, MOST)
        return prompts if prompts._steps.can_start else None

    def warm_up(self) -> None:
        for rows in self._rows:
            for width in self._widths:
                self._read([[0] * width] * rows)

    def read(self, texts: Sequence[list[int]], state: Any) -> Tensor:
        """The logits_BV after each text. Their keys and values go to `state`, a row each."""
        logits_RV, prompts = self._read(texts)
        longest = max(len(text) for text in texts)
        targets, sources = [], []
        for layer, own in zip(state.layers, prompts.layers, strict=True):
            assert isinstance(layer, FixedKeyValue)
            targets += [tensor[:, :, :longest] for tensor in layer.tensors()]
            sources += [tensor[: len(texts), :, :longest] for tensor in own.tensors()]
        copy_all(targets, sources)
        return logits_RV[: len(texts)]

    def _read(self, texts: Sequence[list[int]]) -> tuple[Tensor, Any]:
        rows, width = padded_width(len(texts)), max(_SHORTEST, padded_width(max(len(text) for text in texts)))
        whole = [[*text, *[0] * (width - len(text))] for text in texts] + [[0] * width] * (rows - len(texts))
        counts = [len(text) for text in texts] + [1] * (rows - len(texts))
        token_RW, count_R = (torch.tensor(given, device=self._device) for given in (whole, counts))
        logits_R1V, state = self._steps.read_padded(token_RW, count_R, self._capacity)
        return logits_R1V[:, 0], state
