"""The four kernels of linear attention in chunks. Letters as in chunked.py; `Matrix` is B,H,n,w with w dense.

    states      S_c before each chunk c, one after the other         a program per head and block of values
    outputs     o of a chunk                                         a program per chunk
    d_states    dS_c after each chunk c, from the last to the first  a program per head and block of values
    gradients   dq, dk, dv and d ln g of a chunk                     a program per chunk

A normalised attention has o = n / y with n_t = φ(q_t)ᵀS_t and y_t = φ(q_t)ᵀz_t: then dn = do / y and dy = −(do · o) / y, and y is
one more column of n, whose values are all 1.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from firth.layers.kernels.attention.pieces import put, tile, zero_matrix, zero_vector


class LinearAttentionConstants(NamedTuple):
    """All constants that a kernel is compiled for."""

    D: int
    E: int
    BLOCK_D: int
    BLOCK_E: int  # in `states` and `d_states`, which divide the values among programs; elsewhere all of them
    BLOCKS_E: int
    C: int
    ELU: bool
    GATED: bool
    NORMALIZED: bool
    PAST: bool  # whether there is a state before the first token
    LAST: bool  # whether the state after the last one is wanted


@triton.jit
def _features(x, first, T, KIND: tl.constexpr):
    """φ of a tile in float32; zero beyond the end of the text."""
    x = x.to(tl.float32)
    if KIND.ELU:
        real = (first + tl.arange(0, KIND.C)[:, None] < T) & (tl.arange(0, KIND.BLOCK_D)[None, :] < KIND.D)
        x = tl.where(real, tl.where(x > 0, x + 1, tl.exp(tl.minimum(x, 0.0))), 0.0)
    return x


@triton.jit
def _slope(x, KIND: tl.constexpr):
    """φ'(x)."""
    return tl.exp(tl.minimum(x.to(tl.float32), 0.0)) if KIND.ELU else 1.0


@triton.jit
def _at(m, head, H):
    """The first row of a head of a Matrix."""
    return m.at + tl.cast(head // H, tl.int64) * m.b + tl.cast(head % H, tl.int64) * m.h


@triton.jit
def _state_at(ptr, head, c, N, KIND: tl.constexpr, first_e):
    """Pointers to S_c of a head: F,E tiles that lie one after the other; and where they exist."""
    d, e = tl.arange(0, KIND.BLOCK_D)[:, None], first_e + tl.arange(0, KIND.BLOCK_E)[None, :]
    at = ptr + (tl.cast(head, tl.int64) * N + c) * (KIND.D * KIND.E) + d * KIND.E + e
    return at, (d < KIND.D) & (e < KIND.E)


@triton.jit
def _columns(m, head, first, first_e, T, H, KIND: tl.constexpr):
    """C rows of v or do, and of their columns the block that begins at first_e."""
    row, e = first + tl.arange(0, KIND.C)[:, None], first_e + tl.arange(0, KIND.BLOCK_E)[None, :]
    return tl.load(_at(m, head, H) + tl.cast(row, tl.int64) * m.n + e, mask=(row < T) & (e < KIND.E), other=0.0)


@triton.jit
def states_kernel(k, v, gate, past, past_z, S, z, last, last_z, H, T, N, KIND: tl.constexpr):
    head, first_e = tl.program_id(0) // KIND.BLOCKS_E, tl.program_id(0) % KIND.BLOCKS_E * KIND.BLOCK_E
    d = tl.arange(0, KIND.BLOCK_D)
    state = zero_matrix(KIND.BLOCK_D, KIND.BLOCK_E)
    state_z = zero_vector(KIND.BLOCK_D)
    if KIND.PAST:
        at_past, there_past = _state_at(past, head, 0, 1, KIND, first_e)
        state = tl.load(at_past, mask=there_past, other=0.0).to(tl.float32)
        if KIND.NORMALIZED:
            state_z = tl.load(past_z + head * KIND.D + d, mask=d < KIND.D, other=0.0).to(tl.float32)
    for c in range(N):
        at, there = _state_at(S, head, c, N, KIND, first_e)
        tl.store(at, state.to(S.dtype.element_ty), mask=there)
        if KIND.NORMALIZED and first_e == 0:
            tl.store(z + (tl.cast(head, tl.int64) * N + c) * KIND.D + d, state_z, mask=d < KIND.D)
        first = c * KIND.C
        key = _features(tile(_at(k, head, H), first, k.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True), first, T, KIND)
        value = _columns(v, head, first, first_e, T, H, KIND)
        if KIND.GATED:
            log_gate = tile(_at(gate, head, H), first, gate.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True).to(tl.float32)
            end = tl.sum(log_gate, 0)
            key = key * tl.exp(end[None, :] - tl.cumsum(log_gate, 0))
            state = state * tl.exp(end)[:, None]
        if KIND.NORMALIZED:
            state_z += tl.sum(key, 0)
        state += tl.dot(tl.trans(key.to(value.dtype)), value, input_precision="tf32x3")
    if KIND.LAST:
        at_last, there_last = _state_at(last, head, 0, 1, KIND, first_e)
        tl.store(at_last, state, mask=there_last)
        if KIND.NORMALIZED and first_e == 0:
            tl.store(last_z + head * KIND.D + d, state_z, mask=d < KIND.D)


@triton.jit
def _scaled(query, key, b, KIND: tl.constexpr):
    """φ(q)e^{b−r} and φ(k)e^{r−b}, with r the b of the middle row; and the two factors."""
    middle = tl.sum(tl.where(tl.arange(0, KIND.C)[:, None] == KIND.C // 2, b, 0.0), 0)
    up, down = tl.exp(b - middle[None, :]), tl.exp(middle[None, :] - b)
    return query * up, key * down, up, down


@triton.jit
def outputs_kernel(q, k, v, gate, S, z, o, y, H, T, N, KIND: tl.constexpr):
    head, c = tl.program_id(0) // N, tl.program_id(0) % N
    first = c * KIND.C
    row, d = tl.arange(0, KIND.C), tl.arange(0, KIND.BLOCK_D)
    query = _features(tile(_at(q, head, H), first, q.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True), first, T, KIND)
    key = _features(tile(_at(k, head, H), first, k.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True), first, T, KIND)
    value = tile(_at(v, head, H), first, v.n, T, KIND.E, KIND.C, KIND.BLOCK_E, True)
    from_past = query
    if KIND.GATED:
        b = tl.cumsum(tile(_at(gate, head, H), first, gate.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True).to(tl.float32), 0)
        from_past = query * tl.exp(b)
        query, key, _, _ = _scaled(query, key, b, KIND)
    a = tl.dot(query.to(value.dtype), tl.trans(key.to(value.dtype)), input_precision="tf32x3")
    a = tl.where(row[:, None] >= row[None, :], a, 0.0)  # above the diagonal it may be infinite
    at, there = _state_at(S, head, c, N, KIND, 0)
    state = tl.load(at, mask=there, other=0.0).to(value.dtype)
    out = tl.dot(a.to(value.dtype), value, input_precision="tf32x3")
    out += tl.dot(from_past.to(value.dtype), state, input_precision="tf32x3")
    if KIND.NORMALIZED:
        state_z = tl.load(z + (tl.cast(head, tl.int64) * N + c) * KIND.D + d, mask=d < KIND.D, other=0.0)
        total = tl.sum(a, 1) + tl.sum(query * state_z[None, :], 1)
        total = tl.where(first + row < T, total, 1.0)
        out = out / total[:, None]
        tl.store(y + tl.cast(head, tl.int64) * T + first + row, total, mask=first + row < T)
    put(_at(o, head, H), first, o.n, T, out, KIND.E, KIND.C, KIND.BLOCK_E)


@triton.jit
def dy_kernel(o, do, y, dy, H, T, N, KIND: tl.constexpr):
    """dy = −(do · o) / y."""
    head, first = tl.program_id(0) // N, tl.program_id(0) % N * KIND.C
    at = tl.cast(head, tl.int64) * T + first + tl.arange(0, KIND.C)
    real = first + tl.arange(0, KIND.C) < T
    out = tile(_at(o, head, H), first, o.n, T, KIND.E, KIND.C, KIND.BLOCK_E, True).to(tl.float32)
    pull = tile(_at(do, head, H), first, do.n, T, KIND.E, KIND.C, KIND.BLOCK_E, True).to(tl.float32)
    tl.store(dy + at, -tl.sum(out * pull, 1) / tl.load(y + at, mask=real, other=1.0), mask=real)


@triton.jit
def d_states_kernel(q, do, gate, y, dy, dS, dz, H, T, N, KIND: tl.constexpr):
    head, first_e = tl.program_id(0) // KIND.BLOCKS_E, tl.program_id(0) % KIND.BLOCKS_E * KIND.BLOCK_E
    d, row = tl.arange(0, KIND.BLOCK_D), tl.arange(0, KIND.C)
    state = zero_matrix(KIND.BLOCK_D, KIND.BLOCK_E)
    state_z = zero_vector(KIND.BLOCK_D)
    for i in range(N):
        c = N - 1 - i
        first = c * KIND.C
        at, there = _state_at(dS, head, c, N, KIND, first_e)
        tl.store(at, state.to(dS.dtype.element_ty), mask=there)
        query = _features(tile(_at(q, head, H), first, q.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True), first, T, KIND)
        pull = _columns(do, head, first, first_e, T, H, KIND)
        if KIND.GATED:
            log_gate = tile(_at(gate, head, H), first, gate.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True).to(tl.float32)
            query = query * tl.exp(tl.cumsum(log_gate, 0))
            state = state * tl.exp(tl.sum(log_gate, 0))[:, None]
        if KIND.NORMALIZED:
            at_y = tl.cast(head, tl.int64) * T + first + row
            share = tl.load(y + at_y, mask=first + row < T, other=1.0)
            if first_e == 0:
                tl.store(dz + (tl.cast(head, tl.int64) * N + c) * KIND.D + d, state_z, mask=d < KIND.D)
                state_z += tl.sum(query * tl.load(dy + at_y, mask=first + row < T, other=0.0)[:, None], 0)
            pull = (pull.to(tl.float32) / share[:, None]).to(pull.dtype)
        state += tl.dot(tl.trans(query.to(pull.dtype)), pull, input_precision="tf32x3")


@triton.jit
def gradients_kernel(
    q, k, v, gate, do, S, z, dS, dz, y, dy, dq, dk, dv, d_gate, d_gate_sum, H, T, N, KIND: tl.constexpr,
):  # fmt: skip
    """d_gate: d ln g_t from the rest of its chunk; d_gate_sum: what this chunk adds to the d ln g of all earlier ones.

    With B the sum of ln g since the start of the text, q and k appear only as q e^B and k e^−B. So dB = q ∘ dq − k ∘ dk, and
    d ln g_t = Σ_{s≥t} dB_s."""
    head, c = tl.program_id(0) // N, tl.program_id(0) % N
    first = c * KIND.C
    row, d = tl.arange(0, KIND.C), tl.arange(0, KIND.BLOCK_D)
    raw_q = tile(_at(q, head, H), first, q.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True)
    raw_k = tile(_at(k, head, H), first, k.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True)
    query, key = _features(raw_q, first, T, KIND), _features(raw_k, first, T, KIND)
    value = tile(_at(v, head, H), first, v.n, T, KIND.E, KIND.C, KIND.BLOCK_E, True)
    pull = tile(_at(do, head, H), first, do.n, T, KIND.E, KIND.C, KIND.BLOCK_E, True)
    at, there = _state_at(S, head, c, N, KIND, 0)
    state = tl.load(at, mask=there, other=0.0).to(value.dtype)
    at, there = _state_at(dS, head, c, N, KIND, 0)
    d_state = tl.load(at, mask=there, other=0.0).to(value.dtype)
    if KIND.NORMALIZED:
        at_y = tl.cast(head, tl.int64) * T + first + row
        pull_y = tl.load(dy + at_y, mask=first + row < T, other=0.0)
        pull = (pull.to(tl.float32) / tl.load(y + at_y, mask=first + row < T, other=1.0)[:, None]).to(pull.dtype)
    from_past = tl.dot(pull, tl.trans(state), input_precision="tf32x3")
    to_future = tl.dot(value, tl.trans(d_state), input_precision="tf32x3")
    kept, near_q, near_k = key, query, key  # kept: what the state after the chunk has of the keys
    if KIND.GATED:
        log_gate = tile(_at(gate, head, H), first, gate.n, T, KIND.D, KIND.C, KIND.BLOCK_D, True).to(tl.float32)
        b = tl.cumsum(log_gate, 0)
        near_q, near_k, up, down = _scaled(query, key, b, KIND)
        decay_to_end = tl.exp(tl.sum(log_gate, 0)[None, :] - b)
        kept, to_future, from_past = key * decay_to_end, to_future * decay_to_end, from_past * tl.exp(b)
    seen = row[:, None] >= row[None, :]
    a = tl.dot(near_q.to(value.dtype), tl.trans(near_k.to(value.dtype)), input_precision="tf32x3")
    a = tl.where(seen, a, 0.0).to(value.dtype)
    da = tl.dot(pull, tl.trans(value), input_precision="tf32x3")
    if KIND.NORMALIZED:
        da += pull_y[:, None]
        at_z = (tl.cast(head, tl.int64) * N + c) * KIND.D + d
        from_past += pull_y[:, None] * tl.load(z + at_z, mask=d < KIND.D, other=0.0)[None, :]
        to_future += tl.load(dz + at_z, mask=d < KIND.D, other=0.0)[None, :]
    da = tl.where(seen, da, 0.0).to(value.dtype)
    out_q = tl.dot(da, near_k.to(value.dtype), input_precision="tf32x3")
    out_k = tl.dot(tl.trans(da), near_q.to(value.dtype), input_precision="tf32x3")
    if KIND.GATED:
        out_q, out_k = out_q * up, out_k * down
    out_q, out_k = out_q + from_past, out_k + to_future
    out_v = tl.dot(tl.trans(a), pull, input_precision="tf32x3")
    out_v += tl.dot(kept.to(value.dtype), d_state, input_precision="tf32x3")
    put(_at(dv, head, H), first, dv.n, T, out_v, KIND.E, KIND.C, KIND.BLOCK_E)
    put(_at(dq, head, H), first, dq.n, T, out_q * _slope(raw_q, KIND), KIND.D, KIND.C, KIND.BLOCK_D)
    put(_at(dk, head, H), first, dk.n, T, out_k * _slope(raw_k, KIND), KIND.D, KIND.C, KIND.BLOCK_D)
    if KIND.GATED:
        dB = query * out_q - key * out_k
        put(_at(d_gate, head, H), first, d_gate.n, T, tl.cumsum(dB, 0, reverse=True), KIND.D, KIND.C, KIND.BLOCK_D)
        tl.store(d_gate_sum + (tl.cast(head, tl.int64) * N + c) * KIND.D + d, tl.sum(dB, 0), mask=d < KIND.D)
