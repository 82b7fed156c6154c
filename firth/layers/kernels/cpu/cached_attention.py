"""One query per row over cached keys and values, in one call: the new key and value are written to memory, too.

    s_k = scale · q · k_k        o = Σ_k e^{s_k − max s} v_k / Σ_k e^{s_k − max s}        k = 0 … length of the row

torch needs about ten operations for this, some of which cost more than the attention itself. Rows may have different lengths;
each reads only its own keys. Letters as in attention/call.py; C capacity, N rows, D head width, n number of a row,
h of a head, g of its keys and values.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.attention import Heads, head
from firth.layers.kernels.cpu.code import Code, Compiled
from firth.layers.known import ANY, Known
from firth.layers.state import FixedKeyValue, KeyValue

FIELDS = (
    "taken",
    *(f"{name}{part}" for name in ("q", "k", "v") for part in ("", "_row", "_head")),  # an address, and steps from it
    *(f"{name}{part}" for name in ("keys", "values") for part in ("", "_row", "_head", "_position")),
    *("o", "scores", "room", "lengths", "length_step", "C", "N", "H", "shared", "scale"),  # shared: H / G
)
DOT_PRODUCTS = ("scaled_dot", "dot", "bilinear", "cosine")  # scores that are dot products of q and k, once these are reduced
KNOWS: Known = {
    **dict.fromkeys(("heads", "head_width", "kv_heads", "scale", "qk_norm"), ANY),
    **dict.fromkeys(("kind", "mask", "span", "window_pattern", "feature_width"), ANY),  # the layer and its mask say it
    "score": DOT_PRODUCTS,
}  # of [model.attention]
_WIDEST = 256  # of a head: a query stays in registers
_WIDTHS = 16  # a head's width is a multiple of these


def why_not(q_BHTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, past: Any) -> str | None:
    """The reason why it cannot run, or None. The caller has made sure that the attention is causal, with dot products."""
    if type(past) is not KeyValue and type(past) is not FixedKeyValue:
        return "the cache does not hold plain keys and values"
    if q_BHTD.shape[2] != 1 or not q_BHTD.is_cpu or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return "it is for one query per row on a CPU, without gradients"
    if any(x.dtype != torch.float32 or x.stride(3) != 1 for x in (q_BHTD, k_BGTD, v_BGTD)):
        return "q, k and v have to be in float32, each head's numbers next to each other"
    D = q_BHTD.shape[3]
    if D % _WIDTHS or D > _WIDEST or k_BGTD.shape[3] != D or v_BGTD.shape[3] != D or not len(q_BHTD):
        return f"the width of a head has to be a multiple of {_WIDTHS}, at most {_WIDEST}"
    return team.why_not()


def attend(q_BH1D: Tensor, k_BG1D: Tensor, v_BG1D: Tensor, past: KeyValue | FixedKeyValue, scale: float) -> tuple[Tensor, Any]:
    """o_B1d, the outputs of all heads one after the other, and the state after the token."""
    (N, H, _, D), G = q_BH1D.shape, k_BG1D.shape[1]
    after: KeyValue | FixedKeyValue
    if isinstance(past, KeyValue):
        k_BGCD, v_BGCD, after = past.place(k_BG1D, v_BG1D)
        length, length_step = torch.tensor([past.length]), 0
    else:
        k_BGCD, v_BGCD, after = past.k_BGCD, past.v_BGCE, past
        length, length_step = past.length_B, past.length_B.stride(0)
    C = k_BGCD.shape[2]
    wide = -(-C // _WIDTHS) * _WIDTHS
    o_B1d, score_NHC = q_BH1D.new_empty(N, 1, H * D), q_BH1D.new_empty(N * H * wide)
    fields = [0, *(place for x in (q_BH1D, k_BG1D, v_BG1D) for place in (x.data_ptr(), x.stride(0), x.stride(1)))]
    fields += [place for x in (k_BGCD, v_BGCD) for place in (x.data_ptr(), x.stride(0), x.stride(1), x.stride(2))]
    fields += [o_B1d.data_ptr(), score_NHC.data_ptr(), wide, length.data_ptr(), length_step, C, N, H, H // G, team.bits(scale)]
    team.run(_kernel(D), fields)
    return o_B1d, after


@cache
def _kernel(D: int) -> Compiled:
    b = Code("firth_cached_attention", FIELDS)
    parts = range(0, D, b.lanes)
    q, k, v = (Heads(b.address(name), b.field(f"{name}_row"), b.field(f"{name}_head")) for name in ("q", "k", "v"))
    keys, values = (
        Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
        for name in ("keys", "values")
    )
    o, scores, room = b.address("o"), b.address("scores"), b.field("room")
    lengths, length_step = b.address("lengths", b.long), b.field("length_step")
    C, N, H, shared = (b.field(name) for name in ("C", "N", "H", "shared"))
    scale = b.number("scale")

    def one_head(item):
        n, h = b.sdiv(item, H), b.srem(item, H)
        g = b.sdiv(h, shared)
        length = b.load(b.gep(lengths, [b.mul(n, length_step)]))
        last = b.least(length, b.sub(C, b.long(1)))  # a full row overwrites its last token
        q_D = [b.fmul(b.read(q.of(b, n, h), b.long(part)), scale) for part in parts]
        k_D, v_D = ([b.read(x.of(b, n, g), b.long(part)) for part in parts] for x in (k, v))
        old_k, old_v = keys.of(b, n, g), values.of(b, n, g)
        score, out = b.gep(scores, [b.mul(item, room)]), b.gep(o, [b.mul(item, b.long(D))])
        first = b.icmp_signed("==", b.srem(h, shared), b.long(0))
        head(b, q_D, k_D, v_D, old_k, keys.position, old_v, values.position, score, out, last, first)

    b.pieces("taken", b.mul(N, H), b.long(1), one_head)
    return b.compiled()
