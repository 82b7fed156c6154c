"""A block of a Transformer for the step of one text on a GPU, in five launches instead of some twenty.

With one row, a matrix product reads its weights once and computes almost nothing: the time is that of the memory, plus that of
every launch. So what stands before and after a product is computed by its kernel:

    qkv = W N(x) + b        o = attend(q, k, v), with q and k turned, and k and v written to memory
    x ← x + W o + b         h = φ(W N(x) + b)        x ← x + W h + b

It computes what Block computes, in float32 between the products. `why_not` lists what it cannot do, and the block then runs as
always. Letters: B batch, T time, d width, n outputs of a product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.hook_free import Linear
from firth.layers.kernels import transposed_product
from firth.layers.kernels.attention import no_triton
from firth.layers.kernels.triton import few_queries
from firth.layers.known import ANY, Known
from firth.layers.norm import RMSNorm
from firth.layers.position import RotaryTurn, Unprojected
from firth.layers.quantised import QuantisedLinear
from firth.layers.state import FixedKeyValue

WIDEST = 8192  # of what is normalised
# Two residual layers, x + A(N(x)) and x + F(N(x)), with softmax attention to q and k as the product gives them.
KNOWS: Known = {
    **dict.fromkeys(("width", "bias", "dropout", "bidirectional", "tables", "norm.kind", "norm.eps", "norm.bias"), ANY),
    **{f"attention.{name}": ANY for name in ("heads", "head_width", "kv_heads", "scale", "cap", "kind", "mask", "span")},
    **dict.fromkeys(("attention.window_pattern", "attention.feature_width", "feedforward.hidden"), ANY),
    "attention.score": ("scaled_dot", "dot", "gaussian", "additive"),
    "feedforward.activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"),
    "mixer": ("softmax", "window"),
    "norm.placement": ("pre",),
}
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_NORMS = (nn.LayerNorm, RMSNorm)


def why_not(block: Any, x_BTd: Tensor, position: Any, past: Any) -> str | None:
    if not isinstance(past, FixedKeyValue):
        return "the keys and values are not in memory of a fixed size"
    if not one_row(x_BTd):
        return "it is for one row on a GPU, without gradients"
    return block.why_not_one_row or plain(block, x_BTd, position)


def plain(block: Any, x_BTd: Tensor, position: Any) -> str | None:
    """The reason why a block that it knows cannot run, or None: its modules may have been replaced."""
    attention = block.attention
    if isinstance(position, Unprojected):
        return "positions are projected in every layer"
    if x_BTd.shape[2] > WIDEST:
        return f"it normalises at most {WIDEST:,} numbers; x has {x_BTd.shape[2]:,}"
    layers = (attention.qkv, attention.out, block.feedforward.up, block.feedforward.down)
    if not all(isinstance(layer, QuantisedLinear) or _plain(layer, x_BTd.dtype) for layer in layers):
        return "its products are those of quantised matrices, and of plain ones of the type of x"
    if any(type(norm) not in _NORMS for norm in (block.attention_norm, block.feedforward_norm)):
        return "it knows LayerNorm and RMSNorm"
    return None


def _plain(layer: nn.Module, dtype: torch.dtype) -> bool:
    return type(layer) is Linear and layer.weight.dtype == dtype


def one_row(x_BTd: Tensor) -> bool:
    """True if this is one row, where the kernels run."""
    on_gpu = x_BTd.is_cuda and not torch.is_grad_enabled() and no_triton("cuda") is None and not torch.compiler.is_compiling()
    return on_gpu and x_BTd.shape[0] * x_BTd.shape[1] == 1 and x_BTd.dtype in _TYPES


def linear(x_BTd: Tensor, W_nd: Tensor, b_n: Tensor | None) -> Tensor:
    """x Wᵀ + b, by the kernel where it can."""
    if one_row(x_BTd) and W_nd.dtype == x_BTd.dtype:
        from firth.layers.kernels.triton.one_row_code import product

        return product(x_BTd, W_nd, b_n)
    return transposed_product.linear(x_BTd, W_nd, b_n)


def run(block: Any, x_BTd: Tensor, allowed: Any, position: Any, past: FixedKeyValue) -> tuple[Tensor, FixedKeyValue]:
    from firth.layers.kernels.triton.few_queries_code import Fresh
    from firth.layers.kernels.triton.one_row_code import place

    attention, feedforward = block.attention, block.feedforward
    turn, relative = (position, None) if isinstance(position, RotaryTurn) else (None, position)
    qkv_BTn = product(x_BTd, attention.qkv, norm=block.attention_norm)
    H, D, seen = attention.heads, attention.head_width, attention.narrowed(allowed)
    raw_BHTD = qkv_BTn[..., : H * D].reshape(1, 1, H, D).transpose(1, 2)
    call = attention.attend.call(raw_BHTD, past.k_BGCD, past.v_BGCE, seen, relative, past.length_B).reduced()
    if few_queries.takes_fresh(call):
        o_BHTD = few_queries.run(call, Fresh(qkv_BTn, turn))
    else:
        q_BHTD = place(qkv_BTn, turn, past, H)
        o_BHTD = attention.attend(q_BHTD, past.k_BGCD, past.v_BGCE, seen, relative, past.length_B)
    o_BTd = o_BHTD.transpose(1, 2).flatten(2)
    x_BTd = product(o_BTd, attention.out, residual=x_BTd)
    h_BTh = product(x_BTd, feedforward.up, norm=block.feedforward_norm, activation=feedforward.activation)
    return product(h_BTh, feedforward.down, residual=x_BTd), past


def product(x_BTd: Tensor, layer: Linear | QuantisedLinear, **around: Any) -> Tensor:
    """r + φ(W N(x) + b), where `around` is what of `norm`, `activation` and `residual` there is."""
    if isinstance(layer, QuantisedLinear):
        return layer.one_row(x_BTd, **around)
    from firth.layers.kernels.triton.one_row_code import product as of_plain

    return of_plain(x_BTd, layer.weight, layer.bias, **around)
