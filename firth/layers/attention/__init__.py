"""attend(): every attention in firth goes through this function.

    s_bhqk = scale · q_bhq · k_bgk                        g = h // (H // G)
    p_bhqk = softmax over { k : allowed(b, h, q, k) }     all zero where that set is empty
    o_bhqe = Σ_k p_bhqk v_bgke

A kernel is a module with `why_not(call)` and `run(call)`. "auto" takes the first that can run; a kernel asked for by
name runs or raises with its reason, never a silent fallback.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Literal

from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import mask as mask
from firth.layers.attention import reference, sdpa
from firth.layers.attention.call import Call

Kernel = Literal["auto", "sdpa", "reference"]


def attend(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKE: Tensor,
    *,
    mask: mask.Mask = mask.FULL,
    scale: float | None = None,
    q_start: int | Tensor = 0,
    kernel: Kernel = "auto",
) -> Tensor:
    """o_BHQE: for each query the mean of the values, weighted by how well their keys match it."""
    if scale is None:
        scale = 1.0 / math.sqrt(q_BHQD.shape[-1])  # Vaswani et al. 2017, eq. 1
    call = Call(q_BHQD, k_BGKD, v_BGKE, mask, scale, q_start)
    if kernel == "auto":
        return _first_that_can(call).run(call)  # type: ignore[no-any-return]
    chosen = _named(kernel)
    if reason := chosen.why_not(call):
        raise ConfigError(f'kernel "{kernel}" cannot run this call: {reason}; kernel="auto" picks one that can')
    return chosen.run(call)  # type: ignore[no-any-return]


def _first_that_can(call: Call) -> ModuleType:
    return sdpa if sdpa.why_not(call) is None else reference


def _named(kernel: Kernel) -> ModuleType:
    match kernel:
        case "sdpa":
            return sdpa
        case "reference":
            return reference
        case _:
            raise ConfigError(f'there is no kernel "{kernel}"; expected auto, sdpa or reference')
