"""The parallel form: all T×T coefficients, as in the definition.

    a_ts = Σ_f φ(q_t)_f φ(k_s)_f g_{s+1,f} ⋯ g_{t,f}      for s ≤ t
    o_t  = Σ_s a_ts v_s,  divided by Σ_s a_ts if normalised

Letters as in call.py; Q and K both run over time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from firth.layers.linear_attention.call import LinearCall, LinearState


def run(call: LinearCall) -> tuple[Tensor, LinearState]:
    v_BHTE, wide = call.values().to(call.wide), call.wide
    q_BHTF, k_BHTF = call.features.map(call.q_BHTD).to(wide), call.features.map(call.k_BHTD).to(wide)
    S_BHFE, o_BHTE = call.past(), coefficients(call) @ v_BHTE
    if call.log_gate_BHTF is not None:
        sum_BHTF = call.log_gate_BHTF.to(wide).cumsum(2)
        q_BHTF, k_BHTF = q_BHTF * sum_BHTF.exp(), k_BHTF * (sum_BHTF[:, :, -1:] - sum_BHTF).exp()
        last_BHFE = S_BHFE * sum_BHTF[:, :, -1].exp().unsqueeze(-1) + k_BHTF.mT @ v_BHTE
    else:
        last_BHFE = S_BHFE + k_BHTF.mT @ v_BHTE
    return call.finished(o_BHTE + q_BHTF @ S_BHFE), call.after(last_BHFE)


def coefficients(call: LinearCall) -> Tensor:
    """a_BHQK, not normalised; zero for keys after the query."""
    q_BHQD, k_BHKD = call.q_BHTD.to(call.wide), call.k_BHTD.to(call.wide)
    if call.log_gate_BHTF is None:
        return call.features.between(q_BHQD, k_BHKD).tril()
    sum_BHTF = call.log_gate_BHTF.to(call.wide).cumsum(2)
    # All Q×K×F decays: exp(B_q) · exp(−B_k) would need less memory, and overflow.
    decay_BHQKF = (sum_BHTF.unsqueeze(3) - sum_BHTF.unsqueeze(2)).clamp(max=0).exp()
    a_BHQK = torch.einsum("bhqf,bhkf,bhqkf->bhqk", call.features.map(q_BHQD), call.features.map(k_BHKD), decay_BHQKF)
    return a_BHQK.tril()
