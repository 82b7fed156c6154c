"""Attention of a recurrent decoder to a memory. Before every step, with the previous state as the query (Bahdanau et al. 2015):

    α_t = softmax over s of a(h_{t−1}, m_s)        c_t = Σ_s α_ts m_s        h_t = cell([x_t; c_t], h_{t−1})

so c_t enters every gate. The keys, and W x_t for all t, do not depend on the state and are computed for all steps at once.

Or after every step, with the current state as the query (Luong et al. 2015, eq. 5 and 7):

    α_t = softmax over s of a(h_t, m_s)            c_t = Σ_s α_ts m_s        h̃_t = tanh(W_c [c_t; h_t])

Letters: B batch, T time, S length of the memory, i input width, m width of the memory, d width, A width of the comparison.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.score import SCORES, ScoreKind, kinds_for_any_widths
from firth.layers.attention.weights import weights
from firth.layers.cross_attention import Source
from firth.layers.recurrent import CELLS, CellKind, Reset, Trace
from firth.layers.self_attention import Attend
from firth.layers.state import RecurrentState


class MemoryAttention(nn.Module):
    """α_s = softmax over s of a(h, m_s), for states h. The additive score projects the query and the keys (W h and U m), the
    bilinear score the query (h M); the other scores compare h and m directly, so these must have the same width."""

    def __init__(self, memory: int, width: int, score: ScoreKind) -> None:
        super().__init__()
        projects = SCORES[score]
        compared = width if projects.projects_key else memory
        if not projects.projects_query and width != memory:
            raise ConfigError(
                f'the score "{score}" needs states and memory of the same width, and these are {width} and {memory}; '
                f"make them equal, or choose {kinds_for_any_widths()}"
            )
        self.query = nn.Linear(width, compared, bias=False) if projects.projects_query else nn.Identity()
        self.key = nn.Linear(memory, compared, bias=False) if projects.projects_key else nn.Identity()
        self.attend = Attend(AttentionConfig(heads=1, score=score), compared, reduced=False)

    def remember(self, memory_BSm: Tensor, length_B: Tensor) -> Source:
        """Compute the keys, once for all steps."""
        return Source(self.key(memory_BSm).unsqueeze(1), memory_BSm.unsqueeze(1), length_B)

    def contexts(self, h_BTd: Tensor, memory: Source) -> Tensor:
        """c_BTm = Σ_s α_s m_s. States that share a row of the memory are its queries."""
        B, T, _ = h_BTd.shape
        texts = len(memory.length_B)
        q_B1QA = self.query(h_BTd).reshape(texts, 1, B // max(1, texts) * T, -1)
        c_B1Qm: Tensor = self.attend(q_B1QA, memory.k_BGSD, memory.v_BGSD, mask.lengths(memory.length_B), None, 0)
        return c_B1Qm.reshape(B, T, -1)

    def alignment(self, h_BTd: Tensor, memory: Source) -> Tensor:
        """α_BTS of each state; every row has its own memory."""
        q_B1TA = self.query(h_BTd).unsqueeze(1)
        call: Call = self.attend.call(q_B1TA, memory.k_BGSD, memory.v_BGSD, mask.lengths(memory.length_B), None, 0)
        return weights(call)[:, 0]


class AttentionalState(MemoryAttention):
    """h̃_t = tanh(W_c [c_t; h_t]), where h_t is the query of c_t."""

    def __init__(self, memory: int, width: int, score: ScoreKind) -> None:
        super().__init__(memory, width, score)
        self.combine = nn.Linear(memory + width, width, bias=False)

    def forward(self, h_BTd: Tensor, memory: Source) -> Tensor:
        return torch.tanh(self.combine(torch.cat((self.contexts(h_BTd, memory), h_BTd), dim=-1)))


class AttentiveRecurrent(MemoryAttention):
    """One recurrent layer; c_t is computed from h_{t−1} and is an input of the cell."""

    def __init__(
        self, kind: CellKind, inputs: int, memory: int, width: int, *, score: ScoreKind = "additive", reset: Reset = "after"
    ) -> None:
        super().__init__(memory, width, score)
        self.kind, self.inputs, self.width, self.reset = kind, inputs, width, reset
        self.cell = CELLS[kind](inputs + memory, width, reset=reset)

    def forward(self, x_BTi: Tensor, memory: Source, state: RecurrentState) -> tuple[Tensor, Tensor, RecurrentState]:
        """h_BTd, c_BTm and the state after the last step."""
        w = self.cell.weights()
        W_input_gi, W_context_gm = w.input_gi.split_with_sizes((self.inputs, w.input_gi.shape[1] - self.inputs), dim=1)
        x_BTg = F.linear(x_BTi, W_input_gi, w.input_bias_g)
        now = tuple(part_LBd[0] for part_LBd in state.parts)
        hidden, contexts = [], []
        for x_Bg in x_BTg.unbind(1):
            c_Bm = self.contexts(now[0].unsqueeze(1), memory).squeeze(1)
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
