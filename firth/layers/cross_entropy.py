"""−log softmax(x Wᵀ + b)[target] without holding all logits. Letters: N rows, R of them in a piece, V vocabulary, P the same
rounded up, d width.

The derivative by the logits is softmax − one-hot, known as soon as the logits are. So a piece of them is turned into it in place,
and its share of dx, dW and db is taken at once: no logit is computed twice, and only one piece is ever held, in the type that
the products are computed in. The softmax is in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from firth.layers.cap import capped
from firth.layers.kernels import manual_backward

SMALL = 1 << 23  # up to this many logits are held at once: below it, pieces cost more than they save
PIECE = {"cpu": 1 << 24, "cuda": 1 << 30}  # logits per piece, by device
# On these devices, rows of logits begin at multiples of this, and there are as many logits in a row, those of no token being 0:
# the fastest products need both, and few vocabularies have it. On a CPU, rows with gaps between them make x Wᵀ half as fast.
ALIGNED, ROUNDED_UP = 64, ("cuda",)

PADDING = -1  # a target that is ignored
RowLoss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(
    x_nd: Tensor,
    weight_Vd: Tensor,
    bias_V: Tensor | None,
    target_n: Tensor,
    *,
    padded: bool = False,
    smoothing: float = 0.0,
    cap: float | None = None,
    row_loss: RowLoss | None = None,
) -> Tensor:
    """The mean of −log p(target) over all rows, in float32 (or float64 if x is), p = softmax(x Wᵀ + b).

    `cap` = c: p = softmax(c tanh((x Wᵀ + b) / c)); not together with smoothing. `row_loss`: another loss of each row's logits and
    target; not together with smoothing either.

    `padded`: rows whose target is PADDING are ignored. `smoothing` = ε: the mean of −Σ_v t_v log p(v), where t is 1 − ε at the
    target and ε spread over all V (Szegedy et al. 2016, §7)."""
    x_Nd, target_N = x_nd.flatten(0, -2), target_n.flatten()
    if cap is not None or row_loss is not None:
        assert not smoothing
        return _in_pieces(x_Nd, weight_Vd, bias_V, target_N, cap, row_loss)
    loss = _nats(x_Nd, weight_Vd, bias_V, target_N, padded)
    return loss + smoothing * _distance(x_Nd, weight_Vd, bias_V, target_N) if smoothing else loss


def _nats(x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, padded: bool) -> Tensor:
    if not torch.is_grad_enabled() or len(x_Nd) * len(weight_Vd) <= SMALL:
        return _plain(x_Nd, weight_Vd, bias_V, target_N)
    device = x_Nd.device.type
    if torch.is_autocast_enabled(device):
        x_Nd = x_Nd.to(torch.get_autocast_dtype(device))
    if torch.compiler.is_compiling():
        loss: Tensor = torch.ops.firth.cross_entropy(x_Nd, weight_Vd, bias_V, target_N, padded, weight_Vd.requires_grad)[0]
        return loss
    if padded and device == "cpu" and (read_N := target_N != PADDING).any():  # elsewhere, asking would wait for the device
        x_Nd, target_N, padded = x_Nd[read_N], target_N[read_N], False
    loss = _CrossEntropy.apply(x_Nd, weight_Vd, bias_V, target_N, padded)  # type: ignore[no-untyped-call]
    return loss


def _plain(x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor) -> Tensor:
    logits_NV = F.linear(x_Nd, weight_Vd, bias_V)
    return F.cross_entropy(at_least_float32(logits_NV), target_N, ignore_index=PADDING)


def _in_pieces(
    x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, cap: float | None, row_loss: RowLoss | None
) -> Tensor:
    """In pieces, too, but each is computed again for its gradient."""

    def nats(x_Rd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_R: Tensor) -> Tensor:
        logits_RV = at_least_float32(F.linear(x_Rd, weight_Vd, bias_V))
        logits_RV = logits_RV if cap is None else capped(logits_RV, cap)
        if row_loss is not None:
            read_R = target_R != PADDING
            return row_loss(logits_RV[read_R], target_R[read_R]).sum()
        return F.cross_entropy(logits_RV, target_R, ignore_index=PADDING, reduction="sum")

    count = (target_N != PADDING).sum()
    if not torch.is_grad_enabled() or len(x_Nd) * len(weight_Vd) <= SMALL:
        return nats(x_Nd, weight_Vd, bias_V, target_N) / count
    held = PIECE.get(x_Nd.device.type, PIECE["cpu"]) // 8  # in float32, and several tensors of them
    rows = max(1, held // len(weight_Vd))
    pieces = [
        checkpoint(
            nats, x_Nd[n : n + rows], weight_Vd, bias_V, target_N[n : n + rows], use_reentrant=False, preserve_rng_state=False
        )
        for n in range(0, len(x_Nd), rows)
    ]
    return torch.stack(pieces).sum() / count


def _distance(x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor) -> Tensor:
    """The mean of z_target − Σ_v z_v / V; smoothing adds ε times this to the loss. For (1 − ε)(lse − z_target) + ε(lse − z̄) is
    (lse − z_target) + ε(z_target − z̄), and the mean of all logits is x times the mean of W's rows: no logits are needed."""
    read_N, target_N = target_N != PADDING, target_N.clamp(min=0)
    x_Nd = at_least_float32(x_Nd)
    distance_N = (x_Nd * (weight_Vd[target_N] - weight_Vd.mean(0))).sum(-1)
    if bias_V is not None:
        distance_N = distance_N + bias_V[target_N] - bias_V.mean()
    return (distance_N * read_N).sum() / read_N.sum()


class _CrossEntropy(torch.autograd.Function):
    """For eager mode; the operator below does the same, but costs half a millisecond more there."""

    @staticmethod
    def forward(ctx: Any, x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, padded: bool) -> Tensor:
        loss, *gradients = _loss_and_gradients(x_Nd, weight_Vd, bias_V, target_N, padded, ctx.needs_input_grad[1])
        ctx.save_for_backward(x_Nd, weight_Vd, bias_V, target_N, *gradients)
        return loss

    @staticmethod
    def backward(ctx: Any, *dloss: Tensor) -> tuple[Tensor | None, ...]:
        x_Nd, weight_Vd, bias_V, target_N, *gradients = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: the gradients here are plain numbers
            inputs = (x_Nd, weight_Vd) if bias_V is None else (x_Nd, weight_Vd, bias_V)
            grads = manual_backward.of_plain(lambda x, w, b=None: _plain(x, w.to(x.dtype), b, target_N), inputs, *dloss)
            return *grads, *[None] * (5 - len(grads))
        dx_Nd, dweight_Vd, dbias_V = _times(gradients, dloss[0], bias_V is not None)
        return dx_Nd, dweight_Vd if ctx.needs_input_grad[1] else None, dbias_V, None, None


def _loss_and_gradients(
    x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, padded: bool, weight_trained: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean loss, and its derivative by x, W and b; that of b is empty if there is no b, that of W if it is frozen. Products
    are in the type of x."""
    d = x_Nd.shape[1]
    if (missing := _missing_columns(x_Nd)) == 0:
        return _of_fast_width(x_Nd, weight_Vd, bias_V, target_N, padded, weight_trained)
    x_Nd, weight_Vd = F.pad(x_Nd, (0, missing)), F.pad(weight_Vd, (0, missing))
    loss, dx_Nd, dweight_Vd, dbias_V = _of_fast_width(x_Nd, weight_Vd, bias_V, target_N, padded, weight_trained)
    return loss, dx_Nd[:, :d].contiguous(), dweight_Vd[:, :d].contiguous() if weight_trained else dweight_Vd, dbias_V


def _of_fast_width(
    x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, padded: bool, weight_trained: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    N, V = len(x_Nd), len(weight_Vd)
    rows = min(N, max(1, PIECE.get(x_Nd.device.type, PIECE["cpu"]) // V))
    loss_N, dx_Nd, dweight_Vd, dbias_V = _outputs(x_Nd, weight_Vd, bias_V, weight_trained)
    low_Pd, low_P = _rounded_up(weight_Vd, x_Nd.dtype), None if bias_V is None else _rounded_up(bias_V, x_Nd.dtype)
    logits = x_Nd.new_empty(rows, len(low_Pd))
    for first in range(0, N, rows):
        x_Rd, target_R = x_Nd[first : first + rows], target_N[first : first + rows]
        logits_RP = logits[: len(x_Rd)]
        logits_RV = logits_RP[:, :V]
        if low_P is None:
            torch.mm(x_Rd, low_Pd.T, out=logits_RP)
        else:
            torch.addmm(low_P, x_Rd, low_Pd.T, out=logits_RP)
        loss_N[first : first + rows] = turn_into_gradient(logits_RV, target_R, 1 / N)
        torch.mm(logits_RP, low_Pd, out=dx_Nd[first : first + rows])
        if weight_trained:
            _add_product(dweight_Vd, logits_RV, x_Rd, first == 0)
        if bias_V is not None:
            dbias_V += logits_RV.sum(0, dtype=dbias_V.dtype)
    if not padded:
        return loss_N.mean(), dx_Nd, dweight_Vd, dbias_V
    ratio = N / (target_N != PADDING).sum()  # stays on the device, without synchronising
    for gradient in (dx_Nd, dweight_Vd, dbias_V):
        gradient.mul_(ratio)
    return loss_N.mean() * ratio, dx_Nd, dweight_Vd, dbias_V


def _multiple(V: int) -> int:
    return -(-V // ALIGNED) * ALIGNED


def _missing_columns(x_Nd: Tensor) -> int:
    """Columns of zeros after which rows of x begin at multiples of 16 bytes."""
    return -x_Nd.shape[1] % (16 // x_Nd.element_size()) if x_Nd.device.type in ROUNDED_UP else 0


def _rounded_up(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows of a weight in `dtype`, with zeros after them until there are as many as fast products need (P)."""
    V = len(weight)
    if weight.device.type not in ROUNDED_UP or _multiple(V) == V:
        return weight.to(dtype)
    rounded = weight.new_zeros(_multiple(V), *weight.shape[1:], dtype=dtype)
    rounded[:V] = weight
    return rounded


def _outputs(
    x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, weight_trained: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    loss_N = at_least_float32(x_Nd.new_empty(0)).new_empty(len(x_Nd))
    dbias_V = weight_Vd.new_empty(0) if bias_V is None else torch.zeros_like(bias_V)
    dweight_Vd = torch.empty_like(weight_Vd) if weight_trained else weight_Vd.new_empty(0)
    return loss_N, torch.empty_like(x_Nd), dweight_Vd, dbias_V


def _add_product(sum_Vd: Tensor, a_RV: Tensor, b_Rd: Tensor, first: bool) -> None:
    """sum += aᵀ b, or sum = aᵀ b; summed in the type of `sum`, which may be wider than that of the factors."""
    beta = 0 if first else 1
    if sum_Vd.dtype == a_RV.dtype:
        torch.addmm(sum_Vd, a_RV.T, b_Rd, beta=beta, out=sum_Vd)
    elif a_RV.is_cuda:
        torch.addmm(sum_Vd, a_RV.T, b_Rd, beta=beta, out_dtype=sum_Vd.dtype, out=sum_Vd)
    else:
        product_Vd = a_RV.T @ b_Rd
        sum_Vd.copy_(product_Vd) if first else sum_Vd.add_(product_Vd)


def turn_into_gradient(logits_RV: Tensor, target_R: Tensor, share: float) -> Tensor:
    """−log softmax(logits)[target] of each row; the logits become `share` · (softmax − one-hot), in place. Zeros for PADDING."""
    if logits_RV.is_cuda and _kernel() is not None:
        loss_R: Tensor = _kernel().turn_into_gradient(logits_RV, target_R, share)
        return loss_R
    z_RV = at_least_float32(logits_RV)
    read_R1 = (target_R != PADDING).unsqueeze(1)
    target_R1 = torch.where(read_R1, target_R.unsqueeze(1), 0)
    lse_R1 = z_RV.logsumexp(1, keepdim=True)
    at_R1 = z_RV.gather(1, target_R1)
    p_RV = z_RV.sub_(lse_R1).exp_()
    p_RV.scatter_add_(1, target_R1, p_RV.new_full((1, 1), -1.0).expand(len(p_RV), 1)).mul_(read_R1.to(p_RV.dtype) * share)
    logits_RV.copy_(p_RV)
    return torch.where(read_R1, lse_R1 - at_R1, 0.0).squeeze(1)


@lru_cache(maxsize=1)
def _kernel() -> Any:
    """The Triton kernel, which reads the logits once; None without Triton."""
    try:
        from firth.layers.kernels.triton import cross_entropy as cross_entropy_kernel
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        return None
    return cross_entropy_kernel


def at_least_float32(x: Tensor) -> Tensor:
    """For a softmax: half precision is too coarse."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _times(gradients: list[Tensor], dloss: Tensor, biased: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    dx_Nd, dweight_Vd, dbias_V = (gradient * dloss.to(gradient.dtype) for gradient in gradients)
    return dx_Nd, dweight_Vd, dbias_V if biased else None


_operator = torch.library.custom_op(
    "firth::cross_entropy",
    _loss_and_gradients,
    mutates_args=(),
    schema=(
        "(Tensor x, Tensor weight, Tensor? bias, Tensor target, bool padded, bool trained) -> (Tensor, Tensor, Tensor, Tensor)"
    ),
)


@_operator.register_fake
def _fake(
    x_Nd: Tensor, weight_Vd: Tensor, bias_V: Tensor | None, target_N: Tensor, padded: bool, trained: bool
) -> tuple[Tensor, ...]:
    loss_N, *gradients = _outputs(x_Nd, weight_Vd, bias_V, trained)
    return loss_N.mean(), *gradients


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.biased, ctx.trained = inputs[2] is not None, inputs[5]
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[1:])


def _derive(ctx: Any, dloss: Tensor, *_: None) -> tuple[Tensor | None, ...]:
    dx_Nd, dweight_Vd, dbias_V = _times(ctx.saved_tensors, dloss, ctx.biased)
    return dx_Nd, dweight_Vd if ctx.trained else None, dbias_V, None, None, None


_operator.register_autograd(_derive, setup_context=_keep)
