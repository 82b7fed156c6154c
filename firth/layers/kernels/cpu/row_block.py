"""A block of a Transformer for the step of one text on a CPU, in one call of compiled code instead of some thirty operations.

    qkv = W N(x) + b        o = attend(q, k, v), with q and k turned, and k and v written to memory
    x ← x + W o + b         h = W N(x) + b        x ← x + W φ(h) + b

With one row a product reads its weights once and computes almost nothing: its time is that of the memory. What stands between
the products costs Python and torch a fifth of that. one_row.py is the counterpart for a GPU. Letters: B batch, T time, d width,
n and o outputs of a product, H heads, G key/value heads, D head width, C capacity, L lanes.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from firth.layers.attention import mask
from firth.layers.hook_free import Linear
from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.attention import head
from firth.layers.kernels.cpu.code import Code, Compiled, Value
from firth.layers.kernels.cpu.row_product import LANES, outputs
from firth.layers.kernels.triton import one_row
from firth.layers.known import ANY, Known
from firth.layers.norm import RMSNorm
from firth.layers.position import RotaryTurn
from firth.layers.state import FixedKeyValue, KeyValue

PRODUCTS = ("qkv", "out", "up", "down")
NORMS = ("attention", "feedforward")
FIXED = (
    *(f"{name}_{part}" for name in PRODUCTS for part in ("weight", "bias")),
    *(f"{name}_{part}" for name in NORMS for part in ("gain", "shift")),
    *("attention_eps", "feedforward_eps", "d", "qkv_n", "wide", "up_n", "hidden", "H", "shared", "scale", "barrier"),
)  # wide: H·D; shared: H / G
MEMORY = tuple(f"{name}_{part}" for name in ("keys", "values") for part in ("at", "head", "position"))
MOVING = ("x", "y", "scratch", "room", "cos", "sin", "length", "C", *MEMORY)
COUNTERS = tuple(f"taken_{stage}" for stage in ("qkv", "heads", "out", "up", "down"))
FIELDS = (*FIXED, *MOVING, *COUNTERS)
_ACTIVATIONS = ("relu", "silu", "gelu_tanh", "swiglu", "geglu_tanh")
# As on a GPU, but only dot products to all tokens so far.
KNOWS: Known = {
    **dict.fromkeys(("width", "bias", "dropout", "norm.kind", "norm.eps", "norm.bias", "feedforward.hidden"), ANY),
    **{f"attention.{name}": ANY for name in ("heads", "head_width", "kv_heads", "scale", "mask", "span", "window_pattern")},
    "attention.score": ("scaled_dot", "dot"),
    "feedforward.activation": _ACTIVATIONS,
    "norm.placement": ("pre",),
}
_WIDEST = 1 << 15  # numbers of the input of a product, of which every thread has a copy on its stack
_WIDEST_HEAD = 256
_GELU = 1.5957691216057308, 0.044715  # 2 √(2/π): ½(1 + tanh u) = σ(2u)


class RowBlockShape(NamedTuple):
    """The sizes for which the code is written."""

    head_width: int
    rms: bool
    shifted: bool  # LayerNorm with a bias
    biased: tuple[bool, ...]  # each of PRODUCTS
    activation: str


@dataclass(frozen=True, eq=False)
class Plan:
    """The arguments that are the same in every step; `reason`: why there are none.

    `held`: where each module and each tensor that they were made from is found, and the address of its numbers."""

    held: tuple[tuple[Any, str, Any, int], ...]
    hooks: tuple[Any, ...]  # of the modules; one that is registered must run
    reason: str | None
    kind: RowBlockShape | None = None
    fixed: tuple[int, ...] = ()

    def fits(self) -> bool:
        """True if the block still has the same modules and tensors, at the same places."""
        for place, name, thing, address in self.held:
            if place.get(name) is not thing or (address and thing.data_ptr() != address):
                return False
        return True


_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def run(block: Any, x_BTd: Tensor, allowed: mask.Mask, position: Any, past: Any) -> tuple[Tensor, Any] | None:
    """The block's output and state, or None if this cannot compute it."""
    if why_not(x_BTd, allowed, position, past) is not None:
        return None
    plan = _plan(block)
    if plan.reason is not None or any(plan.hooks):
        return None
    assert plan.kind is not None
    held = past if type(past) is FixedKeyValue else past.store
    if not (_readable(held.k_BGCD, plan.kind) and _readable(held.v_BGCE, plan.kind)):
        return None
    x_BTd = x_BTd.contiguous()
    y_BTd, (k_BGCD, v_BGCD, length, after) = torch.empty_like(x_BTd), _memory(past)
    (_, k_head, k_position, _), (_, v_head, v_position, _), C = k_BGCD.stride(), v_BGCD.stride(), k_BGCD.shape[2]
    room, (d, qkv_n, wide, up_n, _, H) = -(-C // LANES) * LANES, plan.fixed[_SIZES]
    scratch = x_BTd.new_empty(qkv_n + wide + d + up_n + H * room)
    turn = (0, 0) if position is None else (position.cos_TD.data_ptr(), position.sin_TD.data_ptr())
    memory = k_BGCD.data_ptr(), k_head, k_position, v_BGCD.data_ptr(), v_head, v_position
    moving = x_BTd.data_ptr(), y_BTd.data_ptr(), scratch.data_ptr(), room, *turn, length, C, *memory
    team.run(_kernel(plan.kind, position is not None), (*plan.fixed, *moving, *_UNTAKEN))
    return y_BTd, after


def _readable(x_BGCD: Tensor, kind: RowBlockShape) -> bool:
    return x_BGCD.shape[3] == kind.head_width and x_BGCD.stride(3) == 1 and x_BGCD.dtype == torch.float32


_SIZES = slice(FIXED.index("d"), FIXED.index("H") + 1)
_UNTAKEN = (0,) * len(COUNTERS)


def why_not(x_BTd: Tensor, allowed: mask.Mask, position: Any, past: Any) -> str | None:
    """The reason why no block can compute this step, or None."""
    if type(past) is not FixedKeyValue and (type(past) is not KeyValue or past.store is None):
        return "the cache does not hold plain keys and values"
    if x_BTd.dtype != torch.float32 or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return "it computes in float32, without gradients"
    if allowed is not mask.CAUSAL or torch.is_autocast_enabled("cpu"):
        return "it computes causal attention in float32"
    if position is not None and not (isinstance(position, RotaryTurn) and position.cos_TD.dtype == torch.float32):
        return "positions act on the scores"
    return team.why_not()


def _memory(past: Any) -> tuple[Tensor, Tensor, int, Any]:
    if type(past) is FixedKeyValue:
        return past.k_BGCD, past.v_BGCE, int(past.length_B), past
    store = past.store
    k_BGCD, v_BGCD, after = past.place(store.k_BGCD, store.v_BGCE, 1)
    return k_BGCD, v_BGCD, past.length, after


# ------------------------------------------------------------------------------------------------ what is the same in every step


def _plan(block: Any) -> Plan:
    plan = _plans.get(block)
    if plan is None or not plan.fits():
        plan = _plans[block] = _made(block)
    return plan


def _modules(block: Any) -> list[tuple[dict[str, Any], str, Any]]:
    """The modules, and where they are found. Those with weights come first, in the order of FIXED."""
    attention, feedforward = block.attention, block.feedforward
    of_block, of_attention, of_feedforward = block._modules, attention._modules, feedforward._modules
    products = (of_attention, "qkv"), (of_attention, "out"), (of_feedforward, "up"), (of_feedforward, "down")
    others = (of_block, "attention_norm"), (of_block, "feedforward_norm"), (of_block, "attention"), (of_block, "feedforward")
    return [(place, name, place.get(name)) for place, name in (*products, *others, (of_attention, "attend"))]


def _made(block: Any) -> Plan:
    places = _modules(block)
    modules = [module for _, _, module in places if module is not None]
    weights = [(module._parameters, name) for _, _, module in places[:6] if module is not None for name in ("weight", "bias")]
    tensors = [place.get(name) for place, name in weights]
    addresses = tuple(0 if tensor is None else tensor.data_ptr() for tensor in tensors)
    held = (
        *((*one, 0) for one in places),
        *((*place, tensor, address) for place, tensor, address in zip(weights, tensors, addresses, strict=True)),
    )
    hooks = tuple(hooks for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks))
    reason = _why_not_block(block, tensors)
    if reason is not None:
        return Plan(held, hooks, reason)
    attention, feedforward, norm = block.attention, block.feedforward, block.attention_norm
    H, D = attention.heads, attention.head_width
    biased = tuple(layer.bias is not None for layer in modules[:4])
    kind = RowBlockShape(D, type(norm) is RMSNorm, _shifted(norm), biased, feedforward.activation)
    sizes = (norm.weight.numel(), len(attention.qkv.weight), H * D, len(feedforward.up.weight), feedforward.down.weight.shape[1])
    eps = team.bits(norm.eps), team.bits(block.feedforward_norm.eps)
    rest = (H, H // attention.kv_heads, team.bits(attention.attend.scale), team.barrier())
    return Plan(held, hooks, None, kind, (*addresses, *eps, *sizes, *rest))


def _why_not_block(block: Any, tensors: Sequence[Tensor | None]) -> str | None:
    if block.why_not_row_block is not None:
        return f"it does not know {block.why_not_row_block}"
    attention, feedforward = block.attention, block.feedforward
    if any(type(layer) is not Linear for layer in (attention.qkv, attention.out, feedforward.up, feedforward.down)):
        return "its matrices have to be plain ones"
    if reason := one_row.plain(block, torch.empty(1, 1, 1), None):
        return reason
    norms = block.attention_norm, block.feedforward_norm
    if type(norms[0]) is not type(norms[1]) or _shifted(norms[0]) != _shifted(norms[1]):
        return "its two norms are of one kind"
    if any(tensor is not None and (tensor.dtype != torch.float32 or not tensor.is_contiguous()) for tensor in tensors):
        return "weights have to be contiguous, in float32"
    columns = [layer.weight.shape[1] for layer in (attention.qkv, attention.out, feedforward.down)]
    if any(count % LANES or count > _WIDEST for count in columns) or attention.head_width % (2 * LANES):
        return f"widths have to be multiples of {LANES}, at most {_WIDEST:,}, and those of heads of {2 * LANES}"
    return f"heads are wider than {_WIDEST_HEAD}" if attention.head_width > _WIDEST_HEAD else None


def _shifted(norm: Any) -> bool:
    return getattr(norm, "bias", None) is not None


# ------------------------------------------------------------------------------------------------ the code


@cache
def _kernel(kind: RowBlockShape, turned: bool) -> Compiled:
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
    buffer = b.alloca(b.float, size=size)
    buffer.align = 64
    return buffer


def _product(b: Code, kind: RowBlockShape, name: str, x, d, y, o, residual=None) -> None:
    bias = [b.address(f"{name}_bias")] if kind.biased[PRODUCTS.index(name)] else []
    outputs(b, f"taken_{name}", b.address(f"{name}_weight"), x, d, y, o, [*bias, *([] if residual is None else [residual])])


def _normalize(b: Code, kind: RowBlockShape, name: str, x, y, d) -> None:
    """y = (x − E[x]) / √(Var[x] + ε) · γ + β, or without the mean."""
    gain, shift, size = b.address(f"{name}_gain"), b.address(f"{name}_shift"), b.splat(b.sitofp(d, b.float))

    def mean(term: Callable[[Value, Value], Value]) -> Value:
        (total,) = b.loop(b.long(0), d, b.long(b.lanes), lambda k, total: (term(b.read(x, k), total),), b.constant(0.0))
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

    b.loop(b.long(0), d, b.long(b.lanes), some)


def _attend(b: Code, D: int, turns: bool, qkv, wide, o, scores) -> None:
    shared, H = b.field("shared"), b.field("H")
    parts, k_first = range(0, D, b.lanes), wide
    v_first = b.add(wide, b.mul(b.sdiv(H, shared), b.long(D)))
    keys, values = b.address("keys_at"), b.address("values_at")
    last = b.least(b.field("length"), b.sub(b.field("C"), b.long(1)))  # a full row overwrites its last token
    scale = b.number("scale")

    def read(first, n) -> list[Value]:
        return [b.read(qkv, b.add(b.add(first, b.mul(n, b.long(D))), b.long(part))) for part in parts]

    def turned(x_D: list[Value]) -> list[Value]:
        if not turns:
            return x_D
        half, cos, sin = len(x_D) // 2, b.address("cos"), b.address("sin")
        swapped = x_D[half:] + x_D[:half]
        return [
            b.fma(other, b.read(sin, b.long(part)), b.fmul(x, b.read(cos, b.long(part))))
            for part, x, other in zip(parts, x_D, swapped, strict=True)
        ]

    def one(h):
        g = b.sdiv(h, shared)
        q_D = [b.fmul(x, scale) for x in turned(read(b.long(0), h))]
        k_D, v_D = turned(read(k_first, g)), read(v_first, g)
        old_k, old_v = b.gep(keys, [b.mul(g, b.field("keys_head"))]), b.gep(values, [b.mul(g, b.field("values_head"))])
        score, out = b.gep(scores, [b.mul(h, b.field("room"))]), b.gep(o, [b.mul(h, b.long(D))])
        first = b.icmp_signed("==", b.srem(h, shared), b.long(0))
        head(b, q_D, k_D, v_D, old_k, b.field("keys_position"), old_v, b.field("values_position"), score, out, last, first)

    b.pieces("taken_heads", H, b.long(1), one)


def _activate(b: Code, activation: str, x, y, size) -> None:
    """y = φ(x), or φ(gate) ⊙ value, where gate and value are the halves of x."""
    gated = activation in ("swiglu", "geglu_tanh")

    def some(k):
        y_L = _activated(b, activation, b.read(x, k))
        b.write(b.fmul(y_L, b.read(x, b.add(k, size))) if gated else y_L, y, k)
        return ()

    b.loop(b.long(0), size, b.long(b.lanes), some)


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
