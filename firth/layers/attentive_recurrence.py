"""A recurrent level that looks at a memory before every step (Bahdanau et al. 2015):

    α_t = softmax over s of a(h_{t−1}, m_s)        c_t = Σ_s α_ts m_s        h_t = cell([x_t; c_t], h_{t−1})

so that c_t is in every gate. What does not depend on the step is done for all steps at once: the keys, and W x_t for all t.
Letters: B batch, T time, S length of the memory, i input width, m width of the memory, d width, A width of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attention.score import ScoreKind
from firth.layers.attention.weights import weights
from firth.layers.recurrent import CellKind, LSTMStep, Reset, step, weights_of
from firth.layers.self_attention import Attend
from firth.layers.state import RecurrentState


@dataclass(frozen=True, eq=False)
class Memory:
    """What is looked at: keys and values of every position, of which row b has length_B[b]. One row may serve several states,
    if those stand next to each other: the hypotheses of a beam."""

    key_B1SA: Tensor
    value_B1Sm: Tensor
    length_B: Tensor

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.key_B1SA[rows], self.value_B1Sm[rows], self.length_B[rows])


class AttentiveRecurrent(nn.Module):
    """One level. The query is projected for the additive score (W h, to meet U m) and for the bilinear one (h M); the other
    scores compare h and m as they are, so those must be equally wide."""

    def __init__(
        self, kind: CellKind, inputs: int, memory: int, width: int, *, score: ScoreKind = "additive", reset: Reset = "after"
    ) -> None:
        super().__init__()
        self.kind, self.inputs, self.width, self.reset = kind, inputs, width, reset
        holder = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.cell = holder(inputs + memory, width, batch_first=True)  # holds the weights; the steps are taken here
        compared = width if score == "additive" else memory
        if score not in ("additive", "bilinear") and width != memory:
            raise ConfigError(
                f'the score "{score}" compares a state of width {width} with a memory of width {memory}, number by number; '
                'make them equally wide, or choose "additive" or "bilinear"'
            )
        self.query = nn.Linear(width, compared, bias=False) if score in ("additive", "bilinear") else nn.Identity()
        self.key = nn.Linear(memory, compared, bias=False) if score == "additive" else nn.Identity()
        self.attend = Attend(1, compared, score)

    def remember(self, memory_BSm: Tensor, length_B: Tensor) -> Memory:
        """The keys are made once for all steps."""
        return Memory(self.key(memory_BSm).unsqueeze(1), memory_BSm.unsqueeze(1), length_B)

    def forward(self, x_BTi: Tensor, memory: Memory, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """h_BTd, c_BTm and the state after the last step."""
        w = weights_of(self.cell)
        W_input_gi, W_context_gm = w.input_gi.split_with_sizes((self.inputs, w.input_gi.shape[1] - self.inputs), dim=1)
        x_BTg = F.linear(x_BTi, W_input_gi, w.input_bias_g)
        allowed = mask.lengths(memory.length_B)
        h_Bd, cell_Bd = state.h_LBd[0], None if state.c_LBd is None else state.c_LBd[0]
        texts = len(memory.length_B)
        hidden, contexts = [], []
        for x_Bg in x_BTg.unbind(1):
            q_B1QA = self.query(h_Bd).view(texts, 1, len(h_Bd) // max(1, texts), -1)  # states that share a memory are its queries
            c_Bm = self.attend(q_B1QA, memory.key_B1SA, memory.value_B1Sm, allowed, None, 0).flatten(0, 2)
            taken = step(self.kind, x_Bg + F.linear(c_Bm, W_context_gm), h_Bd, cell_Bd, w, self.reset)
            h_Bd, cell_Bd = taken.h_Bd, taken.c_Bd if isinstance(taken, LSTMStep) else None
            hidden.append(h_Bd)
            contexts.append(c_Bm)
        after = RecurrentState(h_Bd.unsqueeze(0), None if cell_Bd is None else cell_Bd.unsqueeze(0))
        return torch.stack(hidden, 1), torch.stack(contexts, 1), after

    def alignment(self, h_before_BTd: Tensor, memory: Memory) -> Tensor:
        """α_BTS, from the states before each step."""
        q_B1TA = self.query(h_before_BTd).unsqueeze(1)
        call: Call = self.attend.call(q_B1TA, memory.key_B1SA, memory.value_B1Sm, mask.lengths(memory.length_B), None, 0)
        return weights(call)[:, 0]
