"""The kernels as one differentiable operation. Letters as in call.py; N chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.kernels.attention.launch import launch
from firth.layers.kernels.attention.layout import dense_rows, empty_rows, padded
from firth.layers.kernels.attention.pieces import MatrixPointer
from firth.layers.kernels.linear_attention import kernels
from firth.layers.kernels.linear_attention.kernels import LinearAttentionConstants

CHUNK = 64
_VALUES_AT_ONCE = 32  # columns of the state per program of the sequential kernels: more programs, as these are few


def attention(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTE: Tensor,
    log_gate_BHTD: Tensor | None,
    past_BHFE: Tensor | None,
    elu: bool,
    normalized: bool,
    wants_last: bool,
) -> tuple[Tensor, Tensor | None]:
    """o and, if wanted, the state after the last token, which carries no gradient; `past` and it have z as their last column."""
    o_BHTE, last_BHFE = _LinearAttention.apply(  # type: ignore[no-untyped-call]
        *(dense_rows(x) for x in (q_BHTD, k_BHTD, v_BHTE)),
        None if log_gate_BHTD is None else dense_rows(log_gate_BHTD),
        past_BHFE,
        (elu, normalized, wants_last),
    )
    return o_BHTE, last_BHFE


@dataclass(frozen=True)
class _Shape:
    B: int
    H: int
    T: int
    D: int
    E: int
    device: int

    @property
    def N(self) -> int:
        return -(-self.T // CHUNK)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.H, self.T, self.N

    def kind(self, elu: bool, gated: bool, normalized: bool, past: bool = False, last: bool = False) -> LinearAttentionConstants:
        """The constants of the kernels that run per chunk."""
        return LinearAttentionConstants(
            self.D, self.E, padded(self.D), padded(self.E), 1, CHUNK, elu, gated, normalized, past, last
        )

    def run(self, kernel: Any, args: tuple[Any, ...], kind: LinearAttentionConstants) -> None:
        """A program for each chunk of each head."""
        wide = max(kind.BLOCK_D, kind.BLOCK_E)
        warps = 8 if wide > 64 or (wide > 32 and kind.GATED) else 4
        launch(kernel, self.B * self.H * self.N, self.device, (*args, *self.numbers), kind, num_warps=warps, num_stages=1)

    def run_in_order(self, kernel: Any, args: tuple[Any, ...], kind: LinearAttentionConstants) -> None:
        """A program for each block of values of each head, which goes through the chunks one after the other."""
        block = min(_VALUES_AT_ONCE, kind.BLOCK_E)
        kind = kind._replace(BLOCK_E=block, BLOCKS_E=-(-self.E // block))
        programs = self.B * self.H * kind.BLOCKS_E
        launch(kernel, programs, self.device, (*args, *self.numbers), kind, num_warps=4, num_stages=2)


def _matrix(x: Tensor) -> MatrixPointer:
    return MatrixPointer(x, *x.stride()[:3])


def _forward(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, past: Tensor | None, elu: bool, normalized: bool, wants_last: bool
) -> tuple[Tensor, Tensor | None, tuple[Tensor, Tensor, Tensor]]:
    """o, the last state, and what the backward pass needs: S before each chunk, z, and y."""
    (B, H, T, D), E = q.shape, v.shape[3]
    shape = _Shape(B, H, T, D, E, q.get_device())
    kind, N, float32 = shape.kind(elu, gate is not None, normalized, past is not None, wants_last), shape.N, torch.float32
    S_BHNDE, z_BHND = q.new_empty(B, H, N, D, E), q.new_empty((B, H, N, D) if normalized else (1,), dtype=float32)
    y_BHT, o_BHTE = q.new_empty((B, H, T) if normalized else (1,), dtype=float32), empty_rows(q, H, T, E)
    last = q.new_empty((B, H, D, E) if wants_last else (1,), dtype=float32)
    last_z = q.new_empty((B, H, D) if wants_last and normalized else (1,), dtype=float32)
    past_S, past_z = (last, last_z) if past is None else (past[..., :E].contiguous(), past[..., -1].contiguous())
    gates = _matrix(k if gate is None else gate)
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        into = (_matrix(k), _matrix(v), gates, past_S, past_z, S_BHNDE, z_BHND, last, last_z)
        shape.run_in_order(kernels.states_kernel, into, kind)
        out = (_matrix(q), _matrix(k), _matrix(v), gates, S_BHNDE, z_BHND, _matrix(o_BHTE), y_BHT)
        shape.run(kernels.outputs_kernel, out, kind)
    if not wants_last:
        return o_BHTE, None, (S_BHNDE, z_BHND, y_BHT)
    return o_BHTE, torch.cat((last, last_z.unsqueeze(-1)), -1) if normalized else last, (S_BHNDE, z_BHND, y_BHT)


class _LinearAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, past: Tensor | None, flags: Any) -> Any:
        o, last, kept = _forward(q, k, v, gate, past, *flags)
        ctx.flags = flags
        ctx.save_for_backward(q, k, v, gate, o, *kept)
        if last is not None:
            ctx.mark_non_differentiable(last)
        return o, last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise ConfigError('the fused kernels have no second derivative; form="chunked" has one')
        elu, normalized, _ = ctx.flags
        q, k, v, gate, o, S, z, y = ctx.saved_tensors
        return *_backward(q, k, v, gate, o, S, z, y, dense_rows(gradients[0]), elu, normalized), None, None


def _backward(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None, o: Tensor, S: Tensor, z: Tensor, y: Tensor, do: Tensor, elu: bool,
    normalized: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    (B, H, T, D), E = q.shape, v.shape[3]
    shape = _Shape(B, H, T, D, E, q.get_device())
    kind, N = shape.kind(elu, gate is not None, normalized), shape.N
    dq, dk, dv = empty_rows(q, H, T, D), empty_rows(q, H, T, D), empty_rows(q, H, T, E)
    dS, dz, dy = torch.empty_like(S), torch.empty_like(z), torch.empty_like(y)
    d_gate = q.new_empty((B, H, N * CHUNK, D) if gate is not None else (1, 1, 1, 1), dtype=torch.float32)
    d_gate_sum = q.new_empty((B, H, N, D) if gate is not None else (1,), dtype=torch.float32)
    gates, pull = _matrix(k if gate is None else gate), _matrix(do)
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        if normalized:
            shape.run(kernels.dy_kernel, (_matrix(o), pull, y, dy), kind)
        shape.run_in_order(kernels.d_states_kernel, (_matrix(q), pull, gates, y, dy, dS, dz), kind)
        args = (*map(_matrix, (q, k, v)), gates, pull, S, z, dS, dz, y, dy, *map(_matrix, (dq, dk, dv, d_gate)), d_gate_sum)
        shape.run(kernels.gradients_kernel, args, kind)
    if gate is None:
        return dq, dk, dv, None
    # What later chunks add: their sums, from the end, without the chunk's own.
    later_BHND = F.pad(d_gate_sum.flip(2).cumsum(2)[:, :, :-1], (0, 0, 1, 0)).flip(2)
    d_gate = (d_gate.view(B, H, N, CHUNK, D) + later_BHND.unsqueeze(3)).flatten(2, 3)[:, :, :T]
    return dq, dk, dv, d_gate.to(gate.dtype)
