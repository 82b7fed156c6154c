"""The recurrent form: one token after the other, with a state of constant size.

    S_t = diag(g_t) S_{t−1} + φ(k_t) v_tᵀ      o_t = φ(q_t)ᵀ S_t,  divided by φ(q_t)ᵀ z_t if normalised (z is a column of S)

Letters as in call.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from firth.layers.linear_attention.call import LinearCall, LinearState


def run(call: LinearCall) -> tuple[Tensor, LinearState]:
    v_BHTE, S_BHFE = call.values().to(call.wide), call.past()
    q_BHTF, k_BHTF = (call.features.map(x.to(call.wide)) for x in (call.q_BHTD, call.k_BHTD))
    gate_BHTF = None if call.log_gate_BHTF is None else call.log_gate_BHTF.to(call.wide).exp()
    o_BHE = []
    for t in range(v_BHTE.shape[2]):
        gate_BHF = None if gate_BHTF is None else gate_BHTF[:, :, t]
        S_BHFE, o_BHe = step(S_BHFE, q_BHTF[:, :, t], k_BHTF[:, :, t], v_BHTE[:, :, t], gate_BHF)
        o_BHE.append(o_BHe)
    return call.finished(torch.stack(o_BHE, dim=2)), call.after(S_BHFE)


def step(S_BHFE: Tensor, q_BHF: Tensor, k_BHF: Tensor, v_BHE: Tensor, gate_BHF: Tensor | None) -> tuple[Tensor, Tensor]:
    """S after one token, and what its query reads from it."""
    if gate_BHF is not None:
        S_BHFE = gate_BHF.unsqueeze(-1) * S_BHFE
    S_BHFE = S_BHFE + k_BHF.unsqueeze(-1) * v_BHE.unsqueeze(-2)
    return S_BHFE, (q_BHF.unsqueeze(-2) @ S_BHFE).squeeze(-2)
