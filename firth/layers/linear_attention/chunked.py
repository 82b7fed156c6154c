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
from firth.layers.recurrent.mingru import linear_scan

CHUNK = 64
CHUNK_OF_TAYLOR = 256  # its states are large, and its coefficients within a chunk cheap


def run(call: LinearCall) -> tuple[Tensor, LinearState]:
    with torch.autocast(call.v_BHTE.device.type, enabled=False):
        return _run(call)


def _run(call: LinearCall) -> tuple[Tensor, LinearState]:
    T, E = call.v_BHTE.shape[2:]
    E_all = E + call.normalised
    C = min(T, CHUNK if call.features.pointwise else CHUNK_OF_TAYLOR)
    # torch's products of bfloat16 on a GPU are slow if the rows of a matrix do not begin at multiples of 16 bytes.
    v_BHNCE = _in_chunks(call.values(7 if call.v_BHTE.is_cuda else 0), C)
    dtype, columns = v_BHNCE.dtype, v_BHNCE.shape[-1]
    past_BHFE = F.pad(call.past(), (0, columns - E_all))
    q_BHNCD, k_BHNCD = _in_chunks(call.q_BHTD, C), _in_chunks(call.k_BHTD, C)
    q_BHNCF, k_BHNCF = call.features.map(q_BHNCD), call.features.map(k_BHNCD)
    if call.log_gate_BHTF is None:
        pointwise = call.features.pointwise
        a_BHNCC = q_BHNCF @ k_BHNCF.mT if pointwise else call.features.between(q_BHNCD, k_BHNCD)
        if T % C:  # φ(0) is not 0: the padding must not enter the state
            k_BHNCF = k_BHNCF * _in_chunks(torch.ones_like(call.k_BHTD[..., :1]), C)
        added_BHNFE = k_BHNCF.mT @ v_BHNCE
        after_BHNFE = added_BHNFE.to(call.wide).cumsum(2) + past_BHFE.unsqueeze(2)
    else:
        b_BHNCF = _in_chunks(call.log_gate_BHTF, C).to(call.wide).cumsum(3)
        end_BHN1F, middle_BHN1F = b_BHNCF[..., -1:, :], b_BHNCF[..., C // 2 : C // 2 + 1, :]
        from_middle_BHNCF = b_BHNCF - middle_BHN1F
        a_BHNCC = (q_BHNCF * from_middle_BHNCF.exp()).to(dtype) @ (k_BHNCF * (-from_middle_BHNCF).exp()).to(dtype).mT
        added_BHNFE = (k_BHNCF * (end_BHN1F - b_BHNCF).exp()).to(dtype).mT @ v_BHNCE
        after_BHNFE = _scan(end_BHN1F.squeeze(3).exp(), added_BHNFE.to(call.wide), past_BHFE)
        q_BHNCF = (q_BHNCF * b_BHNCF.exp()).to(dtype)
    before_BHNFE = torch.cat((past_BHFE.unsqueeze(2), after_BHNFE[:, :, :-1]), dim=2).to(dtype)
    # Above the diagonal a may be infinite: it is replaced, not multiplied by 0.
    a_BHNCC = a_BHNCC.masked_fill(torch.ones(C, C, dtype=torch.bool, device=a_BHNCC.device).triu(1), 0.0)
    o_BHNCE = a_BHNCC @ v_BHNCE + q_BHNCF @ before_BHNFE
    return call.finished(o_BHNCE.flatten(2, 3)[:, :, :T]), call.after(after_BHNFE[:, :, -1, :, :E_all])


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
    decay = decay_BHNF.unsqueeze(-1).expand_as(added_BHNFE)
    a, b, h = decay.reshape(B * H, N, -1), added_BHNFE.reshape(B * H, N, -1), past_BHFE.reshape(B * H, -1)
    return linear_scan(a, b, h).view(B, H, N, F_, E)
