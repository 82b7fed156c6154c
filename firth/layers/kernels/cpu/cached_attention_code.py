"""The code of cached_attention.py. Letters: D head width, n number of a row, h of a head, g of its keys and values."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from firth.layers.kernels.cpu.attention_code import Heads, head
from firth.layers.kernels.cpu.cached_attention import FIELDS
from firth.layers.kernels.cpu.code import LONG, Code, Compiled


def attention(D: int) -> Compiled:
    b = Code("firth_cached_attention", FIELDS)
    parts = range(0, D, b.lanes)
    q, k, v = (Heads(b.address(name), b.field(f"{name}_row"), b.field(f"{name}_head")) for name in ("q", "k", "v"))
    keys, values = (
        Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
        for name in ("keys", "values")
    )
    o, scores, room = b.address("o"), b.address("scores"), b.field("room")
    lengths, length_step = b.inttoptr(b.field("lengths"), LONG.as_pointer()), b.field("length_step")
    C, N, H, shared = (b.field(name) for name in ("C", "N", "H", "shared"))
    scale = b.number("scale")

    def one_head(item):
        n, h = b.sdiv(item, H), b.srem(item, H)
        g = b.sdiv(h, shared)
        length = b.load(b.gep(lengths, [b.mul(n, length_step)]))
        last = b.least(length, b.sub(C, LONG(1)))  # a full row overwrites its last token
        q_D = [b.fmul(b.read(q.of(b, n, h), LONG(part)), scale) for part in parts]
        k_D, v_D = ([b.read(x.of(b, n, g), LONG(part)) for part in parts] for x in (k, v))
        old_k, old_v = keys.of(b, n, g), values.of(b, n, g)
        score, out = b.gep(scores, [b.mul(item, room)]), b.gep(o, [b.mul(item, LONG(D))])
        first = b.icmp_signed("==", b.srem(h, shared), LONG(0))
        head(b, q_D, k_D, v_D, old_k, keys.position, old_v, values.position, score, out, last, first)

    b.pieces("taken", b.mul(N, H), LONG(1), one_head)
    return b.compiled()
