"""Queries of one token per row over the keys and values of a source, in one call.

    o = Σ_k softmax_k(scale · q · k_k) v_k        k = 0 … length of the source − 1; zero if there is none

Consecutive rows may share a source, as the beams of a text do. Letters as in attention/call.py; N rows, A sources, S their keys.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.known import ANY, Known

if TYPE_CHECKING:
    from firth.layers.kernels.cpu.code import Compiled

FIELDS = (
    *("taken", "q", "o", "scores", "room", "lengths", "length_step", "N", "H", "shared", "beams", "scale"),  # shared: H / G
    *(f"{name}{part}" for name in ("keys", "values") for part in ("", "_row", "_head", "_position")),
)
KNOWS: Known = {
    **dict.fromkeys(("heads", "head_width", "kv_heads", "scale", "kind", "mask", "span", "window_pattern"), ANY),
    "score": ("scaled_dot", "dot"),
}  # of [model.attention]
_WIDTHS = 16  # a head's width is a multiple of these
_WIDEST = 256


def why_not(x_BTd: Tensor, k_AGSD: Tensor, v_AGSD: Tensor) -> str | None:
    """The reason why it cannot run, or None. The caller has made sure that queries are made from x, with dot products."""
    if x_BTd.shape[1] != 1 or not x_BTd.is_cpu or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return "it is for one query per row on a CPU, without gradients"
    if any(x.dtype != torch.float32 or x.stride(-1) != 1 for x in (x_BTd, k_AGSD, v_AGSD)) or torch.is_autocast_enabled("cpu"):
        return "x, k and v have to be in float32, each head's numbers next to each other"
    D = k_AGSD.shape[3]
    if D % _WIDTHS or D > _WIDEST or v_AGSD.shape[3] != D or not k_AGSD.numel() or len(x_BTd) % len(k_AGSD):
        return f"heads are as wide as a multiple of {_WIDTHS}, at most {_WIDEST}"
    return team.why_not()


def attend(q_BTn: Tensor, k_AGSD: Tensor, v_AGSD: Tensor, length_A: Tensor, scale: float) -> Tensor:
    """o_BTn, the outputs of all heads one after the other."""
    q_BTn = q_BTn.contiguous()
    (N, _, n), (A, G, S, D) = q_BTn.shape, k_AGSD.shape
    H, room = n // D, -(-S // _WIDTHS) * _WIDTHS
    o_BTn, scores = torch.empty_like(q_BTn), q_BTn.new_empty(N * H * room)
    length_A = length_A.long()
    memory = (place for x in (k_AGSD, v_AGSD) for place in (x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)))
    places = q_BTn.data_ptr(), o_BTn.data_ptr(), scores.data_ptr(), room, length_A.data_ptr(), length_A.stride(0)
    team.run(_kernel(D), (0, *places, N, H, H // G, N // A, team.bits(scale), *memory))
    return o_BTn


@cache
def _kernel(head_width: int) -> Compiled:
    from firth.layers.kernels.cpu.source_attention_code import source_attention

    return source_attention(head_width)
