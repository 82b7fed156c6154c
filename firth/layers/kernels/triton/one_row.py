"""A block of a Transformer for the step of one text on a GPU, in five launches instead of some twenty.

With one row, a matrix product reads its weights once and computes almost nothing: the time is that of the memory, plus that of
every launch. So what stands before and after a product is computed by its kernel:

    qkv = W N(x) + b        o = attend(q, k, v), with q and k turned, and k and v written to memory
    x ← x + W o + b         h = φ(W N(x) + b)        x ← x + W h + b

It computes what Block computes, in float32 between the products. `why_not` lists what it cannot do, and the block then runs as
always. Letters: B batch, T time, d width, n outputs of a product, K its inputs, N outputs of a program, P padded to a power of
two.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.activation import ActivationKind, is_gated
from firth.layers.hook_free import Linear
from firth.layers.kernels import transposed_product
from firth.layers.kernels.attention import no_triton
from firth.layers.kernels.triton import few_queries
from firth.layers.kernels.triton.lazy import gdc_launch_dependents, gdc_wait, import_triton, jit, tl, triton
from firth.layers.kernels.triton.pieces import activated, moments, starts_early
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
        return product(x_BTd, W_nd, b_n)
    return transposed_product.linear(x_BTd, W_nd, b_n)


def run(block: Any, x_BTd: Tensor, allowed: Any, position: Any, past: FixedKeyValue) -> tuple[Tensor, FixedKeyValue]:
    attention, feedforward = block.attention, block.feedforward
    turn, relative = (position, None) if isinstance(position, RotaryTurn) else (None, position)
    qkv_BTn = _layer_product(x_BTd, attention.qkv, norm=block.attention_norm)
    H, D, seen = attention.heads, attention.head_width, attention.narrowed(allowed)
    raw_BHTD = qkv_BTn[..., : H * D].reshape(1, 1, H, D).transpose(1, 2)
    call = attention.attend.call(raw_BHTD, past.k_BGCD, past.v_BGCE, seen, relative, past.length_B).reduced()
    if few_queries.takes_fresh(call):
        o_BHTD = few_queries.run(call, few_queries.Fresh(qkv_BTn, turn))
    else:
        q_BHTD = place(qkv_BTn, turn, past, H)
        o_BHTD = attention.attend(q_BHTD, past.k_BGCD, past.v_BGCE, seen, relative, past.length_B)
    o_BTd = o_BHTD.transpose(1, 2).flatten(2)
    x_BTd = _layer_product(o_BTd, attention.out, residual=x_BTd)
    h_BTh = _layer_product(x_BTd, feedforward.up, norm=block.feedforward_norm, activation=feedforward.activation)
    return _layer_product(h_BTh, feedforward.down, residual=x_BTd), past


def _layer_product(x_BTd: Tensor, layer: Linear | QuantisedLinear, **around: Any) -> Tensor:
    """r + φ(W N(x) + b); `around` has those of `norm`, `activation` and `residual` that exist."""
    if isinstance(layer, QuantisedLinear):
        return layer.one_row(x_BTd, **around)
    return product(x_BTd, layer.weight, layer.bias, **around)


def product(
    x_11d: Tensor,
    W_nd: Tensor,
    b_n: Tensor | None = None,
    *,
    norm: nn.Module | None = None,
    activation: ActivationKind | None = None,
    residual: Tensor | None = None,
    tile: tuple[int, int, int] | None = None,
) -> Tensor:
    """residual + φ(W N(x) + b), any part of which may be missing. `tile`: outputs and inputs at a time, and warps."""
    import_triton(__name__)
    K, gated = x_11d.shape[-1], is_gated(activation)
    n = len(W_nd) // (2 if gated else 1)
    y_11n = torch.empty(1, 1, n, dtype=x_11d.dtype, device=x_11d.device)
    outputs, inputs, warps = tile or _tile(n, K, norm is not None, gated)
    early = starts_early(x_11d)
    gain, shift = (None, None) if norm is None else (norm.weight, getattr(norm, "bias", None))
    eps: Any = 0.0 if norm is None else norm.eps
    _product[(triton.cdiv(n, outputs),)](
        x_11d.contiguous(),
        W_nd.contiguous(),
        y_11n,
        *(x_11d if given is None else given for given in (b_n, residual, gain, shift)),
        n,
        K,
        torch.finfo(x_11d.dtype).eps if eps is None else eps,
        N=outputs,
        KB=inputs,
        KP=triton.next_power_of_2(K),
        NORM="none" if norm is None else "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        ACTIVATION=activation or "none",
        GATED=gated,
        BIAS=b_n is not None,
        RESIDUAL=residual is not None,
        SHIFT=shift is not None,
        EARLY=early,
        num_warps=warps,
        **({"launch_pdl": True} if early else {}),
    )
    return y_11n


def place(qkv_BTn: Tensor, turn: RotaryTurn | None, past: FixedKeyValue, heads: int) -> Tensor:
    """q_BHTD, turned; k, turned, and v are written to the memory of `past`."""
    import_triton(__name__)
    (B, T, _), (G, C, D) = qkv_BTn.shape, past.k_BGCD.shape[1:]
    q_BHTD = torch.empty(B, heads, T, D, dtype=qkv_BTn.dtype, device=qkv_BTn.device)
    early = starts_early(qkv_BTn)
    cos, sin = (q_BHTD, q_BHTD) if turn is None else (turn.cos_TD.contiguous(), turn.sin_TD.contiguous())
    _place[(B * T, heads + 2 * G)](
        qkv_BTn,
        q_BHTD,
        past.k_BGCD,
        past.v_BGCE,
        past.length_B,
        cos,
        sin,
        *past.k_BGCD.stride()[:3],
        *past.v_BGCE.stride()[:3],
        C,
        T,
        H=heads,
        G=G,
        D=D,
        DP=triton.next_power_of_2(D),
        TURN=turn is not None,
        EARLY=early,
        num_warps=1,
        **({"launch_pdl": True} if early else {}),
    )
    return q_BHTD


def _tile(n: int, K: int, normed: bool, gated: bool) -> tuple[int, int, int]:
    """Measured on an H200 (LOG.md, "Decoding on a GPU")."""
    if gated:
        return 2, 512, 2
    if normed:
        return 4, 512, 4
    if n >= 1 << 14:  # a vocabulary
        return (16, 256, 4) if K <= 1024 else (4, 512, 4)
    return (2, 1024, 4) if n >= 2048 else (4, 1024, 8)


@jit
def _product(  # noqa: PLR0912
    x_at, W_at, y_at, b_at, residual_at, gain_at, shift_at, n, K, eps,
    N: tl.constexpr, KB: tl.constexpr, KP: tl.constexpr,
    NORM: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SHIFT: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """x with N rows of W, and with N more if there is a gate. The loop only multiplies, and the norm enters after it, so that
    nothing waits for a sum:

        W ((x − μ) r ⊙ γ + β) = r (W (γ ⊙ x) − μ W γ) + W β

    `EARLY`: the kernel starts before the one whose x it needs has finished, and reads its first weights meanwhile."""
    out_N, k_K = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, KB)
    real_N = out_N < n
    row_N, gate_rows = out_N[:, None].to(tl.int64) * K, n.to(tl.int64) * K
    W_NK = tl.load(W_at + row_N + k_K[None, :], mask=real_N[:, None] & (k_K < K)[None, :], other=0.0)
    if GATED:
        V_NK = tl.load(W_at + gate_rows + row_N + k_K[None, :], mask=real_N[:, None] & (k_K < K)[None, :], other=0.0)
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    y_NK, gain_NK, shift_NK = (tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32))
    v_NK, gain_v_NK, shift_v_NK = (tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32))
    for at in range(0, K, KB):
        column_K = at + k_K
        real_K = column_K < K
        x_K = tl.load(x_at + column_K, mask=real_K, other=0.0).to(tl.float32)
        if NORM != "none":
            gain_K = tl.load(gain_at + column_K, mask=real_K, other=0.0).to(tl.float32)
            x_K *= gain_K
            if NORM == "layer":
                gain_NK += W_NK.to(tl.float32) * gain_K[None, :]
            if SHIFT:
                shift_K = tl.load(shift_at + column_K, mask=real_K, other=0.0).to(tl.float32)
                shift_NK += W_NK.to(tl.float32) * shift_K[None, :]
        y_NK += W_NK.to(tl.float32) * x_K[None, :]
        if GATED:
            if NORM == "layer":
                gain_v_NK += V_NK.to(tl.float32) * gain_K[None, :]
            if SHIFT:
                shift_v_NK += V_NK.to(tl.float32) * shift_K[None, :]
            v_NK += V_NK.to(tl.float32) * x_K[None, :]
        more_NK = real_N[:, None] & (column_K + KB < K)[None, :]
        W_NK = tl.load(W_at + row_N + column_K[None, :] + KB, mask=more_NK, other=0.0)
        if GATED:
            V_NK = tl.load(W_at + gate_rows + row_N + column_K[None, :] + KB, mask=more_NK, other=0.0)
    mean, scale = 0.0, 1.0
    if NORM != "none":
        mean, scale = moments(x_at, K, eps, KP, NORM)
    y_N = _finished(y_NK, gain_NK, shift_NK, mean, scale, NORM, SHIFT)
    if BIAS:
        y_N += tl.load(b_at + out_N, mask=real_N, other=0.0).to(tl.float32)
    y_N = activated(y_N, ACTIVATION)
    if GATED:
        v_N = _finished(v_NK, gain_v_NK, shift_v_NK, mean, scale, NORM, SHIFT)
        if BIAS:
            v_N += tl.load(b_at + n + out_N, mask=real_N, other=0.0).to(tl.float32)
        y_N *= v_N
    if RESIDUAL:
        y_N += tl.load(residual_at + out_N, mask=real_N, other=0.0).to(tl.float32)
    tl.store(y_at + out_N, y_N.to(y_at.dtype.element_ty), mask=real_N)


@jit
def _finished(y_NK, gain_NK, shift_NK, mean, scale, NORM: tl.constexpr, SHIFT: tl.constexpr):
    y_N = tl.sum(y_NK, 1)
    if NORM == "layer":
        y_N -= mean * tl.sum(gain_NK, 1)
    if NORM != "none":
        y_N *= scale
    if SHIFT:
        y_N += tl.sum(shift_NK, 1)
    return y_N


@jit
def _place(
    qkv_at, q_at, k_at, v_at, length_at, cos_at, sin_at, k_b, k_g, k_c, v_b, v_g, v_c, C, T,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, TURN: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of one token."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    token, head = tl.program_id(0), tl.program_id(1)
    b, t = (token // T).to(tl.int64), token % T
    d_D = tl.arange(0, DP)
    real_D = d_D < D
    from_at = qkv_at + token * (H + 2 * G) * D + head * D
    x_D = tl.load(from_at + d_D, mask=real_D, other=0.0)
    if TURN:  # noqa: SIM102  # the second is known only on the device
        if head < H + G:
            other_D = tl.load(from_at + (d_D + D // 2) % D, mask=real_D, other=0.0).to(tl.float32)
            cos_D = tl.load(cos_at + token * D + d_D, mask=real_D, other=0.0).to(tl.float32)
            sin_D = tl.load(sin_at + token * D + d_D, mask=real_D, other=0.0).to(tl.float32)
            x_D = (x_D.to(tl.float32) * cos_D + other_D * sin_D).to(x_D.dtype)
    position = tl.minimum(tl.load(length_at + b) + t, C - 1)
    if head < H:
        tl.store(q_at + ((b * H + head) * T + t) * D + d_D, x_D, mask=real_D)
    elif head < H + G:
        tl.store(k_at + b * k_b + (head - H) * k_g + position * k_c + d_D, x_D, mask=real_D)
    else:
        tl.store(v_at + b * v_b + (head - H - G) * v_g + position * v_c + d_D, x_D, mask=real_D)
