"""Choose the next token of every row of a batch, each with its own settings, without leaving the device.

Letters: n rows, A rows that are sampled, P rows with a repetition penalty, V vocabulary, k alternatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from firth.decoding.sample import DecodingConfig, at_quantile
from firth.layers.argmax import argmax


class Chooser(Protocol):
    """A row: its settings, its generator, and the tokens that have occurred in its text (only with a repetition penalty)."""

    @property
    def config(self) -> DecodingConfig: ...
    @property
    def generator(self) -> np.random.Generator: ...
    @property
    def seen_V(self) -> Tensor | None: ...
    @property
    def top(self) -> int: ...


@dataclass(frozen=True)
class Chosen:
    """The token of each row, its log-probability under the model, and the most probable alternatives."""

    ids: list[int]
    log_probabilities: list[float]
    top: list[tuple[tuple[int, float], ...]]


class Choosing:
    """A choice that a GPU may still be making: the tokens, for the next step there, and all else once it is read."""

    def __init__(self, choice: RowChoice, token_n: Tensor, found_nk: Tensor) -> None:
        self.token_n, self._choice, self._found_nk, self._made = token_n, choice, found_nk, None
        if found_nk.is_cuda:
            self._found_nk = torch.empty_like(found_nk, device="cpu", pin_memory=True).copy_(found_nk, non_blocking=True)
            self._made = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._made.record()

    def read(self) -> Chosen:
        """Wait for the choice, but not for what the GPU was asked to do after it."""
        if self._made is not None:
            self._made.synchronize()
        columns = list(zip(*self._found_nk.tolist(), strict=True))
        return Chosen([int(id) for id in columns[0]], list(columns[1]), self._choice.alternatives(columns[2:]))


class RowChoice:
    """The settings of a batch's rows as tensors; to be made again when the rows change."""

    def __init__(self, rows: Sequence[Chooser], device: torch.device) -> None:
        self.rows, self.device = rows, device
        self.most = max(row.top for row in rows)
        self.sampled = [row for row in rows if row.config.temperature > 0]
        self.penalised = [row for row in rows if row.seen_V is not None]
        self.sampled_A = self._indices([n for n, row in enumerate(rows) if row.config.temperature > 0])
        self.penalised_P = self._indices([n for n, row in enumerate(rows) if row.seen_V is not None])
        self.theta_P1 = self._column([row.config.repetition_penalty for row in self.penalised])
        configs = [row.config for row in self.sampled]
        self.temperature_A1 = self._column([config.temperature for config in configs])
        self.min_p_A1 = self._column([config.min_p for config in configs])
        narrow = [n for n, config in enumerate(configs) if config.top_k or config.top_p < 1]
        self.narrow_N = self._indices(narrow)
        self.top_k_N1 = self._column([configs[n].top_k or torch.inf for n in narrow])
        self.top_p_N1 = self._column([configs[n].top_p if configs[n].top_p < 1 else torch.inf for n in narrow])
        self.has_min_p = any(config.min_p for config in configs)

    def choose(self, logits_nV: Tensor) -> Chosen:
        return self.begin(logits_nV).read()

    def begin(self, logits_nV: Tensor) -> Choosing:
        """The tokens as `generate` would choose them for each row alone."""
        own_nV, logits_nV = logits_nV, logits_nV.to(torch.promote_types(logits_nV.dtype, torch.float32))
        own_nV = self._penalised(own_nV)
        token_n = argmax(own_nV)
        if self.sampled:
            token_n = token_n.index_copy(0, self.sampled_A, self._draw(own_nV))
        total_n1 = logits_nV.logsumexp(-1, keepdim=True)
        parts = [token_n.unsqueeze(1), logits_nV.gather(1, token_n.unsqueeze(1)) - total_n1]
        if self.most:
            best_nk, id_nk = logits_nV.topk(min(self.most, logits_nV.shape[1]), dim=-1)
            parts += [id_nk, best_nk - total_n1]
        # One transfer for all that was found: float64 holds every id exactly.
        return Choosing(self, token_n, torch.cat([part.double() for part in parts], dim=1))

    def alternatives(self, columns: Sequence[Sequence[float]]) -> list[tuple[tuple[int, float], ...]]:
        """`columns`: the ids, best first, then their log-probabilities."""
        if not columns:
            return [()] * len(self.rows)
        ids, values = columns[: len(columns) // 2], columns[len(columns) // 2 :]
        return [
            tuple((int(id[n]), value[n]) for id, value in zip(ids[: row.top], values[: row.top], strict=True))
            for n, row in enumerate(self.rows)
        ]

    def _penalised(self, logits_nV: Tensor) -> Tensor:
        """x / θ, or x·θ where x < 0, for the tokens that have occurred (see sample.penalise)."""
        if not self.penalised:
            return logits_nV
        seen_PV = torch.stack([row.seen_V for row in self.penalised if row.seen_V is not None])
        x_PV, theta_P1 = logits_nV[self.penalised_P], self.theta_P1.to(logits_nV.dtype)
        x_PV = torch.where(seen_PV, torch.where(x_PV < 0, x_PV * theta_P1, x_PV / theta_P1), x_PV)
        return logits_nV.index_copy(0, self.penalised_P, x_PV)

    def _draw(self, logits_nV: Tensor) -> Tensor:
        """token_A from softmax(logits / temperature) within top_k, top_p and min_p; see sample.pick."""
        x_AV = logits_nV[self.sampled_A].float() / self.temperature_A1
        p_AV = torch.softmax(self._at_least(self._restricted(x_AV)), -1)
        drawn = [row.generator.random() for row in self.sampled]
        return at_quantile(p_AV, torch.tensor(drawn, dtype=torch.float64, device=self.device))

    def _restricted(self, x_AV: Tensor) -> Tensor:
        """−∞ outside the top k and outside the nucleus of each row; as sample.restrict."""
        if not len(self.narrow_N):
            return x_AV
        x_NV = x_AV[self.narrow_N]
        sorted_NV, order_NV = torch.sort(x_NV, dim=-1, descending=True, stable=True)
        out_NV = torch.arange(x_NV.shape[-1], device=self.device) >= self.top_k_N1
        p_NV = torch.softmax(sorted_NV.masked_fill(out_NV, -torch.inf), -1)
        out_NV |= p_NV.cumsum(-1) - p_NV >= self.top_p_N1
        x_NV = x_NV.masked_fill(torch.zeros_like(out_NV).scatter(-1, order_NV, out_NV), -torch.inf)
        return x_AV.index_copy(0, self.narrow_N, x_NV)

    def _at_least(self, x_AV: Tensor) -> Tensor:
        """−∞ below min_p times the highest probability; as sample.at_least."""
        if not self.has_min_p:
            return x_AV
        p_AV = torch.softmax(x_AV, -1)
        return x_AV.masked_fill(p_AV < self.min_p_A1 * p_AV.amax(-1, keepdim=True), -torch.inf)

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device).unsqueeze(1)

    def _indices(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64, device=self.device)
