"""Products with quantised matrices on a CPU, through torch's own kernels.

int8, `_weight_int8pack_mm`: W as it is, and x in bfloat16 on x86, which is what that kernel is written for there. It is the
fastest for a few rows.

int8, `torch._int_mm`, on a processor with instructions for int8 (VNNI; others may saturate): for more rows, and for large
matrices. It multiplies int8 by int8, exactly. x is not rounded to eight bits, which costs more than rounding W does, but written
with two digits, to the base of 254,

    x ≈ a (h + l / 254),   a = max |x| / 127,   h = round(x / a),   l = round(254 (x / a − h)),   |error| ≤ a / 508

with an a of its own for each row, so that a row does not depend on the others of its batch. Twice the rows cost little: reading
W is what takes time.

int4: `_weight_int4pack_mm_for_cpu`, on activations in bfloat16, with weights in an order of its own.

Letters: M rows of x, n outputs, d columns, c groups of columns.
"""

from __future__ import annotations

import platform

import torch
from torch import Tensor

from firth.layers.quantised.rounding import CENTRE, LARGEST, from_int8

BASE = 2 * LARGEST
_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
VNNI = _X86 and torch.cpu._is_vnni_supported()
MORE_ROWS, LARGE = 8, 4_000_000  # from so many rows, or weights, writing x with digits is worth its time
GROUPS = (32, 64, 128, 256)
_COLUMNS = 32  # d must be a multiple of it for torch's int8 kernel
_ROWS = 16  # n must be a multiple of it for torch's int4 kernel


def int8_linear(x_Md: Tensor, q_nd: Tensor, scale_n: Tensor) -> Tensor:
    """x (s q)ᵀ in the type of x."""
    whole = q_nd.shape[1] % _COLUMNS == 0
    if VNNI and (len(x_Md) >= MORE_ROWS or q_nd.numel() >= LARGE or not whole):
        return in_digits(x_Md, q_nd, scale_n)
    return as_bytes(x_Md, q_nd, scale_n) if whole else x_Md @ from_int8(q_nd, scale_n, x_Md.dtype).T


def in_digits(x_Md: Tensor, q_nd: Tensor, scale_n: Tensor) -> Tensor:
    rows, wide_Md = len(x_Md), x_Md.float()
    largest_M1 = torch.linalg.vector_norm(wide_Md, torch.inf, dim=1, keepdim=True).clamp_min_(1e-30)
    scaled_Md = wide_Md * (LARGEST / largest_M1)
    high_Md = scaled_Md.round()
    low_Md = scaled_Md.sub_(high_Md).mul_(BASE).round_()
    product = torch._int_mm(torch.cat((high_Md, low_Md)).to(torch.int8), q_nd.t())
    y_Mn = (product[rows:] * (1 / BASE)).add_(product[:rows])
    return y_Mn.mul_(largest_M1 / LARGEST).mul_(scale_n).to(x_Md.dtype)


def as_bytes(x_Md: Tensor, q_nd: Tensor, scale_n: Tensor) -> Tensor:
    """torch does not check that d is a multiple of the processor's vectors, and reads beyond the end if it is not."""
    assert q_nd.shape[1] % _COLUMNS == 0
    dtype = torch.bfloat16 if _X86 else torch.float32
    return torch.ops.aten._weight_int8pack_mm(x_Md.to(dtype), q_nd, scale_n.to(dtype)).to(x_Md.dtype)  # type: ignore[no-any-return]


def why_not_int4(rows: int, columns: int, group: int) -> str | None:
    """Why torch's int4 kernel cannot multiply with such a matrix."""
    if group not in GROUPS:
        return f"groups of {group} columns; it takes {', '.join(map(str, GROUPS))}"
    if rows % _ROWS or columns % group:
        return f"{rows} × {columns}; it takes multiples of {_ROWS} rows and of {group} columns"
    return None


def in_kernel_order(q_nd: Tensor, scale_nc: Tensor, m_nc: Tensor) -> tuple[Tensor, Tensor]:
    """W as the kernel takes it: two numbers per byte, and s and m side by side, as c,n,2. Its equation is ours, s (q − 8) + m."""
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q_nd.to(torch.int32), 1)
    return packed, torch.stack((scale_nc.T, m_nc.T), dim=-1).contiguous()


def int4_linear(x_Md: Tensor, packed: Tensor, scale_and_m_cn2: Tensor, group: int) -> Tensor:
    y_Mn: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x_Md.bfloat16(), packed, group, scale_and_m_cn2)
    return y_Mn.to(x_Md.dtype)


def in_plain_order(packed: Tensor, scale_and_m_cn2: Tensor, group: int) -> Tensor:
    """q_nd again. The order in `packed` depends on the processor, but a product with s = 1 and m = 8 is q, exactly."""
    c, n, _ = scale_and_m_cn2.shape
    plain_cn2 = torch.tensor([1.0, CENTRE], dtype=torch.bfloat16).expand(c, n, 2).contiguous()
    return int4_linear(torch.eye(c * group), packed, plain_cn2, group).round_().to(torch.uint8).t().contiguous()
