"""Matrices in int8 and int4, and back:  W ≈ s · (q − z).

    int8   one s per row of W, q ∈ {−127 … 127}, z = 0
    int4   one s and one z per row and group of columns, q ∈ {0 … 15}, z = 8 − m / s; kept are s and the midpoint m

Both round to the nearest, so that |W − s (q − z)| ≤ s / 2. s and m of a group are kept in bfloat16. The midpoint is near zero
where the weights lie on both sides of it, and loses little by that; s is then chosen so that 16 steps from there reach every
weight of the group.

Letters: n rows of W (outputs), d its columns, c groups of columns, g columns of one group.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 16  # of int4
CENTRE = 8  # q of the midpoint
LARGEST = 127  # of int8
_SMALLEST = 1e-30  # a scale, of rows and groups that are all zero


def to_int8(W_nd: Tensor) -> tuple[Tensor, Tensor]:
    """q_nd in int8 and s_n in float32."""
    W_nd = W_nd.float()
    scale_n = (W_nd.abs().amax(1) / LARGEST).clamp_min(_SMALLEST)
    return (W_nd / scale_n[:, None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int8), scale_n


def from_int8(q_nd: Tensor, scale_n: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return (q_nd.to(scale_n.dtype) * scale_n[:, None]).to(dtype)


def to_int4(W_nd: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """q_nd in uint8, one number per byte, s_nc and m_nc in bfloat16. The last group may be shorter; q then has columns for all of
    it, the missing ones as the last one."""
    W_ncg = _in_groups(W_nd.float(), group)
    low_nc, high_nc = W_ncg.aminmax(dim=-1)
    m_nc = (low_nc + CENTRE * (high_nc - low_nc) / (LEVELS - 1)).bfloat16()
    reach_nc = torch.maximum((high_nc - m_nc) / (LEVELS - 1 - CENTRE), (m_nc - low_nc) / CENTRE)
    scale_nc = reach_nc.clamp_min(_SMALLEST).bfloat16()
    q_ncg = ((W_ncg - m_nc[..., None].float()) / scale_nc[..., None].float()).round_().add_(CENTRE)
    return q_ncg.clamp_(0, LEVELS - 1).to(torch.uint8).flatten(1), scale_nc, m_nc


def from_int4(q_nd: Tensor, scale_nc: Tensor, m_nc: Tensor, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The first `columns` columns of s (q − 8) + m, computed in float32."""
    q_ncg = q_nd.reshape(*scale_nc.shape, -1).float() - CENTRE
    W_ncg = q_ncg.mul_(scale_nc[..., None].float()).add_(m_nc[..., None].float())
    return W_ncg.flatten(1)[:, :columns].to(dtype)


def pack(q_nd: Tensor, scale_nc: Tensor, m_nc: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers of four bits per byte, columns j (low) and j + d/2 (high), and s and m side by side, as n,c,2. An odd number of
    groups gets one more, which is zero, so that each half has whole groups."""
    if scale_nc.shape[1] % 2:
        q_nd = F.pad(q_nd, (0, q_nd.shape[1] // scale_nc.shape[1]), value=CENTRE)
        scale_nc, m_nc = F.pad(scale_nc, (0, 1)), F.pad(m_nc, (0, 1))
    low, high = q_nd.chunk(2, dim=1)
    return low | high << 4, torch.stack((scale_nc, m_nc), dim=-1)


def unpack(packed: Tensor) -> Tensor:
    """q_nd, with the columns of all groups."""
    return torch.cat((packed & 15, packed >> 4), dim=1)


def _in_groups(W_nd: Tensor, group: int) -> Tensor:
    if missing := -W_nd.shape[1] % group:
        W_nd = F.pad(W_nd[None], (0, missing), mode="replicate")[0]
    return W_nd.reshape(len(W_nd), -1, group)
