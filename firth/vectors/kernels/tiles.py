"""word2vec's arithmetic on tiles of R inputs × T targets, as LLVM IR that stays in registers.

    x_rt = v_r · u_t        z_rt = s_t x_rt        J = Σ_rt log(1 + e^−z_rt)        s_t = +1 for the target, −1 for a negative
    g_rt = η s_t σ(−z_rt)   = −η ∂J/∂x_rt
    u_t ← u_t + Σ_r g_rt v_r        v_r ← v_r + Σ_t g_rt u_t        all computed from the weights before the step

Letters: R rows (inputs v), T targets (outputs u; inner nodes for hierarchical softmax), W lanes, d dimension.
The last d mod W numbers of a row are covered by a vector that ends at the end of the row and overlaps the one before it; lanes
already processed are masked out. If d < W, W is 1.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firth.vectors.kernels import simd as v
from firth.vectors.kernels.simd import FLOAT, INT, LONG, VOID, Value

HOST = v.host()
LANES, ROWS, TARGETS = HOST
HEIGHT_T = tuple(min(ROWS * TARGETS // max(t, 1), 2 * ROWS) for t in range(TARGETS + 1))  # rows of a tile, by number of targets
POINTER, ADDRESSES = FLOAT.as_pointer(), LONG.as_pointer()


@intrinsic
def gradients(typing, rows, R, targets, T, signs, d, rate, g_RT, totals):
    """Write g_rt for R ≤ HEIGHT_T inputs and T ≤ TARGETS targets to g_RT, and add to the loss totals.

    `rows` and `targets` are addresses of arrays of addresses; `totals` is the address of two vectors: Σ max(−z, 0) and
    Π (1 + e^−|z|), from which J = Σ + log Π (see training_loop.py).
    """
    signature = types.void(*[types.int64] * 6, types.float32, types.int64, types.int64)

    def codegen(context, builder, signature, arguments):
        rows, R, targets, T, signs, d, rate, g_RT, totals = arguments
        shared = [
            builder.inttoptr(rows, ADDRESSES),
            builder.inttoptr(targets, ADDRESSES),
            builder.inttoptr(signs, POINTER),
            d,
            rate,
            builder.inttoptr(g_RT, POINTER),
            builder.inttoptr(totals, POINTER),
        ]
        shapes = {(r, t): (LANES, r, t) for t in range(1, TARGETS + 1) for r in range(1, HEIGHT_T[t] + 1)} | {(0, 0): (1, 1, 1)}
        narrow = builder.icmp_signed("<", d, LONG(LANES))
        choice = builder.select(narrow, LONG(0), builder.add(builder.mul(R, LONG(TARGETS + 1)), T))
        cases = {r * (TARGETS + 1) + t: _gradient_tile(builder.module, *shape) for (r, t), shape in shapes.items()}
        _call_one_of(builder, choice, cases, shared)
        return context.get_dummy_value()

    return signature, codegen


# What a group of targets does with c = Σ_t g_rt u_t: write v_r + c; store c; add c to what is stored; write v_r + stored + c
DIRECT, PUT, CARRY, FINISH = range(4)


@intrinsic
def changes(typing, rows, R, targets, T, g_RT, d, row_change, target_change, stride, row_mode, distinct):
    """Apply T ≤ TARGETS targets: v_r according to `row_mode`, and u_t ← u_t + Σ_r g_rt v_r.

    If not `distinct`, a word occurs twice among the rows or the targets. Then row_mode is PUT or CARRY, the change of u is stored
    in target_change as well, and add_to_rows() writes both, so that the word changes by the sum of its parts.
    """
    signature = types.void(*[types.int64] * 11)

    def codegen(context, builder, signature, arguments):
        rows, R, targets, T, g_RT, d, row_change, target_change, stride, row_mode, distinct = arguments
        shared = [
            builder.inttoptr(rows, ADDRESSES),
            R,
            builder.inttoptr(targets, ADDRESSES),
            builder.inttoptr(g_RT, POINTER),
            d,
            builder.inttoptr(row_change, POINTER),
            builder.inttoptr(target_change, POINTER),
            stride,
        ]
        narrow = builder.icmp_signed("<", d, LONG(LANES))
        width = builder.select(narrow, LONG(0), T)
        choice = builder.add(builder.mul(builder.add(builder.mul(width, LONG(2)), distinct), LONG(4)), row_mode)
        modes = [(0, PUT), (0, CARRY), (1, DIRECT), (1, PUT), (1, CARRY), (1, FINISH)]
        shapes = {t: (LANES, t) for t in range(1, TARGETS + 1)} | {0: (1, 1)}
        module = builder.module
        cases = {
            (2 * t + alone) * 4 + mode: _change_tile(module, *shape, mode, bool(alone))
            for t, shape in shapes.items()
            for alone, mode in modes
        }
        _call_one_of(builder, choice, cases, shared)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_to_rows(typing, rows, R, d, change_Rd, stride, share):
    """v_r ← v_r + share · change_r; stride 0 adds the same change to every row."""
    signature = types.void(*[types.int64] * 5, types.float32)

    def codegen(context, builder, signature, arguments):
        rows, R, d, change_Rd, stride, share = arguments
        shared = [builder.inttoptr(rows, ADDRESSES), R, d, builder.inttoptr(change_Rd, POINTER), stride, share]
        narrow = builder.zext(builder.icmp_signed("<", d, LONG(LANES)), LONG)
        _call_one_of(builder, narrow, {0: _add_tile(builder.module, LANES), 1: _add_tile(builder.module, 1)}, shared)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def mean_of_rows(typing, rows, R, d, mean_d):
    """mean_d ← Σ_r v_r / R."""
    signature = types.void(*[types.int64] * 4)

    def codegen(context, builder, signature, arguments):
        rows, R, d, mean_d = arguments
        shared = [builder.inttoptr(rows, ADDRESSES), R, d, builder.inttoptr(mean_d, POINTER)]
        narrow = builder.zext(builder.icmp_signed("<", d, LONG(LANES)), LONG)
        _call_one_of(builder, narrow, {0: _mean_tile(builder.module, LANES), 1: _mean_tile(builder.module, 1)}, shared)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def long_at(typing, address):
    """The int64 at this address."""

    def codegen(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ADDRESSES))

    return types.int64(types.int64), codegen


@intrinsic
def prefetch(typing, address):
    """Prefetch the cache line at this address, for reading: prefetching for writing was slower, with one thread and with two."""

    def codegen(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(VOID, [pointer.type, INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, INT(0), INT(3), INT(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def _gradient_tile(module, W: int, R: int, T: int):
    kind = ir.FunctionType(VOID, [ADDRESSES, ADDRESSES, POINTER, LONG, FLOAT, POINTER, POINTER])

    def body(b, rows, targets, signs, d, rate, g_RT, totals):
        row_R, target_T = _pointers(b, rows, R), _pointers(b, targets, T)

        def dots(b, chunks, x_RT):
            for chunk in chunks:
                u_T = [chunk.new(b, v.load(b, target, chunk.offset, W)) for target in target_T]
                v_R = [v.load(b, row, chunk.offset, W) for row in row_R]
                x_RT = [v.fma(b, v_R[n // T], u_T[n % T], x) for n, x in enumerate(x_RT)]
            return x_RT

        x_RT = _over_the_row(b, d, W, [v.constant(W, 0.0)] * (R * T), dots)
        for number, x_n in enumerate(v.lane_sums(b, x_RT, W)):
            _sigmoid(b, x_n, W, T, number * W, R * T, signs, rate, g_RT, totals)

    return _function(module, f"firth_gradient_{W}_{R}_{T}", kind, body)


def _sigmoid(b, x_n, W: int, T: int, first: int, count: int, signs, rate, g_RT, totals) -> None:
    """g and the loss for dot products first … first + W − 1 of the tile's R·T, in row order."""
    sign = _signs(b, signs, W, T, first)
    zero, one = v.constant(W, 0.0), v.constant(W, 1.0)
    z_n = b.fmul(sign, x_n)
    inside = ir.Constant(ir.VectorType(ir.IntType(1), W), [first + lane < count for lane in range(W)])
    e_n = v.exp_of_minus(b, v.call(b, "llvm.fabs", z_n), W)
    one_and_e_n = b.fadd(one, e_n)
    right = b.fcmp_ordered(">=", z_n, zero)
    share_n = b.fdiv(b.select(right, e_n, one), one_and_e_n)
    v.store(b, b.fmul(b.fmul(sign, v.splat(b, rate, W)), share_n), g_RT, LONG(first))
    wrong_n = v.call(b, "llvm.maxnum", b.fneg(z_n), zero)
    linear, product = v.load(b, totals, LONG(0), W), v.load(b, totals, LONG(LANES), W)
    v.store(b, b.fadd(linear, b.select(inside, wrong_n, zero)), totals, LONG(0))
    v.store(b, b.fmul(product, b.select(inside, one_and_e_n, one)), totals, LONG(LANES))


def _signs(b, signs, W: int, T: int, first: int) -> Value:
    """s_t for each lane; lane n of the tile belongs to target n mod T."""
    s_W = v.load(b, signs, LONG(0), max(W, T))  # the buffer is longer than any tile
    pattern = [(first + lane) % T for lane in range(W)]
    return b.shuffle_vector(s_W, ir.Constant(s_W.type, ir.Undefined), v.whole(W, pattern))


def _change_tile(module, W: int, T: int, row_mode: int, distinct: bool):
    kind = ir.FunctionType(VOID, [ADDRESSES, LONG, ADDRESSES, POINTER, LONG, POINTER, POINTER, LONG])

    def body(b, rows, R, targets, g_RT, d, row_change, target_change, stride):
        target_T = _pointers(b, targets, T)

        def change(b, chunks, _):
            u_nT = [[v.load(b, target, chunk.offset, W) for target in target_T] for chunk in chunks]

            def one_row(b, r, du):
                row, aside = _pointer(b, rows, r), b.gep(row_change, [b.mul(r, stride)])
                g_T = [v.splat(b, b.load(b.gep(g_RT, [b.add(b.mul(r, LONG(T)), LONG(t))])), W) for t in range(T)]
                v_n = [v.load(b, row, chunk.offset, W) for chunk in chunks]
                dv_n = [_start(b, row_mode, v_r, aside, chunk, W) for v_r, chunk in zip(v_n, chunks, strict=True)]
                for t in range(T):
                    dv_n = [v.fma(b, g_T[t], u_T[t], dv) for u_T, dv in zip(u_nT, dv_n, strict=True)]
                for dv, chunk in zip(dv_n, chunks, strict=True):
                    place = (row, chunk.offset) if row_mode in (DIRECT, FINISH) else (aside, chunk.place)
                    v.store(b, dv, *place)
                return [v.fma(b, g_T[n % T], v_n[n // T], x) for n, x in enumerate(du)]

            du = _loop(b, R, [v.constant(W, 0.0)] * (T * len(chunks)), one_row)
            for n, du_t in enumerate(du):
                chunk, t = chunks[n // T], n % T
                if distinct:
                    v.store(b, b.fadd(u_nT[n // T][t], du_t), target_T[t], chunk.offset)
                else:
                    v.store(b, du_t, target_change, b.add(b.mul(LONG(t), stride), chunk.place))
            return []

        _over_the_row(b, d, W, [], change)

    return _function(module, f"firth_change_{W}_{T}_{row_mode}_{int(distinct)}", kind, body)


def _start(b, row_mode: int, v_r, aside, chunk: Chunk, W: int) -> Value:
    """The value that Σ_t g_rt u_t is added to."""
    match row_mode:
        case 0:  # DIRECT
            return v_r
        case 1:  # PUT
            return v.constant(W, 0.0)
        case 2:  # CARRY
            return v.load(b, aside, chunk.place, W)
    return b.fadd(v_r, v.load(b, aside, chunk.place, W))


def _add_tile(module, W: int):
    kind = ir.FunctionType(VOID, [ADDRESSES, LONG, LONG, POINTER, LONG, FLOAT])

    def body(b, rows, R, d, change_Rd, stride, share):
        share_W = v.splat(b, share, W)

        def one_row(b, r, _):
            row, change = _pointer(b, rows, r), b.gep(change_Rd, [b.mul(r, stride)])

            def add(b, chunks, _):
                places = [(v.load(b, row, chunk.offset, W), v.load(b, change, chunk.place, W)) for chunk in chunks]
                sums = [v.fma(b, share_W, change_W, old_W) for old_W, change_W in places]
                for total, chunk in zip(sums, chunks, strict=True):
                    v.store(b, total, row, chunk.offset)
                return []

            _over_the_row(b, d, W, [], add)
            return []

        _loop(b, R, [], one_row)

    return _function(module, f"firth_add_{W}", kind, body)


def _mean_tile(module, W: int):
    kind = ir.FunctionType(VOID, [ADDRESSES, LONG, LONG, POINTER])

    def body(b, rows, R, d, mean_d):
        share = v.splat(b, b.fdiv(ir.Constant(FLOAT, 1.0), b.sitofp(R, FLOAT)), W)

        def mean(b, chunks, _):
            def one_row(b, r, sums):
                row = _pointer(b, rows, r)
                return [b.fadd(total, v.load(b, row, chunk.offset, W)) for total, chunk in zip(sums, chunks, strict=True)]

            sums = _loop(b, R, [v.constant(W, 0.0)] * len(chunks), one_row)
            for total, chunk in zip(sums, chunks, strict=True):
                v.store(b, b.fmul(total, share), mean_d, chunk.offset)
            return []

        _over_the_row(b, d, W, [], mean)

    return _function(module, f"firth_mean_{W}", kind, body)


class Chunk(NamedTuple):
    """W numbers of a row."""

    offset: Value  # start within the row
    place: Value  # start within a buffer of whole chunks
    new: Callable[[Any, Value], Value]  # zeroes the lanes that the chunk before has already covered


def _over_the_row(b, d, W: int, carried: list[Value], step: Callable[..., list[Value]]) -> list[Value]:
    """carried = step(b, chunks, carried) until every number of a row of d ≥ W has been in a chunk.

    If W does not divide d, the last chunk overlaps the one before. Both come in one call: both are read before either is
    written, so their overlap agrees, and no read has to wait for a write that covers half of it.
    """
    chunks, rest = b.udiv(d, LONG(W)), b.urem(d, LONG(W))
    even = b.icmp_signed("==", rest, LONG(0))
    whole = b.select(even, chunks, b.sub(chunks, LONG(1)))

    def chunk(b, n):
        offset = b.mul(n, LONG(W))
        return Chunk(offset, offset, lambda _, x: x)

    carried = _loop(b, whole, carried, lambda b, n, carried: step(b, [chunk(b, n)], carried))
    if W == 1:
        return carried
    before = b.block
    with b.if_then(b.not_(even)):
        seen_W = v.splat(b, b.trunc(b.sub(LONG(W), rest), INT), W)
        unseen = b.icmp_signed(">=", v.whole(W, range(W)), seen_W)
        overlapping = Chunk(b.sub(d, LONG(W)), b.mul(chunks, LONG(W)), lambda b, x: b.select(unseen, x, v.constant(W, 0.0)))
        changed = step(b, [chunk(b, whole), overlapping], carried)
        last = b.block
    out = []
    for old, value in zip(carried, changed, strict=True):
        phi = b.phi(old.type)
        phi.add_incoming(old, before)
        phi.add_incoming(value, last)
        out.append(phi)
    return out


def _loop(b, count, carried: list[Value], step: Callable[..., list[Value]]) -> list[Value]:
    """carried = step(b, n, carried) for n = 0 … count − 1."""
    before = b.block
    head, inside, after = (b.append_basic_block(name) for name in ("head", "inside", "after"))
    b.branch(head)
    b.position_at_end(head)
    n = b.phi(LONG)
    n.add_incoming(LONG(0), before)
    phis = [b.phi(value.type) for value in carried]
    for phi, value in zip(phis, carried, strict=True):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", n, count), inside, after)
    b.position_at_end(inside)
    changed = step(b, n, phis)
    n.add_incoming(b.add(n, LONG(1)), b.block)
    for phi, value in zip(phis, changed, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return phis


def _pointer(b, addresses, n) -> Value:
    return b.inttoptr(b.load(b.gep(addresses, [n])), POINTER)


def _pointers(b, addresses, count: int) -> list[Value]:
    return [_pointer(b, addresses, LONG(n)) for n in range(count)]


def _function(module, name: str, kind: ir.FunctionType, body: Callable[..., None]) -> ir.Function:
    """A separate function, so that each tile has all registers to itself; emitted once per module."""
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    body(b, *function.args)
    b.ret_void()
    return function


def _call_one_of(b, choice, cases: dict[int, ir.Function], arguments: list[Value]) -> None:
    with _after(b) as after:
        switch = b.switch(choice, after)
        for value, function in cases.items():
            block = b.append_basic_block(function.name)
            switch.add_case(LONG(value), block)
            b.position_at_end(block)
            b.call(function, arguments)
            b.branch(after)


@contextmanager
def _after(b):
    after = b.append_basic_block("after")
    yield after
    b.position_at_end(after)
