"""The parts of an attention of one query, for the kernels that contain one. Letters: L lanes, D head width, n number of a row."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firth.layers.kernels.cpu.code import Code, Value


class Heads(NamedTuple):
    """The addresses of a head's numbers."""

    first: Value
    row: Value
    head: Value
    position: Value | None = None  # of keys and values in memory

    def of(self, b: Code, n: Value, h: Value) -> Value:
        return b.gep(self.first, [b.add(b.mul(n, self.row), b.mul(h, self.head))])


def head(b: Code, q_D, k_D, v_D, old_k, k_step, old_v, v_step, score, o, last, first) -> None:
    """The output o of one head, whose new key and value become those at `last`; if it is the `first` of its group, it also
    writes them to memory. The others do not read what is written there: they have k and v themselves."""
    largest = write_scores(b, score, q_D, k_D, old_k, k_step, last)
    total = weights(b, score, largest, b.add(last, b.long(1)))
    for n, value in enumerate(mean(b, score, v_D, old_v, v_step, last, len(v_D))):
        b.write(b.fdiv(value, total), o, b.long(n * b.lanes))
    with b.if_then(first):
        for pointer, step, x_D in ((old_k, k_step, k_D), (old_v, v_step, v_D)):
            for n, x in enumerate(x_D):
                b.write(x, pointer, b.add(b.mul(last, step), b.long(n * b.lanes)))


def write_scores(b: Code, score: Value, q_D: Sequence[Value], k_D: Sequence[Value] | None, old_k, position, last) -> Value:
    """Write q · k for the keys before `last` and the new one, if there is one, then −∞ up to a whole vector. Returns the largest,
    in every lane."""

    def dot(one_D: Sequence[Value]) -> Value:
        total = b.constant(0.0)
        for q, k in zip(q_D, one_D, strict=True):
            total = b.fma(q, k, total)
        return b.fold(total, b.fadd)

    def put(n, x):
        b.store(b.extract_element(x, b.int(0)), b.gep(score, [n]))

    def one_key(n, largest):
        place = b.mul(n, position)
        x = dot([b.read(old_k, b.add(place, b.long(part * b.lanes))) for part in range(len(q_D))])
        put(n, x)
        return (b.larger(x, largest),)

    lowest = b.constant(float("-inf"))
    count = last if k_D is None else b.add(last, b.long(1))
    with b.if_then(b.icmp_signed("!=", b.and_(count, b.long(b.lanes - 1)), b.long(0))):
        b.write(lowest, score, b.and_(count, b.long(-b.lanes)))
    own = lowest if k_D is None else dot(k_D)
    (largest,) = b.loop(b.long(0), last, b.long(1), one_key, own)
    if k_D is not None:
        put(last, own)
    return largest


def weights(b: Code, score: Value, largest: Value, count: Value) -> Value:
    """e^(s − max s) in place of the scores; returns their sum, in every lane."""

    def some(n, total):
        weight = b.exp(b.fsub(b.read(score, n), largest))
        b.write(weight, score, n)
        return (b.fadd(total, weight),)

    (total,) = b.loop(b.long(0), count, b.long(b.lanes), some, b.constant(0.0))
    return b.fold(total, b.fadd)


def mean(b: Code, score: Value, v_D: Sequence[Value] | None, old_v, position, last, parts: int) -> list[Value]:
    """Σ of the values before `last` and the new one, if there is one, each times its weight."""

    def add(weight, values: Sequence[Value], total_D: Sequence[Value]) -> list[Value]:
        return [b.fma(weight, value, total) for value, total in zip(values, total_D, strict=True)]

    def weight(n) -> Value:
        return b.splat(b.load(b.gep(score, [n])))

    def one_value(n, *total_D):
        place = b.mul(n, position)
        return add(weight(n), [b.read(old_v, b.add(place, b.long(part * b.lanes))) for part in range(parts)], total_D)

    total_D = b.loop(b.long(0), last, b.long(1), one_value, *[b.constant(0.0)] * parts)
    return total_D if v_D is None else add(weight(last), v_D, total_D)
