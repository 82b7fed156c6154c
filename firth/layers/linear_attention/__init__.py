"""linear_attend(): attention without the softmax, in time linear in the length of the text and with a state of constant size.

    S_t = diag(g_t) S_{t−1} + φ(k_t) v_tᵀ       z_t = diag(g_t) z_{t−1} + φ(k_t)
    o_t = φ(q_t)ᵀ S_t,  divided by φ(q_t)ᵀ z_t if normalised

    linear         φ = elu + 1, normalised, no gates       Katharopoulos et al. 2020, eq. 18–20
    gated linear   φ(x) = x, not normalised                GLA, Yang et al. 2023, eq. 3
    Taylor         φ(q)·φ(k) = 1 + s + s²/2, normalised    half of Based, Arora et al. 2024, §4.1

The parallel, the chunked and the recurrent form are the same function; the Triton kernel is the chunked form. A form is a module
with `run(call)`. "auto" takes the kernel on a GPU, the recurrent form for one token, and the chunked form otherwise; a form
chosen by name runs or raises.
"""

from __future__ import annotations

from types import ModuleType
from typing import Literal, get_args

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.kernels import linear_attention as fused
from firth.layers.linear_attention import chunked, quadratic, recurrent
from firth.layers.linear_attention.call import LinearCall, LinearState
from firth.layers.linear_attention.features import ELU_PLUS_ONE, IDENTITY, TAYLOR, FeatureMap

__all__ = [
    "ELU_PLUS_ONE", "IDENTITY", "LEAST_LOG_GATE", "TAYLOR", "FeatureMap", "Form", "LinearCall", "LinearState", "coefficients",
    "linear_attend", "run",
]  # fmt: skip

Form = Literal["auto", "triton", "chunked", "recurrent", "parallel"]
_FORMS: dict[str, ModuleType] = {"triton": fused, "chunked": chunked, "recurrent": recurrent, "parallel": quadratic}
LEAST_LOG_GATE = -2.5  # a gate below e^−2.5 = 0.082 per step is taken as that, so that no form overflows within a chunk


def linear_attend(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTE: Tensor,
    *,
    features: FeatureMap = ELU_PLUS_ONE,
    log_gate_BHTF: Tensor | None = None,
    normalized: bool = True,
    state: LinearState | None = None,
    form: Form = "auto",
) -> tuple[Tensor, LinearState]:
    """o_BHTE and the state after the last token; `state` is the one before the first."""
    return run(_call(q_BHTD, k_BHTD, v_BHTE, features, log_gate_BHTF, normalized, state), form)


def coefficients(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    *,
    features: FeatureMap = ELU_PLUS_ONE,
    log_gate_BHTF: Tensor | None = None,
    normalized: bool = True,
) -> Tensor:
    """a_BHQK with o_q = Σ_k a_qk v_k: attention weights if normalised, otherwise of either sign and with any sum."""
    a_BHQK = quadratic.coefficients(_call(q_BHTD, k_BHTD, k_BHTD, features, log_gate_BHTF, normalized, None))
    return a_BHQK / a_BHQK.sum(-1, keepdim=True) if normalized else a_BHQK


def run(call: LinearCall, form: Form = "auto") -> tuple[Tensor, LinearState]:
    if form == "auto":
        return _best(call).run(call)  # type: ignore[no-any-return]
    if form not in _FORMS:
        raise ConfigError(f'there is no form "{form}"; choose {", ".join(get_args(Form)[:-1])} or {get_args(Form)[-1]}')
    chosen = _FORMS[form]
    if chosen is fused and (reason := fused.why_not(call)):
        raise ConfigError(f'form "triton" cannot run this call: {reason}; form="auto" picks one that can')
    return chosen.run(call)  # type: ignore[no-any-return]


def _best(call: LinearCall) -> ModuleType:
    if call.v_BHTE.shape[2] == 1 and not torch.is_grad_enabled():
        return recurrent
    return fused if call.v_BHTE.is_cuda and fused.why_not(call) is None else chunked


def _call(
    q: Tensor, k: Tensor, v: Tensor, features: FeatureMap, log_gate: Tensor | None, normalized: bool, state: LinearState | None
) -> LinearCall:
    if not (q.ndim == k.ndim == v.ndim == 4 and q.shape == k.shape and v.shape[:3] == k.shape[:3] and v.shape[2]):
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in (("q", q), ("k", k), ("v", v)))
        raise ConfigError(f"linear_attend() takes q_BHTD, k_BHTD and v_BHTE with at least one token; given {shapes}")
    if log_gate is not None:
        if not features.pointwise or log_gate.shape != k.shape:
            raise ConfigError(f"the gates have shape {tuple(log_gate.shape)}; expected one per number of φ(k), {tuple(k.shape)}")
        log_gate = log_gate.clamp(LEAST_LOG_GATE, 0.0)
    return LinearCall(q, k, v, features, log_gate, normalized, LinearState() if state is None else state)
