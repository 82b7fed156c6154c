"""A block of a Transformer for the step of one text on a CPU, in one call of compiled code instead of some thirty operations.

    qkv = W N(x) + b        o = attend(q, k, v), with q and k turned, and k and v written to memory
    x ← x + W o + b         h = W N(x) + b        x ← x + W φ(h) + b

With one row a product reads its weights once and computes almost nothing: its time is that of the memory. What stands between
the products costs Python and torch a fifth of that. one_row.py is the counterpart for a GPU. Letters: B batch, T time, d width,
n outputs of a product, H heads, G key/value heads, D head width, C capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from firth.layers.attention import mask
from firth.layers.hook_free import Linear
from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.row_product import LANES
from firth.layers.kernels.triton import one_row
from firth.layers.known import ANY, Known
from firth.layers.norm import RMSNorm
from firth.layers.position import RotaryTurn
from firth.layers.state import FixedKeyValue, KeyValue

if TYPE_CHECKING:
    from firth.layers.kernels.cpu.code import Compiled

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
        return "no keys and values are cached as they are"
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
        return "its products are those of plain matrices"
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


@cache
def _kernel(kind: RowBlockShape, turned: bool) -> Compiled:
    from firth.layers.kernels.cpu.row_block_code import block

    return block(kind, turned)
