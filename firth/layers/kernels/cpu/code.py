"""LLVM IR for kernels: vectors of float32 in the width of this processor, loops, and a few functions of vectors.

LLVM's vector types are portable, so one source compiles to AVX-512, AVX2 or NEON. llvmlite is imported with the first kernel: the
files of kernels can be imported without it. Letters: L lanes.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, misc"

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

Value = Any  # an LLVM value

# 2^f on [−1/2, 1/2]: the interpolating polynomial of degree 6 at Chebyshev nodes, relative error below 1e-8
_EXP2 = (1.0, 0.693147206703, 0.240226509223, 0.0555032722667, 0.00961805667858, 0.00134004281773, 0.000154614446765)
_LOG2_E = 1.4426950408889634
_TO_WHOLE = 1.5 * 2.0**23  # adding and subtracting it rounds a float32 below 2²² to a whole number


@cache
def lanes() -> int:
    """float32 numbers in a vector: 16 with AVX-512, otherwise 8, which NEON and SSE compute in two halves."""
    import llvmlite.binding as llvm

    return 16 if llvm.get_host_cpu_features().get("avx512f") else 8


class Code:
    """The body of a kernel with these arguments. `long`, `int` and `float` are types of numbers, and make constants: `long(1)`.
    What is not defined here is a method of llvmlite's IRBuilder, which writes a single instruction."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        from llvmlite import ir

        self.lanes, self.names, self._ir = lanes(), fields, ir
        self.long, self.int, self.float = ir.IntType(64), ir.IntType(32), ir.FloatType()
        self.vector = ir.VectorType(self.float, self.lanes)
        self._nothing = ir.VoidType()
        function = ir.Function(ir.Module(name), ir.FunctionType(self._nothing, [self.long.as_pointer()]), name)
        function.attributes.add("nounwind")
        self.array = function.args[0]
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))

    def __getattr__(self, instruction: str) -> Any:
        return getattr(self._builder, instruction)

    # ---------------------------------------------------------------------------------------------- arguments and memory

    def field(self, name: str) -> Value:
        return self.load(self._place(name))

    def address(self, name: str, kind: Any = None) -> Value:
        """A field that is the address of numbers, in float32 unless another type is given."""
        return self.inttoptr(self.field(name), (kind or self.float).as_pointer())

    def number(self, name: str) -> Value:
        """A field that is a float32 number, in every lane."""
        return self.splat(self.bitcast(self.trunc(self.field(name), self.int), self.float))

    def _place(self, name: str) -> Value:
        return self.gep(self.array, [self.long(self.names.index(name))])

    def read(self, pointer, offset) -> Value:
        """L numbers from pointer[offset] on, aligned to four bytes only."""
        return self.load(self._vector_at(pointer, offset), align=4)

    def write(self, value, pointer, offset) -> None:
        self.store(value, self._vector_at(pointer, offset), align=4)

    def _vector_at(self, pointer, offset) -> Value:
        return self.bitcast(self.gep(pointer, [offset]), self.vector.as_pointer())

    # ---------------------------------------------------------------------------------------------- vectors

    def constant(self, value: float) -> Value:
        return self._ir.Constant(self.vector, [value] * self.lanes)

    def splat(self, scalar) -> Value:
        """The same number in every lane."""
        undefined = self._ir.Constant(self._ir.VectorType(scalar.type, self.lanes), self._ir.Undefined)
        return self.permute(self.insert_element(undefined, scalar, self.int(0)), undefined, [0] * self.lanes)

    def ints(self, values: Iterable[int]) -> Value:
        """A vector of whole numbers."""
        return self._ir.Constant(self._ir.VectorType(self.int, self.lanes), list(values))

    def permute(self, x, y, sources: Iterable[int]) -> Value:
        """A lane of x for each of `sources` below L, of y for the others."""
        return self.shuffle_vector(x, y, self.ints(sources))

    def fma(self, x, y, z) -> Value:
        return self._intrinsic("llvm.fma", x, y, z)

    def sqrt(self, x) -> Value:
        return self._intrinsic("llvm.sqrt", x)

    def _intrinsic(self, name: str, *arguments) -> Value:
        function = self.module.globals.get(f"{name}.v{self.lanes}f32")
        if function is None:
            kind = self._ir.FunctionType(self.vector, [self.vector] * len(arguments))
            function = self._ir.Function(self.module, kind, f"{name}.v{self.lanes}f32")
        return self.call(function, arguments)

    def exp(self, x) -> Value:
        """eˣ, at least 2^−126 and at most 2^126, with a relative error of about |x|·10⁻⁷; NaN stays NaN."""
        y = self.fmul(x, self.constant(_LOG2_E))
        y = self.select(self.fcmp_ordered("<", y, self.constant(-126.0)), self.constant(-126.0), y)
        y = self.select(self.fcmp_ordered(">", y, self.constant(126.0)), self.constant(126.0), y)
        shifted = self.fadd(y, self.constant(_TO_WHOLE))
        f = self.fsub(y, self.fsub(shifted, self.constant(_TO_WHOLE)))
        power = self.constant(_EXP2[-1])
        for coefficient in _EXP2[-2::-1]:
            power = self.fma(power, f, self.constant(coefficient))
        whole = self._ir.VectorType(self.int, self.lanes)
        exponent = self.add(self.bitcast(shifted, whole), self.ints([127] * self.lanes))
        return self.fmul(power, self.bitcast(self.shl(exponent, self.ints([23] * self.lanes)), self.vector))

    def fold(self, x, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes of x combined into one number, in every lane."""
        stride = 1
        while stride < self.lanes:
            x = combine(x, self.permute(x, x, [lane ^ stride for lane in range(self.lanes)]))
            stride *= 2
        return x

    def larger(self, x, y) -> Value:
        return self.select(self.fcmp_ordered(">", x, y), x, y)

    def transposed(self, rows: Sequence[Value]) -> list[Value]:
        """L vectors as the columns of a square; each round exchanges the off-diagonal blocks of size `stride`."""
        L, stride, columns = self.lanes, 1, list(rows)
        upper = lambda s: [lane if not lane & s else (lane ^ s) + L for lane in range(L)]  # noqa: E731
        lower = lambda s: [lane ^ s if not lane & s else lane + L for lane in range(L)]  # noqa: E731
        while stride < L:
            for n in range(L):
                if not n & stride:
                    x, y = columns[n], columns[n ^ stride]
                    columns[n], columns[n ^ stride] = self.permute(x, y, upper(stride)), self.permute(x, y, lower(stride))
            stride *= 2
        return columns

    # ---------------------------------------------------------------------------------------------- control

    def least(self, m, n) -> Value:
        return self.select(self.icmp_signed("<", m, n), m, n)

    def loop(self, start, end, step, body: Callable[..., Sequence[Value]], *carried: Value) -> list[Value]:
        """carried = body(n, *carried) for n = start, start + step … below end."""
        before = self.block
        head, inside, after = (self.append_basic_block(name) for name in ("head", "inside", "after"))
        self.branch(head)
        self.position_at_end(head)
        n = self.phi(self.long)
        n.add_incoming(start, before)
        phis = [self.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        self.cbranch(self.icmp_signed("<", n, end), inside, after)
        self.position_at_end(inside)
        changed = body(n, *phis)
        n.add_incoming(self.add(n, step), self.block)
        for phi, value in zip(phis, changed, strict=True):
            phi.add_incoming(value, self.block)
        self.branch(head)
        self.position_at_end(after)
        return phis

    def pieces(self, counter: str, count, size, body: Callable[[Value], None]) -> None:
        """body(n) for every n below `count`; each thread takes `size` of them at a time, so that a slower one takes fewer. The
        field `counter`, 0 at first, says how many are taken."""
        take, work, done = (self.append_basic_block(name) for name in ("take", "work", "done"))
        self.branch(take)
        self.position_at_end(take)
        first = self.atomic_rmw("add", self._place(counter), size, "monotonic")
        self.cbranch(self.icmp_signed("<", first, count), work, done)
        self.position_at_end(work)

        def one(n):
            body(n)
            return ()

        self.loop(first, self.least(self.add(first, size), count), self.long(1), one)
        self.branch(take)
        self.position_at_end(done)

    def wait(self) -> None:
        """Until all threads are here; the field "barrier" is the address of team.py's."""
        self.call(self.inttoptr(self.field("barrier"), self._ir.FunctionType(self._nothing, []).as_pointer()), [])

    def compiled(self) -> Compiled:
        self.ret_void()
        return Compiled(str(self.module), self.function.name)


class Compiled:
    """Machine code for this processor, which lives as long as this object."""

    def __init__(self, source: str, name: str) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        if "avx512f" in features:
            features["prefer-256-bit"] = False  # some processors compute in half vectors unless told otherwise
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=3, jit=True
        )
        module = llvm.parse_assembly(source)
        module.verify()
        passes = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(module, passes)
        self._engine = llvm.create_mcjit_compiler(module, target)
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address(name)
