"""The code of cached_attention.py. Letters: L lanes, D head width, n number of a row, h of a head, k of a key."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firth.layers.cpu.code import FLOAT, INT, LONG, Code, Compiled, Value


class _Heads(NamedTuple):
    """Where the numbers of a head are."""

    first: Value
    row: Value
    head: Value
    position: Value | None = None  # of keys and values in memory

    def of(self, b: Code, n: Value, h: Value) -> Value:
        return b.gep(self.first, [b.add(b.mul(n, self.row), b.mul(h, self.head))])


def attention(D: int) -> Compiled:
    """Fields: q, k and v (address, steps from row to row and from head to head), the cached k and v (also from position to
    position), o, scores, room for the scores of a head, lengths and the step between them, C, N, H, H / G, bits of the scale."""
    b = Code("firth_cached_attention")
    parts = range(0, D, b.lanes)
    q, k, v = (_Heads(b.address(n), b.field(n + 1), b.field(n + 2)) for n in (1, 4, 7))
    keys, values = (_Heads(b.address(n), *(b.field(n + m) for m in (1, 2, 3))) for n in (10, 14))
    o, scores, room = b.address(18), b.address(19), b.field(20)
    lengths, length_step = b.inttoptr(b.field(21), LONG.as_pointer()), b.field(22)
    C, N, H, shared = (b.field(n) for n in range(23, 27))
    scale = b.splat(b.bitcast(b.trunc(b.field(27), INT), FLOAT))

    def one_head(item):
        n, h = b.sdiv(item, H), b.srem(item, H)
        g = b.sdiv(h, shared)
        length = b.load(b.gep(lengths, [b.mul(n, length_step)]))
        last = b.least(length, b.sub(C, LONG(1)))  # a full row overwrites its last token
        q_D = [b.fmul(b.read(q.of(b, n, h), LONG(part)), scale) for part in parts]
        k_D, v_D = ([b.read(x.of(b, n, g), LONG(part)) for part in parts] for x in (k, v))
        old_k, old_v = keys.of(b, n, g), values.of(b, n, g)
        score = b.gep(scores, [b.mul(item, room)])

        largest = _scores(b, score, q_D, k_D, old_k, keys.position, last)
        total = _weights(b, score, largest, last)
        o_D = _mean(b, score, v_D, old_v, values.position, last)
        place = b.mul(item, LONG(D))
        for part, value in zip(parts, o_D, strict=True):
            b.write(b.fdiv(value, total), o, b.add(place, LONG(part)))
        # The other heads of the group do not read what is written here: they have k and v themselves.
        with b.if_then(b.icmp_signed("==", b.srem(h, shared), LONG(0))):
            for pointer, heads, x_D in ((old_k, keys, k_D), (old_v, values, v_D)):
                for part, x in zip(parts, x_D, strict=True):
                    b.write(x, pointer, b.add(b.mul(last, heads.position), LONG(part)))

    b.pieces(b.mul(N, H), LONG(1), one_head)
    return b.compiled()


def _scores(b: Code, score: Value, q_D: Sequence[Value], k_D: Sequence[Value], old_k, position, last) -> Value:
    """Write q · k for the keys before `last` and the new one, then −∞ up to a whole vector. Returns the largest."""

    def dot(one_D: Sequence[Value]) -> Value:
        total = b.constant(0.0)
        for q, k in zip(q_D, one_D, strict=True):
            total = b.fma(q, k, total)
        return b.fold(total, b.fadd)

    def put(n, x):
        b.store(b.extract_element(x, INT(0)), b.gep(score, [n]))

    def one_key(n, largest):
        place = b.mul(n, position)
        x = dot([b.read(old_k, b.add(place, LONG(part * b.lanes))) for part in range(len(q_D))])
        put(n, x)
        return (b.larger(x, largest),)

    b.write(b.constant(float("-inf")), score, b.and_(last, LONG(-b.lanes)))
    own = dot(k_D)
    (largest,) = b.loop(LONG(0), last, LONG(1), one_key, own)
    put(last, own)
    return largest


def _weights(b: Code, score: Value, largest: Value, last: Value) -> Value:
    """e^(s − max s) in place of the scores; returns their sum, in every lane."""

    def some(n, total):
        weight = b.exp(b.fsub(b.read(score, n), largest))
        b.write(weight, score, n)
        return (b.fadd(total, weight),)

    (total,) = b.loop(LONG(0), b.add(last, LONG(1)), LONG(b.lanes), some, b.constant(0.0))
    return b.fold(total, b.fadd)


def _mean(b: Code, score: Value, v_D: Sequence[Value], old_v, position, last) -> list[Value]:
    """Σ of the values, each times its weight."""

    def add(weight, values: Sequence[Value], total_D: Sequence[Value]) -> list[Value]:
        return [b.fma(weight, value, total) for value, total in zip(values, total_D, strict=True)]

    def weight(n) -> Value:
        return b.splat(b.load(b.gep(score, [n])))

    def one_value(n, *total_D):
        place = b.mul(n, position)
        return add(weight(n), [b.read(old_v, b.add(place, LONG(part * b.lanes))) for part in range(len(v_D))], total_D)

    return add(weight(last), v_D, b.loop(LONG(0), last, LONG(1), one_value, *[b.constant(0.0)] * len(v_D)))
