"""One step of the recurrent cells.

Letters: i input width, d width, g gates × width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.formulas import sigmoid
from firth.oracles.recurrent import GateWeights, gru, lstm, rnn


def _rnn(x_i: Array, h_d: Array, W_di: Array, U_dd: Array, b_d: Array) -> Array:
    return np.asarray(rnn(x_i[None], h_d, GateWeights(W_di, U_dd, b_d, np.zeros_like(b_d))).h_Td[0])


def _draw_rnn(generator: np.random.Generator) -> Case:
    i, d = (length(generator, 2, 5) for _ in range(2))
    return tuple(generator.normal(size=shape) for shape in ((i,), (d,), (d, i), (d, d), (d,)))


RNN_CELL = Exercise(
    "rnn_cell",
    "one step of Elman's recurrent network",
    "h′ = tanh(W x + U h + b)",
    {"x_i": "input", "h_d": "state", "W_di": "weights of the input", "U_dd": "weights of the state", "b_d": "bias"},
    {"h_d": "next state"},
    _rnn,
    (
        (
            np.array([1.0]),
            np.array([1.0, 0.0]),
            np.array([[0.5], [0.0]]),
            np.array([[0.0, 1.0], [2.0, 0.0]]),
            np.array([0.0, 1.0]),
        ),
    ),
    _draw_rnn,
    (
        WrongProgram("W x + U h + b, without tanh", lambda x, h, W, U, b: W @ x + U @ h + b),
        WrongProgram("an RNN with σ instead of tanh", lambda x, h, W, U, b: sigmoid(W @ x + U @ h + b)),
        WrongProgram("an RNN with U transposed", lambda x, h, W, U, b: np.tanh(W @ x + U.T @ h + b)),
        WrongProgram("an RNN without the bias", lambda x, h, W, U, b: np.tanh(W @ x + U @ h)),
        WrongProgram("a network that forgets its state: U h is missing", lambda x, h, W, U, b: np.tanh(W @ x + b)),
        WrongProgram("an RNN with U h added outside the tanh", lambda x, h, W, U, b: np.tanh(W @ x + b) + U @ h),
    ),
)


def _lstm(x_i: Array, h_d: Array, c_d: Array, W_gi: Array, U_gd: Array, b_g: Array) -> tuple[Array, Array]:
    gates = (np.split(part, 4) for part in (W_gi, U_gd, b_g, np.zeros_like(b_g)))
    trace = lstm(x_i[None], h_d, c_d, *(GateWeights(*one) for one in zip(*gates, strict=True)))
    return trace.h_Td[0], trace.c_Td[0]


def _draw_lstm(generator: np.random.Generator) -> Case:
    i, d = (length(generator, 2, 5) for _ in range(2))
    return tuple(generator.normal(size=shape) for shape in ((i,), (d,), (d,), (4 * d, i), (4 * d, d), (4 * d,)))


def _lstm_program(
    order: str = "ifgo",
    cell: Callable[..., Any] = lambda i, f, g, c: f * c + i * g,
    shown: Callable[[Array, Array], Array] = lambda new, old: np.tanh(new),
    candidate: Callable[[Array], Array] = np.tanh,
) -> Callable[..., tuple[Array, Array]]:
    """An LSTM with parts of it replaced. `order`: that in which it takes the four gates from the stacked matrices."""

    def program(x: Array, h: Array, c: Array, W: Array, U: Array, b: Array) -> tuple[Array, Array]:
        part = dict(zip(order, np.split(W @ x + U @ h + b, 4), strict=True))
        new = cell(sigmoid(part["i"]), sigmoid(part["f"]), candidate(part["g"]), c)
        return sigmoid(part["o"]) * shown(new, c), new

    return program


LSTM_CELL = Exercise(
    "lstm_cell",
    "one step of an LSTM",
    "[i; f; g; o] = W x + U h + b, stacked in this order        c′ = σ(f)⊙c + σ(i)⊙tanh(g)        h′ = σ(o)⊙tanh(c′)",
    {
        "x_i": "input",
        "h_d": "hidden state",
        "c_d": "cell state",
        "W_gi": "weights of the input, g = 4d",
        "U_gd": "weights of the hidden state",
        "b_g": "bias",
    },
    {"h_d": "next hidden state", "c_d": "next cell state"},
    _lstm,
    (
        (
            np.array([1.0]),
            np.array([0.0]),
            np.array([2.0]),
            np.array([[0.0], [1.0], [-1.0], [2.0]]),
            np.zeros((4, 1)),
            np.zeros(4),
        ),
    ),
    _draw_lstm,
    (
        WrongProgram("an LSTM that takes its gates in the order i, f, o, g instead of i, f, g, o", _lstm_program("ifog")),
        WrongProgram("an LSTM that takes its gates in the order i, g, f, o instead of i, f, g, o", _lstm_program("igfo")),
        WrongProgram(
            "an LSTM with the input gate and the forget gate exchanged: c′ = σ(i)⊙c + σ(f)⊙tanh(g)", _lstm_program("figo")
        ),
        WrongProgram("an LSTM whose output is σ(o)⊙c′: tanh is missing on c′", _lstm_program(shown=lambda new, old: new)),
        WrongProgram(
            "an LSTM whose output shows the old cell state, σ(o)⊙tanh(c)", _lstm_program(shown=lambda new, old: np.tanh(old))
        ),
        WrongProgram("an LSTM with σ instead of tanh on the candidate g", _lstm_program(candidate=sigmoid)),
        WrongProgram("an LSTM without the forget gate: c′ = c + σ(i)⊙tanh(g)", _lstm_program(cell=lambda i, f, g, c: c + i * g)),
        WrongProgram(
            "an LSTM with 1 − σ(i) in place of the forget gate", _lstm_program(cell=lambda i, f, g, c: (1 - i) * c + i * g)
        ),
    ),
)


def _gru(x_i: Array, h_d: Array, W_gi: Array, U_gd: Array, b_g: Array, b_hidden_g: Array) -> Array:
    gates = (np.split(part, 3) for part in (W_gi, U_gd, b_g, b_hidden_g))
    reset, update, candidate = (GateWeights(*one) for one in zip(*gates, strict=True))
    return np.asarray(gru(x_i[None], h_d, reset, update, candidate, "after").h_Td[0])


def _draw_gru(generator: np.random.Generator) -> Case:
    i, d = (length(generator, 2, 5) for _ in range(2))
    return tuple(generator.normal(size=shape) for shape in ((i,), (d,), (3 * d, i), (3 * d, d), (3 * d,), (3 * d,)))


def _gru_program(
    order: str = "rzn",
    candidate: Callable[..., Any] = lambda from_x, r, U, h, b: np.tanh(from_x + r * (U @ h + b)),
    mixed: Callable[..., Any] = lambda z, n, h: (1 - z) * n + z * h,
) -> Callable[..., Array]:
    """A GRU with parts of it replaced."""

    def program(x: Array, h: Array, W: Array, U: Array, b: Array, b_hidden: Array) -> Array:
        from_x, U_of, b_of = (dict(zip(order, np.split(part, 3), strict=True)) for part in (W @ x + b, U, b_hidden))
        r, z = (sigmoid(from_x[gate] + U_of[gate] @ h + b_of[gate]) for gate in "rz")
        return np.asarray(mixed(z, candidate(from_x["n"], r, U_of["n"], h, b_of["n"]), h))

    return program


GRU_CELL = Exercise(
    "gru_cell",
    "one step of a GRU whose reset gate acts after U",
    "r = σ(W_r x + b_r + U_r h + b′_r)        z = σ(W_z x + b_z + U_z h + b′_z)\n"
    "n = tanh(W_n x + b_n + r⊙(U_n h + b′_n))        h′ = (1 − z)⊙n + z⊙h        stacked in the order r, z, n",
    {
        "x_i": "input",
        "h_d": "state",
        "W_gi": "weights of the input, g = 3d",
        "U_gd": "weights of the state",
        "b_g": "bias b",
        "b_hidden_g": "bias b′",
    },
    {"h_d": "next state"},
    _gru,
    (
        (
            np.array([1.0]),
            np.array([2.0]),
            np.array([[1.0], [-1.0], [0.5]]),
            np.array([[0.0], [0.0], [1.0]]),
            np.zeros(3),
            np.array([0.0, 0.0, 1.0]),
        ),
    ),
    _draw_gru,
    (
        WrongProgram(
            "a GRU with z and 1 − z exchanged: h′ = z⊙n + (1 − z)⊙h", _gru_program(mixed=lambda z, n, h: z * n + (1 - z) * h)
        ),
        WrongProgram(
            "a GRU whose reset gate acts before U, as first published: n = tanh(W x + b + U(r⊙h) + b′)",
            _gru_program(candidate=lambda from_x, r, U, h, b: np.tanh(from_x + U @ (r * h) + b)),
        ),
        WrongProgram("a GRU with r and z exchanged: its gates were taken in the order z, r, n", _gru_program("zrn")),
        WrongProgram(
            "a GRU with the bias b′ of the candidate outside the reset gate: n = tanh(W x + b + r⊙(U h) + b′)",
            _gru_program(candidate=lambda from_x, r, U, h, b: np.tanh(from_x + r * (U @ h) + b)),
        ),
        WrongProgram(
            "a GRU without the reset gate", _gru_program(candidate=lambda from_x, r, U, h, b: np.tanh(from_x + U @ h + b))
        ),
        WrongProgram(
            "a GRU without tanh on the candidate", _gru_program(candidate=lambda from_x, r, U, h, b: from_x + r * (U @ h + b))
        ),
    ),
)

RECURRENT = (RNN_CELL, LSTM_CELL, GRU_CELL)
