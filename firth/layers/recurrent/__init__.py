"""Recurrent layers, one file per cell. Each cell is written twice: as equations to read (`step`), and as a fast path; tests hold
the two equal. To add a cell, write its file and add it to CELLS; CONTRIBUTING.md lists what else firth's own cells have.

Letters: B batch, T time, i input width, d width, L layers × directions, D directions.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch.nn.functional as F
from torch import Tensor, cat, nn

from firth.errors import ConfigError
from firth.ideas import Ideas
from firth.layers.recurrent.cell import Cell, Reset, State, Trace, Weights
from firth.layers.recurrent.dropout import dropout, dropout_words
from firth.layers.recurrent.gru import GRU
from firth.layers.recurrent.lstm import LSTM
from firth.layers.recurrent.mingru import MinGRU
from firth.layers.recurrent.minlstm import MinLSTM
from firth.layers.recurrent.rnn import RNN
from firth.layers.state import RecurrentState, zeros

__all__ = [
    "CELLS", "Cell", "CellKind", "Recurrent", "RecurrentKernel", "Reset", "ScanCell", "State", "Trace", "Weights", "dropout",
    "dropout_words",
]  # fmt: skip

CELLS: Ideas[type[Cell]] = Ideas("recurrent cell", Cell, (RNN, LSTM, GRU, MinGRU, MinLSTM))
CellKind = Annotated[str, CELLS]

RecurrentKernel = Literal["auto", "fused", "cells"]


class Recurrent(nn.Module):
    """`depth` recurrent layers, each on the outputs of the one below; if `bidirectional`, each has two directions, side by side.

    In training, `dropout` acts between layers (`dropout_locked`: one mask for all positions), `dropout_weight` on every U."""

    def __init__(
        self,
        kind: CellKind,
        inputs: int,
        width: int,
        depth: int = 1,
        *,
        dropout: float = 0.0,
        dropout_weight: float = 0.0,
        dropout_locked: bool = False,
        bidirectional: bool = False,
        reset: Reset = "after",
    ) -> None:
        super().__init__()
        self.kind, self.width, self.reset = kind, width, reset
        self.dropout, self.dropout_weight, self.dropout_locked = dropout, dropout_weight, dropout_locked
        self.directions = 2 if bidirectional else 1
        self.cell = CELLS[kind]
        self.layers = nn.ModuleList(
            self.cell(inputs if n == 0 else width * self.directions, width, bidirectional=bidirectional, reset=reset)
            for n in range(depth)
        )

    def initial_state(self, batch: int) -> RecurrentState:
        like = next(self.parameters())
        return RecurrentState(*(zeros(len(self.layers) * self.directions, batch, self.width, like) for _ in self.cell.state))

    def forward(
        self,
        x_BTi: Tensor,
        state: RecurrentState | None = None,
        *,
        length_B: Tensor | None = None,
        kernel: RecurrentKernel = "auto",
    ) -> tuple[Tensor, RecurrentState]:
        """All hidden states of the top layer (zero past the end of a row) and the last state of every layer."""
        if state is None:
            state = self.initial_state(x_BTi.shape[0])
        if length_B is not None:
            _check_lengths(length_B, *x_BTi.shape[:2])
        last: list[State] = []
        for n in range(len(self.layers)):
            x_BTi, state_DBd = self.run_layer(n, x_BTi, state, length_B, kernel)
            last.append(state_DBd)
        return x_BTi, RecurrentState(*(cat(part) for part in zip(*last, strict=True)))

    def run_layer(
        self, n: int, x_BTi: Tensor, state: RecurrentState, length_B: Tensor | None = None, kernel: RecurrentKernel = "auto"
    ) -> tuple[Tensor, State]:
        """Layer n on the outputs of the layer below: h at every position, and the last state."""
        if n and self.training:
            x_BTi = dropout(x_BTi, self.dropout, self.dropout_locked)
        cell = self.layers[n]
        assert isinstance(cell, Cell)
        state_DBd = tuple(part_LBd[n * self.directions : (n + 1) * self.directions] for part_LBd in state.parts)
        run = cell.fused if _chosen(cell, kernel) == "fused" else cell.stepwise
        return run(x_BTi, state_DBd, length_B, self._dropped(cell))

    def _dropped(self, cell: Cell) -> list[Weights] | None:
        """DropConnect: x_t meets W and h_{t−1} meets m⊙U / (1 − p), with one m ~ Bernoulli(1 − p) for the whole window
        (Merity et al. 2018, §2). One per direction; None if nothing is dropped."""
        if not (self.training and self.dropout_weight):
            return None
        weights = (cell.weights(backward=direction == 1) for direction in range(self.directions))
        return [w._replace(hidden_gd=F.dropout(w.hidden_gd, self.dropout_weight)) for w in weights]


def _chosen(cell: Cell, kernel: RecurrentKernel) -> Literal["fused", "cells"]:
    reason = cell.why_not_fused()
    if kernel == "fused" and reason:
        raise ConfigError(f'kernel "fused" cannot run this layer: {reason}; use kernel="cells"')
    return "cells" if kernel == "cells" or reason else "fused"


def _check_lengths(length_B: Tensor, batch: int, time: int) -> None:
    given = length_B.tolist()
    if len(given) != batch or not all(1 <= length <= time for length in given):
        raise ConfigError(f"lengths are {given}; expected {batch} whole numbers in 1 … {time}, one for each row of the input")
