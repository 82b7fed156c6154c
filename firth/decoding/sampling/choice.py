"""Choose the next token of every row of a batch, each with its own settings, without leaving the device.

Letters: n rows, A rows that are sampled alike, V vocabulary, k alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.candidates import Candidates
from firth.decoding.sampling.draw import Draws, at_quantile
from firth.decoding.sampling.filter import Filter
from firth.decoding.sampling.rows import FilterRows, TextSoFar
from firth.layers.kernels.triton.argmax import argmax

R = TypeVar("R")
_BLOCK = 64  # tokens whose random numbers are drawn at once


class Chain:
    """The filters of rows on which the same ones act: first those of all decoding, then those of sampling."""

    def __init__(self, texts: Sequence[TextSoFar], device: torch.device) -> None:
        self.rows = FilterRows(texts, device)
        self.acting: tuple[type[Filter], ...] = texts[0].config.acting if texts else ()
        self.draws = bool(texts) and bool(texts[0].config.draws)
        self.notes = any(text.notes for text in texts)

    def penalised(self, logits_nV: Tensor) -> Tensor:
        """Logits after the filters that greedy decoding, sampling and beam search share."""
        candidates = Candidates(logits_nV)
        for one in self.acting:
            if not one.drawing:
                candidates = one.apply(candidates, self.rows)
        return candidates.logits()

    def probabilities(self, penalised_nV: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """p_nV that tokens are drawn from."""
        candidates = Candidates(penalised_nV.float())
        for one in self.acting:
            if one.drawing:
                candidates = one.apply(candidates, self.rows)
        return torch.softmax(candidates.logits(), -1, dtype=dtype)

    def choose(self, logits_nV: Tensor, u_n: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """token_n, and the probabilities with which they were drawn if a filter needs them: at temperature 0 the most probable
        tokens, otherwise those that the numbers u_n select, 0 ≤ u < 1."""
        logits_nV = self.penalised(logits_nV)
        if not self.draws:
            return argmax(logits_nV), None
        assert u_n is not None
        p_nV = self.probabilities(logits_nV)
        token_n = at_quantile(p_nV, u_n)
        return token_n, p_nV.gather(1, token_n.unsqueeze(1)).squeeze(1) if self.notes else None


def penalised(logits_BV: Tensor, config: DecodingConfig, past_BN: Tensor) -> Tensor:
    """Logits after the filters that act on all decoding, for rows with these past tokens."""
    if not config.reads_text:
        return logits_BV
    return Chain([TextSoFar(config, past) for past in past_BN.tolist()], logits_BV.device).penalised(logits_BV)


def pick(logits_BV: Tensor, config: DecodingConfig, u_B: Tensor) -> Tensor:
    """token_B of rows with the same settings, whose logits are penalised already: the most probable token at temperature 0,
    otherwise the one that u_B selects, 0 ≤ u < 1."""
    if not config.draws:
        return argmax(logits_BV)
    return at_quantile(probabilities(logits_BV, config), u_B)


def probabilities(logits_BV: Tensor, config: DecodingConfig, dtype: torch.dtype | None = None) -> Tensor:
    """p_BV that tokens of rows with the same settings are drawn from; all mass on one token at temperature 0."""
    if not config.draws:
        return torch.nn.functional.one_hot(logits_BV.argmax(-1), logits_BV.shape[-1]).to(dtype or torch.float32)
    return Chain([TextSoFar(config)], logits_BV.device).probabilities(logits_BV, dtype)


class DecodedRow(Protocol):
    """A text that is being generated, its random numbers, the number of tokens drawn so far, and the number of alternatives to
    report."""

    @property
    def text(self) -> TextSoFar: ...
    @property
    def draws(self) -> Draws: ...
    @property
    def drawn(self) -> int: ...
    @property
    def top(self) -> int: ...


Pick = Callable[[Tensor, DecodingConfig, Tensor], Tensor]


@dataclass(frozen=True)
class Chosen:
    """The token of each row, its log-probability under the model, the probability with which it was drawn if a filter needs it
    (otherwise 1), and the most probable alternatives."""

    ids: list[int]
    log_probabilities: list[float]
    shares: list[float]
    top: list[tuple[tuple[int, float], ...]]

    def of(self, rows: Sequence[R]) -> Iterator[tuple[R, int, float, float, tuple[tuple[int, float], ...]]]:
        """Each row with its choice."""
        return zip(rows, self.ids, self.log_probabilities, self.shares, self.top, strict=True)


class PendingChoice:
    """A choice that a GPU may still be computing: the tokens, for the next step on the device, and everything else once it is
    read."""

    def __init__(self, choice: Sampler, token_n: Tensor, found_nk: Tensor) -> None:
        self.token_n, self._choice, self._found_nk, self._made = token_n, choice, found_nk, None
        if found_nk.is_cuda:
            self._found_nk = torch.empty_like(found_nk, device="cpu", pin_memory=True).copy_(found_nk, non_blocking=True)
            self._made = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._made.record()

    def read(self) -> Chosen:
        """Wait for the choice, but not for later work of the GPU."""
        if self._made is not None:
            self._made.synchronize()
        columns = list(zip(*self._found_nk.tolist(), strict=True))
        ids, shares, used = [int(id) for id in columns[0]], [1.0] * len(columns[0]), 2
        if self._choice.notes:
            shares, used = list(columns[2]), 3
        return Chosen(ids, list(columns[1]), shares, self._choice.alternatives(columns[used:]))


class _Group:
    """Rows with the same filters; index_A has their numbers, unless it is all rows."""

    def __init__(self, rows: Sequence[DecodedRow], index_A: Tensor | None, device: torch.device, pick: Pick | None) -> None:
        self.chain, self.index_A = Chain([row.text for row in rows], device), index_A
        self._rows, self._device = rows, device if device.type == "cuda" else torch.device("cpu")
        self._first, self._step = [row.drawn for row in rows], 0
        self._u_KA: Tensor | None = None
        config = rows[0].text.config
        alike = pick is not None and not config.reads_text and all(row.text.config is config for row in rows)
        self._pick = pick if alike else None

    def choose(self, logits_AV: Tensor) -> tuple[Tensor, Tensor | None]:
        u_A = self._numbers() if self.chain.draws else None
        if self._pick is None or u_A is None:
            return self.chain.choose(logits_AV, u_A)
        return self._pick(logits_AV, self._rows[0].text.config, u_A), None

    def _numbers(self) -> Tensor:
        """u_A of the next step. They are drawn and copied to a GPU in blocks, because a copy waits for all pending work."""
        at, self._step = self._step % _BLOCK, self._step + 1
        if at == 0 or self._u_KA is None:
            first = self._step - 1
            drawn = [row.draws.of(begin + first, _BLOCK) for row, begin in zip(self._rows, self._first, strict=True)]
            u_KA = torch.from_numpy(np.stack(drawn, axis=1))
            self._u_KA = u_KA.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else u_KA
        return self._u_KA[at]


class Sampler:
    """The settings of a batch's rows as tensors; made again when the rows change. `pick`: choice.pick for rows with the same
    settings, if a GPU has recorded it."""

    def __init__(self, rows: Sequence[DecodedRow], device: torch.device, pick: Pick | None = None) -> None:
        self.rows, self.device = rows, device
        self.most = max((row.top for row in rows), default=0)
        self.reads_text = any(row.text.config.reads_text for row in rows)
        alike: dict[object, list[int]] = {}
        for n, row in enumerate(rows):
            alike.setdefault((row.text.config.acting, row.text.config.draws), []).append(n)
        self._groups = [self._group(index, pick) for index in alike.values()]
        self.notes = any(group.chain.notes for group in self._groups)

    def _group(self, index: list[int], pick: Pick | None) -> _Group:
        index_A = None if len(index) == len(self.rows) else torch.tensor(index, device=self.device)
        return _Group([self.rows[n] for n in index], index_A, self.device, pick)

    def choose(self, logits_nV: Tensor) -> Chosen:
        return self.begin(logits_nV).read()

    def begin(self, logits_nV: Tensor, changed_nV: Tensor | None = None) -> PendingChoice:
        """Tokens as each row alone would choose them, with their log-probabilities under `logits_nV`. `changed_nV`: choose by
        these logits instead."""
        token_n, share_n = self.tokens(logits_nV if changed_nV is None else changed_nV)
        logits_nV = logits_nV.to(torch.promote_types(logits_nV.dtype, torch.float32))
        total_n1 = logits_nV.logsumexp(-1, keepdim=True)
        parts = [token_n.unsqueeze(1), logits_nV.gather(1, token_n.unsqueeze(1)) - total_n1]
        if self.notes:
            parts.append(torch.ones_like(parts[1]) if share_n is None else share_n.unsqueeze(1))
        if self.most:
            best_nk, id_nk = logits_nV.topk(min(self.most, logits_nV.shape[1]), dim=-1)
            parts += [id_nk, best_nk - total_n1]
        # One transfer for all that was found: float64 holds every id exactly.
        return PendingChoice(self, token_n, torch.cat([part.double() for part in parts], dim=1))

    def alternatives(self, columns: Sequence[Sequence[float]]) -> list[tuple[tuple[int, float], ...]]:
        """`columns`: the ids, best first, then their log-probabilities."""
        if not columns:
            return [()] * len(self.rows)
        ids, values = columns[: len(columns) // 2], columns[len(columns) // 2 :]
        return [
            tuple((int(id[n]), value[n]) for id, value in zip(ids[: row.top], values[: row.top], strict=True))
            for n, row in enumerate(self.rows)
        ]

    def tokens(self, logits_nV: Tensor) -> tuple[Tensor, Tensor | None]:
        """The tokens, on the device, and the probabilities with which they were drawn if a filter needs them."""
        if len(self._groups) == 1:
            return self._groups[0].choose(logits_nV)
        token_n = torch.zeros(len(logits_nV), dtype=torch.int64, device=logits_nV.device)
        share_n = torch.ones(len(logits_nV), device=logits_nV.device) if self.notes else None
        for group in self._groups:
            assert group.index_A is not None
            token_A, share_A = group.choose(logits_nV[group.index_A])
            token_n.index_copy_(0, group.index_A, token_A)
            if share_n is not None and share_A is not None:
                share_n.index_copy_(0, group.index_A, share_A)
        return token_n, share_n

    def add(self, token_n: Tensor, share_n: Tensor | None) -> None:
        """Append the tokens to the texts."""
        shares = [1.0] * len(self.rows) if share_n is None else share_n.tolist()
        for row, token, share in zip(self.rows, token_n.tolist(), shares, strict=True):
            row.text.add(token, share)
