"""Attention in one pass over the keys (Dao 2023), for scores that torch does not fuse: forward and backward, in Triton.

    s_bhqk = scale · q_bhq · k_bgk + key_bias_bgk − slope_h · |q_pos − k| + table_bhqr    r = clip(k − q_pos, −left, right) + left
    p_bhqk = softmax over the visible keys of s_bhqk                                      q_pos = q_start + q
    o_bhqe = Σ_k p_bhqk v_bgke
    w_bhqr = Σ_{k : r(k) = r} p_bhqk                                                      the weights of the band, on request

and with dp_bhqk = do_bhq · v_bgk + dw_bhqr, delta_bhq = Σ_e do·o + Σ_r dw·w, ds = p ∘ (dp − delta) the derivatives. Its
span decides whether a query sees nothing, never its scores: a query that sees only −inf gives NaN, as it should.

A key at or beyond an end of the band has the first or the last column, which is one number per query: in blocks that lie wholly
there it joins the softmax's maximum and costs nothing, so only the few blocks near the diagonal gather. All scores are in powers
of 2: exp2 is what the hardware has.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.key_ranges import Spans
from firth.layers.kernels.attention import blocks
from firth.layers.kernels.attention.backward import dkv_kernel, dq_kernel
from firth.layers.kernels.attention.blocks import BlockPlan, Tile
from firth.layers.kernels.attention.forward import forward_kernel
from firth.layers.kernels.attention.launch import launch
from firth.layers.kernels.attention.layout import dense_rows, empty_rows, padded
from firth.layers.kernels.attention.operation import differentiable
from firth.layers.kernels.attention.pieces import (
    LOG2E,
    AttentionConstants,
    MatrixPointer,
    SpanRows,
    TablePointer,
)


class Band(NamedTuple):
    """The distances k − q_pos from −left to right, clipped to the ends: R = left + right + 1 columns."""

    left: int
    right: int
    table_BHQR: Tensor | None = None  # added to the scores; any strides, 0 among them
    weights: bool = False  # whether to return w_BHQR


def flash(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKE: Tensor,
    spans: Spans,
    scale: float,
    *,
    key_bias_BGK: Tensor | None = None,
    slope_H: Tensor | None = None,
    band: Band | None = None,
    q_start: int | Tensor = 0,
    causal: bool = False,
    plan: BlockPlan | None = None,
) -> tuple[Tensor, Tensor | None]:
    """o_BHQE, and w_BHQR if the band asks for its weights.

    `causal` promises that no query sees a key after its own position: then nothing to the right of the band is visible. `plan` is
    `blocks.plan` of these spans for `blocks.tiles`, if the caller has cached it; it contains the spans."""
    B, H, Q, D = q_BHQD.shape
    K, E = v_BGKE.shape[2:]
    band = band or Band(0, 0)
    table_BHQR = band.table_BHQR
    expected = (B, H, Q, band.left + band.right + 1)
    if table_BHQR is not None and table_BHQR.shape != expected:
        raise ConfigError(f"the table has shape {tuple(table_BHQR.shape)}; expected {expected}, expanded if need be")
    if plan is None:
        leaves = (q_BHQD, k_BGKD, v_BGKE, key_bias_BGK, table_BHQR)
        backward = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in leaves)
        plan = blocks.plan(spans, Q, K, blocks.tiles(D, E, table_BHQR is not None or band.weights, q_BHQD.dtype), backward)
    start_B = q_start.reshape(-1).expand(B).contiguous() if isinstance(q_start, Tensor) else None
    o_BHQE, _, w_BHQR = _differentiable(
        *(dense_rows(x) for x in (q_BHQD, k_BGKD, v_BGKE)),
        None if key_bias_BGK is None else dense_rows(key_bias_BGK.float()),
        table_BHQR,
        None if slope_H is None else dense_rows(slope_H.float()),
        start_B,
        plan.spans_sbQ,
        plan.bounds_bi4,
        scale,
        [0 if isinstance(q_start, Tensor) else q_start, band.left, band.right, int(band.weights), int(causal), *plan.numbers],
    )
    return o_BHQE, w_BHQR if band.weights else None


class _Given(NamedTuple):
    """The arguments of both operations, in the order of their schema."""

    q_BHQD: Tensor
    k_BGKD: Tensor
    v_BGKE: Tensor
    key_bias_BGK: Tensor | None
    table_BHQR: Tensor | None
    slope_H: Tensor | None
    start_B: Tensor | None
    spans_sbQ: Tensor
    bounds_bi4: Tensor
    scale: float
    numbers: list[int]  # q_start, left, right, weights, causal, those of the plan

    @property
    def q_start(self) -> int:
        return self.numbers[0]

    @property
    def band(self) -> tuple[int, int]:
        return self.numbers[1], self.numbers[2]

    @property
    def columns(self) -> int:
        return sum(self.band) + 1

    @property
    def weights(self) -> bool:
        return bool(self.numbers[3])

    @property
    def causal(self) -> bool:
        return bool(self.numbers[4])

    @property
    def plan(self) -> BlockPlan:
        return BlockPlan.of(self.spans_sbQ, self.bounds_bi4, self.numbers[5:])

    @property
    def has_backward(self) -> bool:
        """plan.backward, but from numbers that may be symbolic under torch.compile and cannot be hashed."""
        end_of_forward, _, end = self.numbers[5:8]
        return bool(end > end_of_forward)

    def spans(self) -> SpanRows:
        return SpanRows(self.spans_sbQ, self.spans_sbQ.stride(0), self.spans_sbQ.stride(1) if self.spans_sbQ.shape[1] > 1 else 0)

    def extra(self) -> tuple[Any, ...]:
        """bias and its strides, slope and table. Triton cannot return None, so absent tensors have a stand-in."""
        bias = self.key_bias_BGK
        absent = self.spans_sbQ
        return (
            *((absent, 0, 0) if bias is None else (bias, bias.stride(0), bias.stride(1))),
            absent if self.slope_H is None else self.slope_H,
            _table(self.table_BHQR, absent),
        )

    def kind(self, tile: Tile, weights: bool, table_grad: bool = False, bias_grad: bool = False) -> AttentionConstants:
        D, E = self.q_BHQD.shape[3], self.v_BGKE.shape[3]
        return AttentionConstants(
            D,
            E,
            padded(D),
            padded(E),
            tile.queries,
            tile.keys,
            tile.near,
            self.q_BHQD.shape[1] // self.k_BGKD.shape[1],
            # A negative scale would turn the largest q·k into the smallest score.
            self.key_bias_BGK is None and self.slope_H is None and self.scale > 0,
            self.key_bias_BGK is not None,
            self.slope_H is not None,
            len(self.spans_sbQ) == 4,
            self.table_BHQR is not None,
            weights,
            self.causal,
            self.start_B is not None,
            table_grad,
            bias_grad,
        )


# Few arguments: the overhead of torch's dispatch in Python grows with the square of their number.
_SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? key_bias, Tensor? table, Tensor? slope, Tensor? start, "
    "Tensor spans, Tensor bounds, float scale, SymInt[] numbers"
)


def _blocks(length: int, block: int) -> int:
    return -(-length // block)


def _matrix(x: Tensor) -> MatrixPointer:
    return MatrixPointer(x, *x.stride()[:3])


def _table(x: Tensor | None, absent: Tensor) -> TablePointer:
    return TablePointer(absent, 0, 0, 0, 0) if x is None else TablePointer(x, *x.stride())


def _with_stride(x_bm4: Tensor) -> tuple[Tensor, int]:
    return x_bm4, x_bm4.stride(0) if len(x_bm4) > 1 else 0


def _flash(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    x = _Given(*args)
    o_BHQE, lse_BHQ, w_BHQR = _outputs(x)
    if x.weights:
        w_BHQR.zero_()
    (B, H, Q, _), K, plan = x.q_BHQD.shape, x.k_BGKD.shape[2], x.plan
    tile = plan.tiles.forward
    with torch.cuda.device_of(x.q_BHQD):
        launch(
            forward_kernel,
            _blocks(Q, tile.queries) * B * H,
            x.q_BHQD.get_device(),
            (
                *(_matrix(x.q_BHQD), _matrix(x.k_BGKD), _matrix(x.v_BGKE), o_BHQE, lse_BHQ),
                *(x.spans(), *_with_stride(plan.forward_bm4), *x.extra(), w_BHQR, x.start_B),
                *(H, Q, K, x.q_start, *x.band, x.scale * LOG2E.value),
            ),
            x.kind(tile, x.weights),
            **tile.options,
        )
    return o_BHQE, lse_BHQ, w_BHQR


def _outputs(x: _Given) -> tuple[Tensor, Tensor, Tensor]:
    B, H, Q, _ = x.q_BHQD.shape
    o_BHQE = empty_rows(x.q_BHQD, H, Q, x.v_BGKE.shape[3])
    lse_BHQ = x.q_BHQD.new_empty(B, H, Q, dtype=torch.float32)
    return o_BHQE, lse_BHQ, x.q_BHQD.new_empty((B, H, Q, x.columns) if x.weights else (0,))


_GRADS = "Tensor o, Tensor lse, Tensor w, Tensor do, Tensor? dw, bool bias_grad, bool table_grad"


def _flash_backward(*args: Any) -> tuple[Tensor, ...]:
    x = _Given(*args[:-7])
    o_BHQE, lse_BHQ, w_BHQR, do_BHQE, dw_BHQR, bias_grad, table_grad = args[-7:]
    dq_BHQD, dk_BGKD, dv_BGKE, dbias_BGK, dtable_BHQR = grads = _gradients(x, bias_grad, table_grad)
    dtable_BHQR.zero_()
    (B, H, Q, _), (_, G, K, _) = x.q_BHQD.shape, x.k_BGKD.shape
    banded = x.table_BHQR is not None or dw_BHQR is not None
    stats_sBHQ = lse_BHQ.new_empty((1 if not banded else 3 if x.causal else 5, B, H, Q))
    q, k, v, do, dw = *map(_matrix, (x.q_BHQD, x.k_BGKD, x.v_BGKE, do_BHQE)), _table(dw_BHQR, x.spans_sbQ)
    numbers = (B, H, Q, K, x.q_start, *x.band, x.scale * LOG2E.value, x.scale)
    weights, device = dw_BHQR is not None, x.q_BHQD.get_device()
    plan = x.plan
    _, by_query, by_key = plan.tiles
    with torch.cuda.device_of(x.q_BHQD):
        launch(
            dq_kernel,
            _blocks(Q, by_query.queries) * B * H,
            device,
            (
                *(q, k, v, o_BHQE, do, dq_BHQD, lse_BHQ, stats_sBHQ, x.spans(), *_with_stride(plan.dq_bm4), *x.extra()),
                *(w_BHQR, dw, dtable_BHQR, x.start_B, *numbers),
            ),
            x.kind(by_query, weights, table_grad),
            **by_query.options,
        )
        launch(
            dkv_kernel,
            _blocks(K, by_key.keys) * B * G,
            device,
            (
                *(q, k, v, do, dk_BGKD, dv_BGKE, dbias_BGK, lse_BHQ, stats_sBHQ, x.spans(), *_with_stride(plan.dkv_bn4)),
                *(*x.extra(), dw, x.start_B, *numbers),
            ),
            x.kind(by_key, weights, bias_grad=bias_grad),
            **by_key.options,
        )
    return grads


def _gradients(x: _Given, bias_grad: bool, table_grad: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, H, Q, D), (_, G, K, E) = x.q_BHQD.shape, x.v_BGKE.shape
    return (
        empty_rows(x.q_BHQD, H, Q, D),
        empty_rows(x.q_BHQD, G, K, D),
        empty_rows(x.q_BHQD, G, K, E),
        x.q_BHQD.new_empty((B, G, K) if bias_grad else (0,), dtype=torch.float32),
        x.q_BHQD.new_empty((B, H, Q, x.columns) if table_grad else (0,), dtype=torch.float32),
    )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x = _Given(*inputs)
    _, lse_BHQ, w_BHQR = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(lse_BHQ, *(() if x.weights else (w_BHQR,)))
    ctx.tensors = _Given._fields.index("scale")
    ctx.save_for_backward(*inputs[: ctx.tensors], *output)
    ctx.numbers = inputs[ctx.tensors :]


def _derivative(ctx: Any, backward: Any, do_BHQE: Tensor | None, _: None, dw_BHQR: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    x = _Given(*saved[:-3], *ctx.numbers)
    if not x.has_backward:
        raise ConfigError("the plan was made without a backward pass; blocks.plan(…, backward=True) makes one with")
    o_BHQE, lse_BHQ, w_BHQR = saved[-3:]
    do_BHQE = torch.zeros_like(o_BHQE) if do_BHQE is None else dense_rows(do_BHQE)
    bias_grad, table_grad = ctx.needs_input_grad[3:5]
    dq, dk, dv, dbias, dtable = backward(*x, o_BHQE, lse_BHQ, w_BHQR, do_BHQE, dw_BHQR, bias_grad, table_grad)
    dtable = dtable.to(x.table_BHQR.dtype) if x.table_BHQR is not None and table_grad else None
    return dq, dk, dv, dbias if bias_grad else None, dtable, *[None] * (len(x) - 5)


_operator = torch.library.custom_op("firth::flash", _flash, mutates_args=(), schema=f"({_SCHEMA}) -> (Tensor, Tensor, Tensor)")
_operator.register_fake(lambda *args: _outputs(_Given(*args)))
_backward_operator = torch.library.custom_op(
    "firth::flash_backward",
    _flash_backward,
    mutates_args=(),
    schema=f"({_SCHEMA}, {_GRADS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_backward_operator.register_fake(lambda *args: _gradients(_Given(*args[:-7]), *args[-2:]))
_differentiable = differentiable(_operator, _backward_operator, _flash, _flash_backward, _remember, _derivative)
