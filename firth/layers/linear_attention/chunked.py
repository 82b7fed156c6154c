"""The chunked form: parallel within chunks of C tokens, recurrent between them, so that time and memory grow linearly in T.

    o_t = φ(q_t)ᵀ e^{b_t} S_c + Σ_{s ≤ t in the chunk} a_ts v_s      b_t: sum of ln g from the start of the chunk to t
    S_{c+1} = e^{b_C} S_c + Σ_s e^{b_C − b_s} φ(k_s) v_sᵀ            b_C: the sum over the whole chunk

The states S_c of all chunks come from one scan. Within a chunk, a_ts = φ(q_t)e^{b_t − r} · φ(k_s)e^{r − b_s} with r the b of the
token in the middle: no exponent exceeds C/2 · |LEAST_LOG_GATE| = 80, and e⁸⁰ still fits float32 and bfloat16.

Letters as in call.py; N chunks, C tokens in each.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.linear_attention.call import LinearCall, LinearState
from firth.layers.recurrent.scan_cell import linear_scan

CHUNK = 64
CHUNK_OF_TAYLOR = 256  # its states are large, and its coefficients within a chunk cheap


def run(call: LinearCall) -> tuple[Tensor, LinearState]:
    with torch.autocast(call.v_BHTE.device.type, enabled=False):
        return _run(call)


def _run(call: LinearCall) -> tuple[Tensor, LinearState]:
    T, E = call.v_BHTE.shape[2:]
    C = min(T, CHUNK if call.features.pointwise else CHUNK_OF_TAYLOR)
    # torch's products of bfloat16 on a GPU are slow if the rows of a matrix do not begin at multiples of 16 bytes.
    v_BHNCE = _in_chunks(call.values(7 if call.v_BHTE.is_cuda else 0), C)
    chunks = _Chunks(call, _in_chunks(call.q_BHTD, C), _in_chunks(call.k_BHTD, C))
    o_BHNCE = chunks.coefficients() @ v_BHNCE
    if call.state is None and C == T:  # a single chunk that neither has a past nor needs a state
        return call.finished(o_BHNCE.flatten(2, 3)), LinearState()
    past_BHFE = F.pad(call.past(), (0, v_BHNCE.shape[-1] - E - call.normalized))
    after_BHNFE = chunks.states(v_BHNCE, past_BHFE)
    before_BHNFE = torch.cat((past_BHFE.unsqueeze(2), after_BHNFE[:, :, :-1]), dim=2).to(v_BHNCE.dtype)
    o_BHNCE = o_BHNCE + chunks.from_start() @ before_BHNFE
    last_BHFE = after_BHNFE[:, :, -1, :, : E + call.normalized]
    return call.finished(o_BHNCE.flatten(2, 3)[:, :, :T]), call.after(last_BHFE)


class _Chunks:
    """q, k and the gates in chunks."""

    def __init__(self, call: LinearCall, q_BHNCD: Tensor, k_BHNCD: Tensor) -> None:
        self.call, self.q_BHNCD, self.k_BHNCD, self.C = call, q_BHNCD, k_BHNCD, q_BHNCD.shape[3]
        gate = call.log_gate_BHTF
        self.b_BHNCF = None if gate is None else _in_chunks(gate, self.C).to(call.wide).cumsum(3)

    def coefficients(self) -> Tensor:
        """a_BHNCC within each chunk."""
        features, b_BHNCF = self.call.features, self.b_BHNCF
        if b_BHNCF is None:
            a_BHNCC = features.between(self.q_BHNCD, self.k_BHNCD)
        else:
            from_middle_BHNCF = b_BHNCF - b_BHNCF[..., self.C // 2 : self.C // 2 + 1, :]
            q_BHNCF = self._cast(features.map(self.q_BHNCD) * from_middle_BHNCF.exp())
            a_BHNCC = q_BHNCF @ self._cast(features.map(self.k_BHNCD) * (-from_middle_BHNCF).exp()).mT
        later_CC = torch.ones(self.C, self.C, dtype=torch.bool, device=a_BHNCC.device).triu(1)
        return a_BHNCC.masked_fill(later_CC, 0.0)  # may be infinite there, so it is replaced and not multiplied by 0

    def from_start(self) -> Tensor:
        """φ(q_t) e^{b_t}."""
        q_BHNCF = self.call.features.map(self.q_BHNCD)
        return q_BHNCF if self.b_BHNCF is None else self._cast(q_BHNCF * self.b_BHNCF.exp())

    def states(self, v_BHNCE: Tensor, past_BHFE: Tensor) -> Tensor:
        """S after each chunk."""
        k_BHNCF, wide = self.call.features.map(self.k_BHNCD), self.call.wide
        if self.b_BHNCF is not None:
            end_BHN1F = self.b_BHNCF[..., -1:, :]
            k_BHNCF = self._cast(k_BHNCF * (end_BHN1F - self.b_BHNCF).exp())
            return _scan(end_BHN1F.squeeze(3).exp(), (k_BHNCF.mT @ v_BHNCE).to(wide), past_BHFE)
        # The padding of v is zero, its column of ones included: it adds nothing to S or z.
        return (k_BHNCF.mT @ v_BHNCE).to(wide).cumsum(2) + past_BHFE.unsqueeze(2)

    def _cast(self, x_BHNCF: Tensor) -> Tensor:
        return x_BHNCF.to(self.call.v_BHTE.dtype)


def _in_chunks(x_BHTw: Tensor, C: int) -> Tensor:
    """B,H,T,w → B,H,N,C,w, padded with zeros."""
    missing = -x_BHTw.shape[2] % C
    if missing:
        x_BHTw = F.pad(x_BHTw, (0, 0, 0, missing))
    return x_BHTw.reshape(*x_BHTw.shape[:2], -1, C, x_BHTw.shape[3])


def _scan(decay_BHNF: Tensor, added_BHNFE: Tensor, past_BHFE: Tensor) -> Tensor:
    """S_{c+1} = diag(decay_c) S_c + added_c for all chunks."""
    B, H, N, F_, E = added_BHNFE.shape
    if N == 1:
        return decay_BHNF.unsqueeze(-1) * past_BHFE.unsqueeze(2) + added_BHNFE
    if torch.compiler.is_compiling():  # a loop over chunks, which torch.compile fuses
        S_BHFE, states = past_BHFE, []
        for c in range(N):
            S_BHFE = decay_BHNF[:, :, c, :, None] * S_BHFE + added_BHNFE[:, :, c]
            states.append(S_BHFE)
        return torch.stack(states, dim=2)
    decay = decay_BHNF.unsqueeze(-1).expand_as(added_BHNFE)
    a, b, h = decay.reshape(B * H, N, -1), added_BHNFE.reshape(B * H, N, -1), past_BHFE.reshape(B * H, -1)
    return linear_scan(a, b, h).view(B, H, N, F_, E)
