"""The code of cached_attention.py and source_attention.py. Letters: L lanes, D head width, n number of a row, h of a head."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firth.layers.cpu import source_attention as source
from firth.layers.cpu.cached_attention import FIELDS
from firth.layers.cpu.code import INT, LONG, Code, Compiled, Value


class _Heads(NamedTuple):
    """Where the numbers of a head are."""

    first: Value
    row: Value
    head: Value
    position: Value | None = None  # of keys and values in memory

    def of(self, b: Code, n: Value, h: Value) -> Value:
        return b.gep(self.first, [b.add(b.mul(n, self.row), b.mul(h, self.head))])


def attention(D: int) -> Compiled:
    b = Code("firth_cached_attention", FIELDS)
    parts = range(0, D, b.lanes)
    q, k, v = (_Heads(b.address(name), b.field(f"{name}_row"), b.field(f"{name}_head")) for name in ("q", "k", "v"))
    keys, values = (
        _Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
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


def source_attention(D: int) -> Compiled:
    b = Code("firth_source_attention", source.FIELDS)
    parts = range(0, D, b.lanes)
    q, o, scores, room = b.address("q"), b.address("o"), b.address("scores"), b.field("room")
    keys, values = (
        _Heads(b.address(name), *(b.field(f"{name}_{part}") for part in ("row", "head", "position")))
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
        largest = _scores(b, score, q_D, None, keys.of(b, text, g), keys.position, length)
        total = _weights(b, score, largest, length)
        for part, value in zip(
            parts, _mean(b, score, None, values.of(b, text, g), values.position, length, len(parts)), strict=True
        ):
            some = b.icmp_signed(">", length, LONG(0))
            b.write(b.select(some, b.fdiv(value, total), b.constant(0.0)), o, b.add(place, LONG(part)))

    b.pieces("taken", b.mul(N, H), LONG(1), one_head)
    return b.compiled()


def head(b: Code, q_D, k_D, v_D, old_k, k_step, old_v, v_step, score, o, last, first) -> None:
    """The output o of one head, whose new key and value become those at `last`; if it is the `first` of its group, it also
    writes them to memory. The others do not read what is written there: they have k and v themselves."""
    largest = _scores(b, score, q_D, k_D, old_k, k_step, last)
    total = _weights(b, score, largest, b.add(last, LONG(1)))
    for n, value in enumerate(_mean(b, score, v_D, old_v, v_step, last, len(v_D))):
        b.write(b.fdiv(value, total), o, LONG(n * b.lanes))
    with b.if_then(first):
        for pointer, step, x_D in ((old_k, k_step, k_D), (old_v, v_step, v_D)):
            for n, x in enumerate(x_D):
                b.write(x, pointer, b.add(b.mul(last, step), LONG(n * b.lanes)))


def _scores(b: Code, score: Value, q_D: Sequence[Value], k_D: Sequence[Value] | None, old_k, position, last) -> Value:
    """Write q · k for the keys before `last` and the new one, if there is one, then −∞ up to a whole vector. Returns the largest,
    in every lane."""

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

    lowest = b.constant(float("-inf"))
    count = last if k_D is None else b.add(last, LONG(1))
    with b.if_then(b.icmp_signed("!=", b.and_(count, LONG(b.lanes - 1)), LONG(0))):
        b.write(lowest, score, b.and_(count, LONG(-b.lanes)))
    own = lowest if k_D is None else dot(k_D)
    (largest,) = b.loop(LONG(0), last, LONG(1), one_key, own)
    if k_D is not None:
        put(last, own)
    return largest


def _weights(b: Code, score: Value, largest: Value, count: Value) -> Value:
    """e^(s − max s) in place of the scores; returns their sum, in every lane."""

    def some(n, total):
        weight = b.exp(b.fsub(b.read(score, n), largest))
        b.write(weight, score, n)
        return (b.fadd(total, weight),)

    (total,) = b.loop(LONG(0), count, LONG(b.lanes), some, b.constant(0.0))
    return b.fold(total, b.fadd)


def _mean(b: Code, score: Value, v_D: Sequence[Value] | None, old_v, position, last, parts: int) -> list[Value]:
    """Σ of the values before `last` and the new one, if there is one, each times its weight."""

    def add(weight, values: Sequence[Value], total_D: Sequence[Value]) -> list[Value]:
        return [b.fma(weight, value, total) for value, total in zip(values, total_D, strict=True)]

    def weight(n) -> Value:
        return b.splat(b.load(b.gep(score, [n])))

    def one_value(n, *total_D):
        place = b.mul(n, position)
        return add(weight(n), [b.read(old_v, b.add(place, LONG(part * b.lanes))) for part in range(parts)], total_D)

    total_D = b.loop(LONG(0), last, LONG(1), one_value, *[b.constant(0.0)] * parts)
    return total_D if v_D is None else add(weight(last), v_D, total_D)
