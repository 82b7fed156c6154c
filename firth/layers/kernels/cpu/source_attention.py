"""Queries of one token per row over the keys and values of a source, in one call.

    o = Σ_k softmax_k(scale · q · k_k) v_k        k = 0 … length of the source − 1; zero if there is none

Consecutive rows may share a source, as the beams of a text do. Letters as in attention/call.py; N rows, A sources, S their keys.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.attention import Heads, mean, weights, write_scores
from firth.layers.kernels.cpu.code import Code, Compiled
from firth.layers.known import ANY, Known

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
        return f"the width of a head has to be a multiple of {_WIDTHS}, at most {_WIDEST}"
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
def _kernel(D: int) -> Compiled:
    b = Code("firth_source_attention", FIELDS)
    parts = range(0, D, b.lanes)
    q, o, scores, room = b.address("q"), b.address("o"), b.address("scores"), b.field("room")
    keys, values = (
        Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
        for name in ("keys", "values")
    )
    lengths, length_step = b.address("lengths", b.long), b.field("length_step")
    N, H, shared, beams = (b.field(name) for name in ("N", "H", "shared", "beams"))
    scale = b.number("scale")

    def one_head(item):
        text, g = b.sdiv(b.sdiv(item, H), beams), b.sdiv(b.srem(item, H), shared)
        length, place = b.load(b.gep(lengths, [b.mul(text, length_step)])), b.mul(item, b.long(D))
        q_D = [b.fmul(b.read(q, b.add(place, b.long(part))), scale) for part in parts]
        score = b.gep(scores, [b.mul(item, room)])
        largest = write_scores(b, score, q_D, None, keys.of(b, text, g), keys.position, length)
        total = weights(b, score, largest, length)
        for part, value in zip(
            parts, mean(b, score, None, values.of(b, text, g), values.position, length, len(parts)), strict=True
        ):
            some = b.icmp_signed(">", length, b.long(0))
            b.write(b.select(some, b.fdiv(value, total), b.constant(0.0)), o, b.add(place, b.long(part)))

    b.pieces("taken", b.mul(N, H), b.long(1), one_head)
    return b.compiled()
