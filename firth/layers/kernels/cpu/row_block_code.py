"""The code of row_block.py. Letters: L lanes, d width, o outputs of a product, D head width."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

from firth.layers.kernels.cpu.attention_code import head
from firth.layers.kernels.cpu.code import FLOAT, LONG, Code, Compiled, Value
from firth.layers.kernels.cpu.row_block import FIELDS, PRODUCTS, RowBlockShape
from firth.layers.kernels.cpu.row_product_code import outputs

_GELU = 1.5957691216057308, 0.044715  # 2 √(2/π): ½(1 + tanh u) = σ(2u)


def block(kind: RowBlockShape, turned: bool) -> Compiled:
    """`turned`: with rotary positions."""
    b = Code("firth_row_block", FIELDS)
    d, qkv_n, wide, up_n, hidden = (b.field(name) for name in ("d", "qkv_n", "wide", "up_n", "hidden"))
    x, y, qkv = b.address("x"), b.address("y"), b.address("scratch")
    o = b.gep(qkv, [qkv_n])
    middle = b.gep(o, [wide])  # x after the attention
    up = b.gep(middle, [d])
    scores = b.gep(up, [up_n])
    small, large = _buffer(b, d), _buffer(b, hidden)

    _normalize(b, kind, "attention", x, small, d)
    _product(b, kind, "qkv", small, d, qkv, qkv_n)
    b.wait()
    _attend(b, kind.head_width, turned, qkv, wide, o, scores)
    b.wait()
    _product(b, kind, "out", o, wide, middle, d, residual=x)
    b.wait()
    _normalize(b, kind, "feedforward", middle, small, d)
    _product(b, kind, "up", small, d, up, up_n)
    b.wait()
    _activate(b, kind.activation, up, large, hidden)
    _product(b, kind, "down", large, hidden, y, d, residual=middle)
    return b.compiled()


def _buffer(b: Code, size: Value) -> Value:
    """Memory of a thread's own. What is between two products is computed by every thread, which costs less than to share it."""
    buffer = b.alloca(FLOAT, size=size)
    buffer.align = 64
    return buffer


def _product(b: Code, kind: RowBlockShape, name: str, x, d, y, o, residual=None) -> None:
    bias = [b.address(f"{name}_bias")] if kind.biased[PRODUCTS.index(name)] else []
    outputs(b, f"taken_{name}", b.address(f"{name}_weight"), x, d, y, o, [*bias, *([] if residual is None else [residual])])


def _normalize(b: Code, kind: RowBlockShape, name: str, x, y, d) -> None:
    """y = (x − E[x]) / √(Var[x] + ε) · γ + β, or without the mean."""
    gain, shift, size = b.address(f"{name}_gain"), b.address(f"{name}_shift"), b.splat(b.sitofp(d, FLOAT))

    def mean(term: Callable[[Value, Value], Value]) -> Value:
        (total,) = b.loop(LONG(0), d, LONG(b.lanes), lambda k, total: (term(b.read(x, k), total),), b.constant(0.0))
        return b.fdiv(b.fold(total, b.fadd), size)

    middle = b.constant(0.0) if kind.rms else mean(b.fadd)

    def square(x_L, total):
        apart = b.fsub(x_L, middle)
        return b.fma(apart, apart, total)

    inverse = b.fdiv(b.constant(1.0), b.sqrt(b.fadd(mean(square), b.number(f"{name}_eps"))))

    def some(k):
        y_L = b.fmul(b.fmul(b.fsub(b.read(x, k), middle), inverse), b.read(gain, k))
        b.write(b.fadd(y_L, b.read(shift, k)) if kind.shifted else y_L, y, k)
        return ()

    b.loop(LONG(0), d, LONG(b.lanes), some)


def _attend(b: Code, D: int, turns: bool, qkv, wide, o, scores) -> None:
    shared, H = b.field("shared"), b.field("H")
    parts, k_first = range(0, D, b.lanes), wide
    v_first = b.add(wide, b.mul(b.sdiv(H, shared), LONG(D)))
    keys, values = b.address("keys_at"), b.address("values_at")
    last = b.least(b.field("length"), b.sub(b.field("C"), LONG(1)))  # a full row overwrites its last token
    scale = b.number("scale")

    def read(first, n) -> list[Value]:
        return [b.read(qkv, b.add(b.add(first, b.mul(n, LONG(D))), LONG(part))) for part in parts]

    def turned(x_D: list[Value]) -> list[Value]:
        if not turns:
            return x_D
        half, cos, sin = len(x_D) // 2, b.address("cos"), b.address("sin")
        swapped = x_D[half:] + x_D[:half]
        return [
            b.fma(other, b.read(sin, LONG(part)), b.fmul(x, b.read(cos, LONG(part))))
            for part, x, other in zip(parts, x_D, swapped, strict=True)
        ]

    def one(h):
        g = b.sdiv(h, shared)
        q_D = [b.fmul(x, scale) for x in turned(read(LONG(0), h))]
        k_D, v_D = turned(read(k_first, g)), read(v_first, g)
        old_k, old_v = b.gep(keys, [b.mul(g, b.field("keys_head"))]), b.gep(values, [b.mul(g, b.field("values_head"))])
        score, out = b.gep(scores, [b.mul(h, b.field("room"))]), b.gep(o, [b.mul(h, LONG(D))])
        first = b.icmp_signed("==", b.srem(h, shared), LONG(0))
        head(b, q_D, k_D, v_D, old_k, b.field("keys_position"), old_v, b.field("values_position"), score, out, last, first)

    b.pieces("taken_heads", H, LONG(1), one)


def _activate(b: Code, activation: str, x, y, size) -> None:
    """y = φ(x), or φ(gate) ⊙ value, where gate and value are the halves of x."""
    gated = activation in ("swiglu", "geglu_tanh")

    def some(k):
        y_L = _activated(b, activation, b.read(x, k))
        b.write(b.fmul(y_L, b.read(x, b.add(k, size))) if gated else y_L, y, k)
        return ()

    b.loop(LONG(0), size, LONG(b.lanes), some)


def _activated(b: Code, activation: str, x) -> Value:
    match activation:
        case "relu":
            return b.select(b.fcmp_ordered("<", x, b.constant(0.0)), b.constant(0.0), x)
        case "silu" | "swiglu":
            inner = x
        case _:  # gelu_tanh, geglu_tanh
            outer, cubed = _GELU
            square = b.fmul(x, x)
            inner = b.fmul(b.fmul(x, b.constant(outer)), b.fma(square, b.constant(cubed), b.constant(1.0)))
    return b.fdiv(x, b.fadd(b.constant(1.0), b.exp(b.fneg(inner))))
