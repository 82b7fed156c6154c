"""The loop that writes texts: logits, a token for each row, the next logits.

`generate`, the searches and the lab run it to the end; the engine (engine.py), whose texts come and go, makes a new one whenever
they change. Letters: R rows, T time, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import DecodedRow, PendingChoice, Pick, Sampler
from firth.decoding.sampling.draw import Draws
from firth.decoding.sampling.rows import Spelled, TextSoFar

AnyRow = TypeVar("AnyRow", bound=DecodedRow)


class StepwiseModel(Protocol):
    """The parts of a model that decoding needs."""

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]: ...


@dataclass(eq=False)
class TextRow:
    """One text of a loop; see choice.Row."""

    text: TextSoFar
    draws: Draws
    drawn: int = 0
    top: int = 0

    @classmethod
    def of(
        cls, config: DecodingConfig, number: int, past: Sequence[int] = (), spelled: Spelled | None = None, drawn: int = 0
    ) -> TextRow:
        """`number`: index of this text among those of the same seed; `drawn`: number of its tokens that are in `past` already."""
        return cls(TextSoFar(config, past, spelled), Draws(config.seed, number), drawn)


class Loop(Generic[AnyRow]):
    """Texts that are generated together, each with its own settings."""

    def __init__(
        self, model: StepwiseModel, state: Any, prompt_RT: Tensor, rows: Sequence[AnyRow], pick: Pick | None = None
    ) -> None:
        self.model, self.state, self.rows, self.steps, self._chosen_from = model, state, list(rows), 0, 0
        self._token_RT, self._device, self._pick = prompt_RT, prompt_RT.device, pick
        self._choice = Sampler(self.rows, self._device, pick)

    @property
    def reads_text(self) -> bool:
        """True if a choice depends on the texts so far."""
        return self._choice.reads_text

    def logits(self) -> Tensor:
        """logits_RV of the next token."""
        logits_RTV, self.state = self.model.step(self._token_RT, self.state)
        return logits_RTV[:, -1]

    def write(self) -> Tensor:
        """The next token_R, on the device. Texts are only stored if a filter reads them."""
        token_R, share_R = self._choice.tokens(self.logits())
        if self._choice.reads_text:
            self._choice.add(token_R, share_R)
        self._follow(token_R)
        return token_R

    def choose(self, logits_RV: Tensor, changed_RV: Tensor | None = None) -> PendingChoice:
        """Like RowChoice.begin; the caller that reads the choice appends the tokens to the texts."""
        choosing = self._choice.begin(logits_RV, changed_RV)
        self._follow(choosing.token_n)
        return choosing

    def keep(self, index: Sequence[int]) -> None:
        """Continue with these rows only, which are Writers."""
        rows_A = torch.tensor(index, device=self._device)
        self.rows, self.state = [self.rows[row] for row in index], self.state.select(rows_A)
        for row in self.rows:
            row.drawn += self.steps - self._chosen_from  # type: ignore[misc]
        self._token_RT = self._token_RT[rows_A]
        self._choice, self._chosen_from = Sampler(self.rows, self._device, self._pick), self.steps

    def _follow(self, token_R: Tensor) -> None:
        self._token_RT, self.steps = token_R.unsqueeze(1), self.steps + 1
