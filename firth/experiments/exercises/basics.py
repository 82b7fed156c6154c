"""Softmax and cosine similarity.

Letters: R rows, K scores of a row, d width.
"""

from __future__ import annotations

import math

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length, magnitude
from firth.experiments.exercises.formulas import log_softmax, softmax
from firth.oracles.attention import softmax as softmax_of


def _softmax(s_RK: Array) -> Array:
    return np.array([list(softmax_of(dict(enumerate(map(float, s_K)))).values()) for s_K in s_RK])


def _draw_scores(generator: np.random.Generator) -> Case:
    return (magnitude(generator, 500) * generator.normal(0, 2, (length(generator, 2, 5), length(generator, 2, 6))),)


SOFTMAX = Exercise(
    "softmax",
    "probabilities from scores, row by row",
    "p_rk = exp(s_rk) / Σ_k′ exp(s_rk′), finite for any finite scores",
    {"s_RK": "scores"},
    {"p_RK": "probabilities; each row sums to 1"},
    _softmax,
    (
        (np.array([[0.0, math.log(3)], [1.0, 1.0]]),),
        (np.array([[1000.0, 0.0], [-1000.0, -1001.0]]),),
    ),
    _draw_scores,
    (
        WrongProgram(
            "a softmax that does not subtract the maximum of the row, so that exp overflows",
            lambda s_RK: np.exp(s_RK) / np.exp(s_RK).sum(-1, keepdims=True),
        ),
        WrongProgram("a softmax over the rows instead of over the scores of each row", lambda s_RK: softmax(s_RK, axis=0)),
        WrongProgram("a softmax over all scores at once", lambda s_RK: softmax(s_RK.reshape(-1)).reshape(s_RK.shape)),
        WrongProgram(
            "the exponentials without the division by their sum", lambda s_RK: np.exp(s_RK - s_RK.max(-1, keepdims=True))
        ),
        WrongProgram("the scores divided by their sum, without the exponential", lambda s_RK: s_RK / s_RK.sum(-1, keepdims=True)),
        WrongProgram("the logarithm of the softmax", log_softmax),
    ),
)


def _cosine(a_d: Array, b_d: Array) -> float:
    dot = math.fsum(float(a) * float(b) for a, b in zip(a_d, b_d, strict=True))
    return dot / (math.sqrt(math.fsum(float(a) ** 2 for a in a_d)) * math.sqrt(math.fsum(float(b) ** 2 for b in b_d)))


def _draw_vectors(generator: np.random.Generator) -> Case:
    d = length(generator, 2, 6)
    return generator.normal(size=d), generator.normal(size=d)


COSINE = Exercise(
    "cosine",
    "cosine similarity of two vectors",
    "cos(a, b) = a·b / (|a| |b|)",
    {"a_d": "a vector that is not zero", "b_d": "another one"},
    {"similarity": "between −1 and 1"},
    _cosine,
    ((np.array([3.0, 4.0]), np.array([4.0, 3.0])), (np.array([1.0, 0.0]), np.array([0.0, 2.0]))),
    _draw_vectors,
    (
        WrongProgram("the dot product, without the division by the lengths", lambda a_d, b_d: float(a_d @ b_d)),
        WrongProgram(
            "the dot product divided by the squared lengths: the square roots are missing",
            lambda a_d, b_d: float(a_d @ b_d / ((a_d @ a_d) * (b_d @ b_d))),
        ),
        WrongProgram("the dot product divided by the length of a only", lambda a_d, b_d: float(a_d @ b_d / np.sqrt(a_d @ a_d))),
        WrongProgram("the dot product divided by the length of b only", lambda a_d, b_d: float(a_d @ b_d / np.sqrt(b_d @ b_d))),
        WrongProgram("the cosine distance, 1 − cos", lambda a_d, b_d: float(1 - a_d @ b_d / np.sqrt((a_d @ a_d) * (b_d @ b_d)))),
    ),
)

BASICS = (SOFTMAX, COSINE)
