"""Recurrent cells as a student would first write them: one sequence, one unit at a time, in float64, without torch.

Letters: T time, i input width, d width. Each gate has its own matrices, so the order in which a fast implementation stacks them
does not matter.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class GateWeights(NamedTuple):
    """W x + b + U h + b'. Two biases, because the GRU with reset="after" puts r around the second alone."""

    W_di: Array
    U_dd: Array
    b_d: Array
    b_hidden_d: Array


class InputGate(NamedTuple):
    """W x + b: a gate that does not depend on the state."""

    W_di: Array
    b_d: Array


class RNNTrace(NamedTuple):
    h_Td: Array


class LSTMTrace(NamedTuple):
    h_Td: Array
    c_Td: Array
    input_Td: Array
    forget_Td: Array
    candidate_Td: Array
    output_Td: Array


class GRUTrace(NamedTuple):
    h_Td: Array
    reset_Td: Array
    update_Td: Array
    candidate_Td: Array


class MinGRUTrace(NamedTuple):
    h_Td: Array
    update_Td: Array
    candidate_Td: Array


class MinLSTMTrace(NamedTuple):
    h_Td: Array
    forget_Td: Array
    input_Td: Array
    candidate_Td: Array


def rnn(x_Ti: Array, h_d: Array, gate: GateWeights) -> RNNTrace:
    """h_t = tanh(W x_t + b + U h_{t−1} + b')   (Elman 1990)."""
    T, d = len(x_Ti), len(h_d)
    h = np.zeros((T, d))
    for t in range(T):
        for j in range(d):
            h[t, j] = math.tanh(_plain(gate, j, x_Ti[t], h_d))
        h_d = h[t]
    return RNNTrace(h)


def lstm(
    x_Ti: Array,
    h_d: Array,
    c_d: Array,
    input_gate: GateWeights,
    forget_gate: GateWeights,
    candidate: GateWeights,
    output_gate: GateWeights,
) -> LSTMTrace:
    """i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), c' = f⊙c + i⊙g, h' = o⊙tanh(c')."""
    T, d = len(x_Ti), len(h_d)
    h, c, i, f, g, o = (np.zeros((T, d)) for _ in range(6))
    for t in range(T):
        for j in range(d):
            i[t, j] = _sigmoid(_plain(input_gate, j, x_Ti[t], h_d))
            f[t, j] = _sigmoid(_plain(forget_gate, j, x_Ti[t], h_d))
            g[t, j] = math.tanh(_plain(candidate, j, x_Ti[t], h_d))
            o[t, j] = _sigmoid(_plain(output_gate, j, x_Ti[t], h_d))
            c[t, j] = f[t, j] * c_d[j] + i[t, j] * g[t, j]
            h[t, j] = o[t, j] * math.tanh(c[t, j])
        h_d, c_d = h[t], c[t]
    return LSTMTrace(h, c, i, f, g, o)


def gru(
    x_Ti: Array,
    h_d: Array,
    reset_gate: GateWeights,
    update_gate: GateWeights,
    candidate: GateWeights,
    reset: Literal["after", "before"],
) -> GRUTrace:
    """r, z = σ(W x + U h + b), h' = (1 − z)⊙n + z⊙h, and two candidates that are different functions:
    reset="after"   n = tanh(W x + b + r⊙(U h + b'))   torch's and cuDNN's
    reset="before"  n = tanh(W x + b + U(r⊙h) + b')    as published (Cho et al. 2014)."""
    T, d = len(x_Ti), len(h_d)
    h, r, z, n = (np.zeros((T, d)) for _ in range(4))
    for t in range(T):
        for j in range(d):
            r[t, j] = _sigmoid(_plain(reset_gate, j, x_Ti[t], h_d))
            z[t, j] = _sigmoid(_plain(update_gate, j, x_Ti[t], h_d))
        for j in range(d):  # a second pass: "before" needs every r of this step
            from_input = _dot(candidate.W_di[j], x_Ti[t]) + candidate.b_d[j]
            if reset == "after":
                from_past = r[t, j] * (_dot(candidate.U_dd[j], h_d) + candidate.b_hidden_d[j])
            else:
                from_past = sum(candidate.U_dd[j, m] * r[t, m] * h_d[m] for m in range(d)) + candidate.b_hidden_d[j]
            n[t, j] = math.tanh(from_input + from_past)
            h[t, j] = (1 - z[t, j]) * n[t, j] + z[t, j] * h_d[j]
        h_d = h[t]
    return GRUTrace(h, r, z, n)


def mingru(x_Ti: Array, h_d: Array, update_gate: InputGate, candidate: InputGate) -> MinGRUTrace:
    """z = σ(W x + b), h̃ = g(W x + b), h' = (1 − z)⊙h + z⊙h̃, g(x) = x + 0.5 for x ≥ 0 and σ(x) for x < 0   (Feng et al. 2024)."""
    T, d = len(x_Ti), len(h_d)
    h, z, n = (np.zeros((T, d)) for _ in range(3))
    for t in range(T):
        for j in range(d):
            z[t, j] = _sigmoid(_input(update_gate, j, x_Ti[t]))
            n[t, j] = _positive(_input(candidate, j, x_Ti[t]))
            h[t, j] = (1 - z[t, j]) * h_d[j] + z[t, j] * n[t, j]
        h_d = h[t]
    return MinGRUTrace(h, z, n)


def minlstm(x_Ti: Array, h_d: Array, forget_gate: InputGate, input_gate: InputGate, candidate: InputGate) -> MinLSTMTrace:
    """f, i = σ(W x + b), h̃ = g(W x + b), f′ = f / (f + i), i′ = i / (f + i), h' = f′⊙h + i′⊙h̃   (Feng et al. 2024).
    The trace has f′ and i′."""
    T, d = len(x_Ti), len(h_d)
    h, f, i, n = (np.zeros((T, d)) for _ in range(4))
    for t in range(T):
        for j in range(d):
            forget, input = _sigmoid(_input(forget_gate, j, x_Ti[t])), _sigmoid(_input(input_gate, j, x_Ti[t]))
            f[t, j], i[t, j] = forget / (forget + input), input / (forget + input)
            n[t, j] = _positive(_input(candidate, j, x_Ti[t]))
            h[t, j] = f[t, j] * h_d[j] + i[t, j] * n[t, j]
        h_d = h[t]
    return MinLSTMTrace(h, f, i, n)


def _plain(gate: GateWeights, j: int, x_i: Array, h_d: Array) -> float:
    """Unit j of W x + b + U h + b'."""
    return _dot(gate.W_di[j], x_i) + float(gate.b_d[j]) + _dot(gate.U_dd[j], h_d) + float(gate.b_hidden_d[j])


def _input(gate: InputGate, j: int, x_i: Array) -> float:
    """Unit j of W x + b."""
    return _dot(gate.W_di[j], x_i) + float(gate.b_d[j])


def _positive(x: float) -> float:
    """g(x) = x + 0.5 for x ≥ 0, σ(x) for x < 0."""
    return x + 0.5 if x >= 0 else _sigmoid(x)


def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for left, right in zip(a, b, strict=True):
        total += float(left) * float(right)
    return total


def _sigmoid(x: float) -> float:
    # e^−x overflows a float64 below −709; the other form is the same number.
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))
