"""minLSTM (Feng et al. 2024, "Were RNNs All We Needed?"): an LSTM whose gates do not depend on the state, and no second state.

    f_t = σ(W_f x_t + b_f)      i_t = σ(W_i x_t + b_i)      h̃_t = g(W_h x_t + b_h)
    f′_t = f_t / (f_t + i_t)    i′_t = i_t / (f_t + i_t)    h_t = f′_t⊙h_{t−1} + i′_t⊙h̃_t
    g(x) = x + 0.5 for x ≥ 0, σ(x) for x < 0

Where both gates are closed, the quotients would be 0 / 0. The same numbers are f′ = σ(ln f − ln i) and i′ = σ(ln i − ln f).

Letters: B batch, T time, d width, g gates × width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from firth.layers.recurrent.cell import USUAL, Quantity, State, Trace, Weights
from firth.layers.recurrent.scan_cell import ScanCell, positive


class MinLSTM(ScanCell):
    """W stacks f, i and h̃."""

    kind = "minlstm"
    label = "minLSTM"
    about = "An LSTM whose gates do not depend on the state, so that training is parallel (Feng et al. 2024)."
    latex = r"h_t = \frac{f_t}{f_t + i_t} \odot h_{t-1} + \frac{i_t}{f_t + i_t} \odot \tilde h_t"
    gates = ("forget", "input", "candidate")
    quantities: ClassVar[Mapping[str, Quantity]] = {
        "forget": Quantity("f′", "forget gate f / (f + i): how much of the state is kept"),
        "input": Quantity("i′", "input gate i / (f + i): how much of the candidate is written"),
        "candidate": USUAL["candidate"]._replace(letter="h̃"),
    }

    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        forget, input, candidate = _gates(x_Bg)
        return {"h": forget * h_Bd + input * candidate, "forget": forget, "input": input, "candidate": candidate}

    def recurrence(self, x_BTg: Tensor) -> tuple[Tensor, Tensor]:
        forget, input, candidate = _gates(x_BTg)
        return forget, input * candidate


def _gates(x_g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """f′, i′ and h̃."""
    x_f, x_i, x_h = x_g.chunk(3, dim=-1)
    log_f, log_i = F.logsigmoid(x_f), F.logsigmoid(x_i)
    return (log_f - log_i).sigmoid(), (log_i - log_f).sigmoid(), positive(x_h)
