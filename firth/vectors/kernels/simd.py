"""SIMD vectors of float32 in LLVM IR: the vector width of this processor, and the few operations that the tiles need.

Everything here uses LLVM's portable vector types, so one source compiles to AVX-512, AVX2, SSE or NEON.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, attr-defined"

from __future__ import annotations

import platform
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config
from numba.core import cgutils

FLOAT, LONG, INT, VOID = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.VoidType()
Value = Any  # an LLVM value


class Host(NamedTuple):
    lanes: int  # float32 numbers in a vector register
    rows: int  # a tile of rows × targets dot products fits into registers, together with its input vectors
    targets: int


def host() -> Host:
    """The widest vectors of the processor that numba compiles for."""
    features = _features()
    if "avx512f" in features:
        return Host(16, 4, 6)  # 32 registers
    if "avx" in features:
        return Host(8, 4, 3)  # 16 registers
    if platform.machine().lower() in ("x86_64", "amd64"):
        return Host(4, 4, 3)
    return Host(4, 4, 6)  # NEON: 32 registers


def _features() -> set[str]:
    if config.CPU_FEATURES is not None:  # the user has set numba's target
        return {name[1:] for name in config.CPU_FEATURES.split(",") if name.startswith("+")}
    if config.CPU_NAME:
        return set()  # a processor chosen by name: short vectors work on every one
    return {name for name, there in llvm.get_host_cpu_features().items() if there}


def vector(lanes: int) -> ir.VectorType:
    return ir.VectorType(FLOAT, lanes)


def constant(lanes: int, value: float) -> Value:
    return ir.Constant(vector(lanes), [ir.Constant(FLOAT, value)] * lanes)


def whole(lanes: int, values) -> Value:
    """A vector of integer constants, one per lane."""
    return ir.Constant(ir.VectorType(INT, lanes), [int(value) for value in values])


def load(b, pointer, offset, lanes: int) -> Value:
    """`lanes` numbers starting at pointer[offset]; rows are aligned to four bytes only."""
    return b.load(_at(b, pointer, offset, lanes), align=4)


def store(b, value, pointer, offset) -> None:
    b.store(value, _at(b, pointer, offset, value.type.count), align=4)


def _at(b, pointer, offset, lanes: int) -> Value:
    return b.bitcast(b.gep(pointer, [offset]), vector(lanes).as_pointer())


def splat(b, scalar, lanes: int) -> Value:
    """The same number in every lane."""
    undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    return b.shuffle_vector(b.insert_element(undefined, scalar, INT(0)), undefined, whole(lanes, [0] * lanes))


def fma(b, x, y, z) -> Value:
    """x·y + z, in one instruction if the processor has it, otherwise in two."""
    return call(b, "llvm.fmuladd", x, y, z)


def call(b, name: str, *arguments) -> Value:
    """Call an LLVM intrinsic for the vector type of its arguments."""
    kind = arguments[0].type
    function = ir.FunctionType(kind, [kind] * len(arguments))
    return b.call(cgutils.get_or_insert_function(b.module, function, f"{name}.v{kind.count}f32"), arguments)


def lane_sums(b, vectors: list[Value], lanes: int) -> list[Value]:
    """The sum of each vector, with the sum of vector n in lane n: log₂ lanes rounds, each of which folds two vectors into one.

    Folding with stride s: lane l of the result is a[l] + a[l ^ s] where bit s of l is 0, and b[l] + b[l ^ s] where it is 1. That
    is two shuffles and one addition for two vectors; summing a single vector would take log₂ lanes of each.
    """
    sums = []
    for start in range(0, len(vectors), lanes):
        level: list[Value | None] = [*vectors[start : start + lanes]]
        level += [None] * (lanes - len(level))
        stride = 1
        while stride < lanes:
            # vectors n and n + 1 differ in the lowest remaining bit, which becomes bit `stride` of the lane
            level = [_fold(b, level[n], level[n + 1], stride, lanes) for n in range(0, len(level), 2)]
            stride *= 2
        sums.append(level[0])
    return sums


def _fold(b, even, odd, stride: int, lanes: int) -> Value | None:
    if even is None:
        return None
    odd = even if odd is None else odd
    straight = [lane + lanes if lane & stride else lane for lane in range(lanes)]
    crossed = [(lane ^ stride) + (lanes if lane & stride else 0) for lane in range(lanes)]
    return b.fadd(b.shuffle_vector(even, odd, whole(lanes, straight)), b.shuffle_vector(even, odd, whole(lanes, crossed)))


# 2^f on [−1/2, 1/2]: the interpolating polynomial of degree 6 at Chebyshev nodes, relative error below 1e-8
EXP2 = (1.0, 0.693147206703, 0.240226509223, 0.0555032722667, 0.00961805667858, 0.00134004281773, 0.000154614446765)
LOG2_E = 1.4426950408889634


def exp_of_minus(b, x_n, lanes: int) -> Value:
    """e^−x for x ≥ 0 with a relative error of about x·10⁻⁷, clamped at 2^−126, which no longer changes a sum with 1."""
    y = b.fmul(x_n, constant(lanes, -LOG2_E))
    y = call(b, "llvm.maxnum", y, constant(lanes, -126.0))
    nearest = call(b, "llvm.rint", y)
    f = b.fsub(y, nearest)
    power = constant(lanes, EXP2[-1])
    for coefficient in EXP2[-2::-1]:
        power = fma(b, power, f, constant(lanes, coefficient))
    exponent = b.shl(b.fptosi(nearest, ir.VectorType(INT, lanes)), whole(lanes, [23] * lanes))
    return b.bitcast(b.add(b.bitcast(power, ir.VectorType(INT, lanes)), exponent), vector(lanes))
