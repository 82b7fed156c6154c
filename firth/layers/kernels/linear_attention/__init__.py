"""The chunked form as Triton kernels, forward and backward, for feature maps that act on each number alone."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from firth.layers.known import unknown_argument
from firth.layers.linear_attention.call import LinearCall, LinearState
from firth.layers.linear_attention.features import EluPlusOne, Identity

WIDEST = 128
KNOWS = frozenset({"q_BHTD", "k_BHTD", "v_BHTE", "features", "log_gate_BHTF", "normalized", "state"})
_TRITON, _INTERPRETED = find_spec("triton") is not None, os.environ.get("TRITON_INTERPRET") == "1"


def why_not(call: LinearCall) -> str | None:
    q, v = call.q_BHTD, call.v_BHTE
    if reason := unknown_argument(call, KNOWS):
        return reason
    if not _TRITON:
        return "triton is not installed"
    if not q.is_cuda and not _INTERPRETED:
        return f"Triton kernels need a GPU; q is on {q.device.type}"
    if torch.compiler.is_compiling():
        return "torch.compile does better with the chunked form"
    if type(call.features) not in (Identity, EluPlusOne):
        return f"the kernels compute φ(x) = x and elu + 1; {type(call.features).__name__} is neither"
    if not q.dtype == call.k_BHTD.dtype == v.dtype or q.dtype not in (torch.float32, torch.bfloat16):
        return f"the kernels compute in float32 or bfloat16; q is {q.dtype}, k {call.k_BHTD.dtype} and v {v.dtype}"
    widest = WIDEST if q.dtype == torch.bfloat16 else WIDEST // 2
    if max(q.shape[3], v.shape[3]) > widest:
        return f"the kernels hold heads of at most {widest} in {q.dtype} on chip; q is {q.shape[3]} wide and v {v.shape[3]}"
    if not min(*q.shape, *v.shape):
        return "there is nothing to compute: q or v is empty"
    if call.normalized and call.log_gate_BHTF is not None:
        return "the kernels do not combine gates with a normaliser"
    if call.state is not None and call.state.S_BHFE is not None and torch.is_grad_enabled() and call.state.S_BHFE.requires_grad:
        return "the kernels have no gradient for the state before the first token"
    return None


def run(call: LinearCall) -> tuple[Tensor, LinearState]:
    from firth.layers.kernels.linear_attention.operation import attention

    past_BHFE = call.state.S_BHFE if call.state is not None else None
    o_BHTE, last_BHFE = attention(
        call.q_BHTD,
        call.k_BHTD,
        call.v_BHTE,
        call.log_gate_BHTF,
        past_BHFE,
        isinstance(call.features, EluPlusOne),
        call.normalized,
        call.state is not None,
    )
    return o_BHTE, LinearState() if last_BHFE is None else call.after(last_BHFE)
