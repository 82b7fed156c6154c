"""Positions: sinusoids, rotary embeddings and ALiBi.

Letters: T tokens, Q queries, K keys, d width, D width of a head, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.oracles import position as oracle

_BASE = 10_000.0


def _angles(start: float, T: int, width: int, exponent: float = 2.0) -> Array:
    """t ω_i for T positions and width / 2 frequencies."""
    omega_F = _BASE ** (-exponent * np.arange(width // 2) / width)
    return (start + np.arange(T))[:, None] * omega_F


def _interleaved(first: Array, second: Array) -> Array:
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


def _halves(first: Array, second: Array) -> Array:
    return np.concatenate([first, second], axis=-1)


def _sinusoids(
    join: Callable[[Array, Array], Array] = _interleaved, start: float = 0, exponent: float = 2.0
) -> Callable[[int, int], Array]:
    def program(T: int, width: int) -> Array:
        angle = _angles(start, T, width, exponent)
        return join(np.sin(angle), np.cos(angle))

    return program


SINUSOID = Exercise(
    "sinusoid",
    "the sinusoidal positions of the Transformer",
    "p_t,2i = sin(t ω_i)        p_t,2i+1 = cos(t ω_i)        ω_i = 10000^(−2i/width)        t = 0 … tokens − 1",
    {"tokens": "T, the count of positions", "width": "d, an even number"},
    {"p_Td": "a row per position, sines and cosines in turn"},
    lambda tokens, width: np.array([oracle.sinusoid(t, width) for t in range(tokens)]),
    ((2, 4), (3, 6)),
    lambda generator: (length(generator, 2, 8), 2 * length(generator, 2, 5)),
    (
        WrongProgram("sinusoids with all sines in the first half and all cosines in the second", _sinusoids(_halves)),
        WrongProgram("sinusoids that begin at position 1 instead of 0", _sinusoids(start=1)),
        WrongProgram("sinusoids with sine and cosine exchanged", _sinusoids(lambda sine, cosine: _interleaved(cosine, sine))),
        WrongProgram("sinusoids with ω_i = 10000^(−i/width): the factor 2 is missing in the exponent", _sinusoids(exponent=1.0)),
        WrongProgram("sinusoids with ω_i = 10000^(−4i/width): the exponent has the factor 2 twice", _sinusoids(exponent=4.0)),
    ),
)


def _turned(first: Array, second: Array, angle: Array) -> tuple[Array, Array]:
    return first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)


def _by_halves(x_TD: Array, angle: Array) -> Array:
    half = x_TD.shape[1] // 2
    return _halves(*_turned(x_TD[:, :half], x_TD[:, half:], angle))


def _rotary(
    turn: Callable[[Array, Array], Array] = _by_halves,
    sign: float = 1.0,
    exponent: float = 2.0,
    begin: Callable[[int], int] = lambda start: start,
) -> Callable[[Array, int], Array]:
    return lambda x_TD, start: turn(x_TD, sign * _angles(begin(start), len(x_TD), x_TD.shape[1], exponent))


def _first_half_only(x_TD: Array, angle: Array) -> Array:
    half = x_TD.shape[1] // 2
    return _halves(_by_halves(x_TD, angle)[:, :half], x_TD[:, half:])


ROTARY = Exercise(
    "rotary",
    "rotary position embedding",
    "each pair (x_i, x_{i+D/2}) of row t turned by the angle (start + t) ω_i        ω_i = 10000^(−2i/D)\n"
    "(a, b) ↦ (a cos θ − b sin θ, b cos θ + a sin θ)",
    {"x_TD": "queries or keys of one head; D is even", "start": "position of the first row"},
    {"y_TD": "turned rows"},
    lambda x_TD, start: np.array([oracle.rotate(x_D, start + t) for t, x_D in enumerate(x_TD)]),
    ((np.array([[1.0, 0.0, 0.0, 2.0], [1.0, 0.0, 0.0, 2.0]]), 0), (np.array([[1.0, 2.0, 3.0, 4.0]]), 2)),
    lambda generator: (
        generator.normal(size=(length(generator, 2, 5), 2 * length(generator, 2, 4))),
        length(generator, 1, 9),
    ),
    (
        WrongProgram(
            "rotary embedding of neighbouring pairs (x_2i, x_2i+1) instead of halves (x_i, x_i+D/2)",
            _rotary(lambda x_TD, angle: _interleaved(*_turned(x_TD[:, ::2], x_TD[:, 1::2], angle))),
        ),
        WrongProgram("rotary embedding that turns by −θ instead of +θ", _rotary(sign=-1.0)),
        WrongProgram(
            "rotary embedding with the two halves exchanged in the result",
            _rotary(lambda x_TD, angle: np.roll(_by_halves(x_TD, angle), x_TD.shape[1] // 2, axis=1)),
        ),
        WrongProgram("rotary embedding that ignores `start`", _rotary(begin=lambda start: 0)),
        WrongProgram("rotary embedding that begins one position too late", _rotary(begin=lambda start: start + 1)),
        WrongProgram("rotary embedding with ω_i = 10000^(−i/D): the factor 2 is missing in the exponent", _rotary(exponent=1.0)),
        WrongProgram("rotary embedding that leaves the second half as it was", _rotary(_first_half_only)),
    ),
)


def _alibi_oracle(heads: int, queries: int, keys: int) -> Array:
    bias = oracle.alibi(np.array(oracle.slopes(heads))).bias
    start = keys - queries
    return np.array([[[bias(h, k - start - q) for k in range(keys)] for q in range(queries)] for h in range(heads)])


def _alibi(
    slopes: Callable[[int], Any] = lambda heads: 2.0 ** (-8 * np.arange(1, heads + 1) / heads),
    bias: Callable[[Any], Any] = lambda distance: -np.abs(distance),
    aligned: bool = True,
) -> Callable[[int, int, int], Array]:
    def program(heads: int, queries: int, keys: int) -> Array:
        distance_QK = np.arange(keys) - (np.arange(queries) + (keys - queries if aligned else 0))[:, None]
        return np.asarray(slopes(heads)[:, None, None] * bias(distance_QK))

    return program


def _draw_alibi(generator: np.random.Generator) -> Case:
    queries = length(generator, 2, 5)
    return 2 ** int(generator.integers(1, 5)), queries, queries + length(generator, 1, 4)


ALIBI = Exercise(
    "alibi",
    "the biases of ALiBi",
    "b_hqk = −m_h |k − t_q|        m_h = 2^(−8h/H) for h = 1 … H        t_q = q + keys − queries: the last query is the last key",
    {"heads": "H, a power of two", "queries": "Q", "keys": "K, at least Q"},
    {"b_HQK": "numbers to add to the scores"},
    _alibi_oracle,
    ((2, 2, 2), (4, 1, 3)),
    _draw_alibi,
    (
        WrongProgram("ALiBi with the wrong sign: distant keys get a higher score", _alibi(bias=np.abs)),
        WrongProgram(
            "ALiBi with the slopes in reverse order", _alibi(lambda heads: 2.0 ** (-8 * np.arange(heads, 0, -1) / heads))
        ),
        WrongProgram("ALiBi with slopes 2^(−h) for any number of heads", _alibi(lambda heads: 2.0 ** -np.arange(1, heads + 1))),
        WrongProgram(
            "ALiBi whose heads are counted from 0, so that the first slope is 1",
            _alibi(lambda heads: 2.0 ** (-8 * np.arange(heads) / heads)),
        ),
        WrongProgram(
            "ALiBi with m_h (k − t_q), which rewards keys to the right, instead of −m_h |k − t_q|",
            _alibi(bias=lambda distance: distance),
        ),
        WrongProgram("ALiBi with the first query at the first key instead of the last at the last", _alibi(aligned=False)),
        WrongProgram("ALiBi with the squared distance", _alibi(bias=lambda distance: -(distance**2))),
    ),
)

POSITIONS = (SINUSOID, ROTARY, ALIBI)
