"""A recurrent layer that attends to a memory before every step (Bahdanau et al. 2015):

    α_t = softmax over s of a(h_{t−1}, m_s)        c_t = Σ_s α_ts m_s        h_t = cell([x_t; c_t], h_{t−1})

so c_t enters every gate. The keys, and W x_t for all t, do not depend on the state and are computed for all steps at once.
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
from firth.layers.recurrent import CellKind, Reset, Trace, cell_class
from firth.layers.self_attention import Attend
from firth.layers.state import RecurrentState


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys and values of every position; row b has length_B[b] of them. Consecutive states may share one row, as the
    hypotheses of a beam do."""

    key_B1SA: Tensor
    value_B1Sm: Tensor
    length_B: Tensor

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.key_B1SA[rows], self.value_B1Sm[rows], self.length_B[rows])


class AttentiveRecurrent(nn.Module):
    """One layer. The additive score projects the query and the keys (W h and U m), the bilinear score the query (h M); the other
    scores compare h and m directly, so these must have the same width."""

    def __init__(
        self, kind: CellKind, inputs: int, memory: int, width: int, *, score: ScoreKind = "additive", reset: Reset = "after"
    ) -> None:
        super().__init__()
        self.kind, self.inputs, self.width, self.reset = kind, inputs, width, reset
        self.cell = cell_class(kind)(inputs + memory, width, reset=reset)
        compared = width if score == "additive" else memory
        if score not in ("additive", "bilinear") and width != memory:
            raise ConfigError(
                f'the score "{score}" needs states and memory of the same width, and these are {width} and {memory}; '
                'make them equal, or choose "additive" or "bilinear"'
            )
        self.query = nn.Linear(width, compared, bias=False) if score in ("additive", "bilinear") else nn.Identity()
        self.key = nn.Linear(memory, compared, bias=False) if score == "additive" else nn.Identity()
        self.attend = Attend(1, compared, score)

    def remember(self, memory_BSm: Tensor, length_B: Tensor) -> Memory:
        """Compute the keys, once for all steps."""
        return Memory(self.key(memory_BSm).unsqueeze(1), memory_BSm.unsqueeze(1), length_B)

    def forward(self, x_BTi: Tensor, memory: Memory, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """h_BTd, c_BTm and the state after the last step."""
        w = self.cell.weights()
        W_input_gi, W_context_gm = w.input_gi.split_with_sizes((self.inputs, w.input_gi.shape[1] - self.inputs), dim=1)
        x_BTg = F.linear(x_BTi, W_input_gi, w.input_bias_g)
        allowed = mask.lengths(memory.length_B)
        now = tuple(part_LBd[0] for part_LBd in state.parts)
        texts = len(memory.length_B)
        hidden, contexts = [], []
        for x_Bg in x_BTg.unbind(1):
            h_Bd = now[0]
            q_B1QA = self.query(h_Bd).view(texts, 1, len(h_Bd) // max(1, texts), -1)  # states that share a memory are its queries
            c_Bm = self.attend(q_B1QA, memory.key_B1SA, memory.value_B1Sm, allowed, None, 0).flatten(0, 2)
            step = self.cell.step(x_Bg + F.linear(c_Bm, W_context_gm), now, w)
            now = tuple(step[name] for name in self.cell.state)
            hidden.append(now[0])
            contexts.append(c_Bm)
        after = RecurrentState(*(part_Bd.unsqueeze(0) for part_Bd in now))
        return torch.stack(hidden, 1), torch.stack(contexts, 1), after

    def gates(self, x_BTi: Tensor, context_BTm: Tensor, state: RecurrentState) -> Trace:
        """{name: B,T,d} of the state and every gate, recomputed. The cell's input is [x_t; c_t]."""
        first = tuple(part_LBd[0] for part_LBd in state.parts)
        return self.cell.unroll(torch.cat((x_BTi, context_BTm), dim=-1), first)[0]

    def alignment(self, h_before_BTd: Tensor, memory: Memory) -> Tensor:
        """α_BTS, from the states before each step."""
        q_B1TA = self.query(h_before_BTd).unsqueeze(1)
        call: Call = self.attend.call(q_B1TA, memory.key_B1SA, memory.value_B1Sm, mask.lengths(memory.length_B), None, 0)
        return weights(call)[:, 0]
