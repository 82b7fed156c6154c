"""FixedKeyValue.extend on a GPU: keys and values of new tokens into memory, each row at its own position, in one launch."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def write(k_BGCD: Tensor, v_BGCE: Tensor, k_BGTD: Tensor, v_BGTE: Tensor, length_B: Tensor) -> None:
    (B, G, T, D), E, C = k_BGTD.shape, v_BGTE.shape[3], k_BGCD.shape[2]
    new = [x if x.stride(-1) == 1 else x.contiguous() for x in (k_BGTD, v_BGTE)]
    strides = [stride for x in (k_BGCD, v_BGCE, *new) for stride in x.stride()[:3]]
    blocks = {"DP": triton.next_power_of_2(D), "EP": triton.next_power_of_2(E)}
    _write[(B, G, T)](k_BGCD, v_BGCE, *new, length_B, *strides, C, D, E, **blocks, num_warps=1)


@triton.jit
def _write(
    k_at, v_at, new_k_at, new_v_at, length_at,
    k_b, k_g, k_c, v_b, v_g, v_c, new_k_b, new_k_g, new_k_t, new_v_b, new_v_g, new_v_t,
    C, D, E, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    b, g, t = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    position = tl.minimum(tl.load(length_at + b) + t, C - 1)
    d_D, e_E = tl.arange(0, DP), tl.arange(0, EP)
    k_D = tl.load(new_k_at + b * new_k_b + g * new_k_g + t * new_k_t + d_D, mask=d_D < D)
    v_E = tl.load(new_v_at + b * new_v_b + g * new_v_g + t * new_v_t + e_E, mask=e_E < E)
    tl.store(k_at + b * k_b + g * k_g + position * k_c + d_D, k_D, mask=d_D < D)
    tl.store(v_at + b * v_b + g * v_g + position * v_c + e_E, v_E, mask=e_E < E)
