"""Recurrent layers in half precision on a GPU, for training: widths rounded up, and launched as one.

cuDNN's products are three times as fast if the rows of their matrices begin at multiples of 16 bytes, and then launching the
hundreds of kernels of a text takes longer than running them. So a layer is computed in `LayerBuffers`, whose widths are rounded
up, where a forward and a backward pass are recorded once and replayed. The units added have weights of zero, and so in every cell
a state of zero: they change nothing.

The numbers are float16, also where bfloat16 is asked for, and as in torch's autocast: a cell adds to its state at every step, and
with the eight bits of bfloat16 small additions would be lost. But float16 cannot hold very small numbers, and gradients are
small. So they are multiplied by a power of two before the backward pass, and divided by it afterwards.

Letters: B batch, T time, i input width, d width, g gates, D directions; J and P: i and d rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firth.layers.kernels.recorded import Recorded, lend_memory
from firth.layers.recurrent.cell import State, Weights

if TYPE_CHECKING:
    from firth.layers.recurrent.torch_cell import TorchCell

_ALIGNED = 8  # numbers of two bytes
_SCALED = -3  # log₂ of the largest gradient that the backward pass is given; the sums within it may be 2¹⁸ times as large
_EAGER = 2  # passes before one is recorded: a shape that does not come again is not worth it
_SHAPES = 4  # of which a layer keeps its buffers
_MODES = {"RNN_TANH": 1, "LSTM": 2, "GRU": 3}  # cuDNN's numbers
_buffers_of: WeakKeyDictionary[TorchCell, dict[tuple[Any, ...], list[LayerBuffers]]] = WeakKeyDictionary()


def precision(x: Tensor) -> torch.dtype | None:
    """The half precision to use, if a layer is to be trained here on x; None if torch's own way is as good."""
    if not (x.is_cuda and torch.is_grad_enabled() and torch.backends.cudnn.enabled) or torch.version.hip:
        return None
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return None
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return dtype if dtype in (torch.bfloat16, torch.float16) else None


def train(
    cell: TorchCell, x_BTi: Tensor, state_DBd: State, weights: Sequence[Weights], dtype: torch.dtype
) -> tuple[Tensor, State]:
    """h at every position as `dtype`, which its gradient then has, too; and the last state, in the type of the first."""
    flat = [part for direction in weights for part in direction]
    with torch.autocast("cuda", enabled=False):
        y_BTd, *last_DBd = _BufferedPass.apply(cell, dtype, len(state_DBd), x_BTi, *state_DBd, *flat)  # type: ignore[no-untyped-call]
    return y_BTd, tuple(last_DBd)


class _Loan:
    """Buffers in use, from a forward pass until its backward pass or until the graph is freed."""

    def __init__(self, buffers: LayerBuffers) -> None:
        self.buffers = buffers
        buffers.used = True

    def __del__(self) -> None:
        self.buffers.used = False


class _BufferedPass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: TorchCell, dtype: torch.dtype, parts: int, x_BTi: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        state_DBd, flat = rest[:parts], rest[parts:]
        buffers = _free_buffers(cell, x_BTi)
        ctx.loan = _Loan(buffers)
        ctx.set_materialize_grads(False)
        ctx.like = [(tensor.dtype, tensor.shape) for tensor in (x_BTi, *rest)]
        y_BTDd, *last_DBd = buffers.forward(x_BTi, state_DBd, flat)
        y_BTd = y_BTDd.to(dtype, memory_format=torch.contiguous_format, copy=True).flatten(-2)
        return y_BTd, *(after.to(before.dtype, copy=True) for after, before in zip(last_DBd, state_DBd, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if ctx.loan is None:
            raise RuntimeError("the backward pass of a recurrent layer in half precision was asked for twice")
        power_1 = _power([gradient for gradient in gradients if gradient is not None])
        gradients_like = zip(
            ctx.loan.buffers.backward(power_1.exp2(), *gradients), ctx.like, ctx.needs_input_grad[3:], strict=True
        )
        back_1 = power_1.neg().exp2()  # float32, and so is float16 times it
        own = [(part * back_1).to(dtype).reshape(shape) if needed else None for part, (dtype, shape), needed in gradients_like]
        ctx.loan = None
        return None, None, None, *own


def _power(gradients: Sequence[Tensor]) -> Tensor:
    """A power of two, so that nothing is rounded. It stays on the device, which nobody waits for."""
    largest = [torch.linalg.vector_norm(gradient.detach(), torch.inf, dtype=torch.float32) for gradient in gradients]
    return (_SCALED - torch.stack(largest).amax(0, keepdim=True).log2_().floor_()).clamp_(-100.0, 100.0)


def _free_buffers(cell: TorchCell, x_BTi: Tensor) -> LayerBuffers:
    """Buffers that are not in use. Most programs need one set, because backward passes return them; with several in use, each
    keeps its own states."""
    shapes, key = _buffers_of.setdefault(cell, {}), (*x_BTi.shape, x_BTi.device)
    if key not in shapes and len(shapes) == _SHAPES:
        del shapes[next(iter(shapes))]
    of_shape = shapes.setdefault(key, [])
    for buffers in of_shape:
        if not buffers.used:
            return buffers
    of_shape.append(LayerBuffers(cell, x_BTi))
    return of_shape[-1]


class LayerBuffers:
    """The buffers of one layer for inputs of one shape, and what is recorded of their use."""

    def __init__(self, cell: TorchCell, x_BTi: Tensor) -> None:
        (B, T, i), d, D, g = x_BTi.shape, cell.width, cell.directions, len(cell.gates)
        J, P = _rounded_up(i), _rounded_up(d)
        self.used, self._passes = False, 0
        self._sizes, self._parts = (i, d, g, D), len(cell.state)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float16, device=x_BTi.device)

        self._x_TBJ, self._dy_TBP = zeros(T, B, J), zeros(T, B, D * P)
        self._state_DBP, self._dlast_DBP = ([zeros(D, B, P) for _ in cell.state] for _ in range(2))
        self._weights = [zeros(*shape) for _ in range(D) for shape in ((g * P, J), (g * P, P), (g * P,), (g * P,))]
        self._options = _MODES[cell.mode], P, 0, 1, False, 0.0, True, D == 2  # mode … bidirectional, as torch orders them
        mode, *_ = self._options
        with torch.no_grad():  # from now on the weights are views of this
            self._memory = torch._cudnn_rnn_flatten_weight(self._weights, 4, J, mode, P, 0, 1, False, D == 2)
            self._memory.zero_()
        self._recorded: tuple[Recorded[list[Tensor]], Recorded[list[Tensor]]] | None = None
        self._result: list[Tensor] = []  # by the forward pass: y, the last state, what cuDNN keeps for the backward pass

    def forward(self, x_BTi: Tensor, state_DBd: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
        """h at every position, the directions on an axis of their own, and the last state; valid until the next pass."""
        i, d, _, D = self._sizes
        self._x_TBJ[..., :i].copy_(x_BTi.transpose(0, 1))
        for own_DBP, part_DBd in zip(self._state_DBP, state_DBd, strict=True):
            own_DBP[..., :d].copy_(part_DBd)
        for own, weight in zip(self._inner(self._weights), weights, strict=True):
            own.copy_(weight.reshape(own.shape))
        self._passes += 1
        if self._passes == _EAGER + 1:
            self._record()
        self._result = self._run_forward() if self._recorded is None else self._recorded[0].replay()
        y_TBP, *last_DBP = self._result[: 1 + self._parts]
        y_BTDd = _by_direction(y_TBP, D).transpose(0, 1)[..., :d]
        return [y_BTDd, *(part_DBP[..., :d] for part_DBP in last_DBP)]

    def backward(self, scale_1: Tensor, dy_BTd: Tensor | None, *dlast_DBd: Tensor | None) -> list[Tensor]:
        """The gradients of x, of the state, and of the weights, times the scale, valid until the next pass."""
        i, d, _, D = self._sizes
        dy_TBDd = None if dy_BTd is None else _by_direction(dy_BTd, D).transpose(0, 1)
        _fill(_by_direction(self._dy_TBP, D)[..., :d], dy_TBDd, scale_1)
        for own_DBP, part_DBd in zip(self._dlast_DBP, dlast_DBd, strict=True):
            _fill(own_DBP[..., :d], part_DBd, scale_1)
        gradients = self._run_backward() if self._recorded is None else self._recorded[1].replay()
        dx_TBJ, *dstate_DBP = gradients[: 1 + self._parts]
        dx_BTi, dstate_DBd = dx_TBJ[..., :i].transpose(0, 1), [part_DBP[..., :d] for part_DBP in dstate_DBP]
        return [dx_BTi, *dstate_DBd, *self._inner(gradients[1 + self._parts :])]

    def _inner(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The layer's own part of padded weights and biases: (g, d, i), (g, d, d), (g, d), (g, d) for each direction."""
        i, d, g, _ = self._sizes
        by_gate = [weight.view(g, -1, *weight.shape[1:])[:, :d] for weight in weights]
        return [part if part.ndim == 2 else part[..., : d if n % 4 else i] for n, part in enumerate(by_gate)]

    def _run_forward(self) -> list[Tensor]:
        h_DBP, c_DBP = _with_cell(self._state_DBP)
        y_TBP, *last_DBP, kept, _ = torch._cudnn_rnn(
            self._x_TBJ, self._weights, 4, self._memory, h_DBP, c_DBP, *self._options, [], None
        )
        return [y_TBP, *last_DBP[: self._parts], kept]

    def _run_backward(self) -> list[Tensor]:
        y_TBP, *_, kept = self._result
        (h_DBP, c_DBP), (dh_DBP, dc_DBP) = _with_cell(self._state_DBP), _with_cell(self._dlast_DBP)
        dx_TBJ, dfirst_DBP, dcell_DBP, dweights = torch.ops.aten._cudnn_rnn_backward(
            self._x_TBJ, self._weights, 4, self._memory, h_DBP, c_DBP, y_TBP, self._dy_TBP, dh_DBP, dc_DBP,
            *self._options, [], None, kept, [True, True, c_DBP is not None, True],
        )  # fmt: skip
        return [dx_TBJ, *(dfirst_DBP, dcell_DBP)[: self._parts], *dweights]

    def _record(self) -> None:
        memory = lend_memory(self, self._memory.device)
        forward = Recorded(self._run_forward, (), memory)
        self._result = forward.replay()
        self._recorded = forward, Recorded(self._run_backward, (), memory)


def _by_direction(y_n: Tensor, D: int) -> Tensor:
    """The directions side by side → an axis of their own before the last."""
    return y_n.reshape(*y_n.shape[:-1], D, -1)


def _with_cell(state: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """h, and c or None: an LSTM has both."""
    return state[0], state[1] if len(state) > 1 else None


def _fill(buffer: Tensor, values: Tensor | None, scale_1: Tensor) -> None:
    buffer.zero_() if values is None else torch.mul(values, scale_1, out=buffer)


def _rounded_up(width: int) -> int:
    return -(-width // _ALIGNED) * _ALIGNED
