"""The code of source_attention.py. Letters: D head width, g number of a head of keys and values."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from firth.layers.kernels.cpu.attention_code import Heads, mean, weights, write_scores
from firth.layers.kernels.cpu.code import LONG, Code, Compiled
from firth.layers.kernels.cpu.source_attention import FIELDS


def source_attention(D: int) -> Compiled:
    b = Code("firth_source_attention", FIELDS)
    parts = range(0, D, b.lanes)
    q, o, scores, room = b.address("q"), b.address("o"), b.address("scores"), b.field("room")
    keys, values = (
        Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
        for name in ("keys", "values")
    )
    lengths, length_step = b.inttoptr(b.field("lengths"), LONG.as_pointer()), b.field("length_step")
    N, H, shared, beams = (b.field(name) for name in ("N", "H", "shared", "beams"))
    scale = b.number("scale")

    def one_head(item):
        text, g = b.sdiv(b.sdiv(item, H), beams), b.sdiv(b.srem(item, H), shared)
        length, place = b.load(b.gep(lengths, [b.mul(text, length_step)])), b.mul(item, LONG(D))
        q_D = [b.fmul(b.read(q, b.add(place, LONG(part))), scale) for part in parts]
        score = b.gep(scores, [b.mul(item, room)])
        largest = write_scores(b, score, q_D, None, keys.of(b, text, g), keys.position, length)
        total = weights(b, score, largest, length)
        for part, value in zip(
            parts, mean(b, score, None, values.of(b, text, g), values.position, length, len(parts)), strict=True
        ):
            some = b.icmp_signed(">", length, LONG(0))
            b.write(b.select(some, b.fdiv(value, total), b.constant(0.0)), o, b.add(place, LONG(part)))

    b.pieces("taken", b.mul(N, H), LONG(1), one_head)
    return b.compiled()
