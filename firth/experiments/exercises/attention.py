"""Attention with a mask, and three scores.

Letters: Q queries, K keys, D width of q and k, C width of a key, E width of a value, A inner width of the additive score.
"""

from __future__ import annotations

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.formulas import sigmoid, softmax
from firth.oracles import attention as oracle


def _attention(q_QD: Array, k_KD: Array, v_KE: Array, allowed_QK: Array) -> Array:
    return np.asarray(
        oracle.attend(q_QD[None, None], k_KD[None, None], v_KE[None, None], lambda b, h, q, k: bool(allowed_QK[q, k]))[0, 0]
    )


def _draw_attention(generator: np.random.Generator) -> Case:
    """A mask in which every query, and every key, has an allowed pair, and every query one that is not."""
    K, D, E = (length(generator, 2, 6) for _ in range(3))
    Q = K + int(generator.integers(0, 3))
    allowed_QK = generator.random((Q, K)) < 0.5
    row_Q = np.arange(Q)
    allowed_QK[row_Q, row_Q % K], allowed_QK[row_Q, (row_Q + 1) % K] = True, False
    return generator.normal(size=(Q, D)), generator.normal(size=(K, D)), generator.normal(size=(K, E)), allowed_QK


def _scores(q_QD: Array, k_KD: Array) -> Array:
    return np.asarray(q_QD @ k_KD.T / np.sqrt(q_QD.shape[1]))


def _masked(s_QK: Array, allowed_QK: Array) -> Array:
    return np.where(allowed_QK, s_QK, -np.inf)


ATTENTION = Exercise(
    "attention",
    "scaled dot-product attention with a mask",
    "s_qk = q_q·k_k / √D        p_q = softmax of s_q over the allowed keys        o_q = Σ_k p_qk v_k",
    {
        "q_QD": "queries",
        "k_KD": "keys",
        "v_KE": "values",
        "allowed_QK": "booleans; True: the query attends to the key. Every query has at least one",
    },
    {"o_QE": "outputs"},
    _attention,
    (
        (
            np.array([[2.0, 0.0], [0.0, 2.0]]),
            np.array([[1.0, 0.0], [0.0, 1.0]]),
            np.array([[1.0], [3.0]]),
            np.array([[True, False], [False, True]]),
        ),
        (
            np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]]),
            np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]),
            np.array([[1.0], [3.0], [5.0]]),
            np.array([[True, True, False], [False, True, True], [True, False, True]]),
        ),
    ),
    _draw_attention,
    (
        WrongProgram(
            "attention whose mask was applied after the softmax, so that the weights no longer sum to 1",
            lambda q_QD, k_KD, v_KE, allowed_QK: (softmax(_scores(q_QD, k_KD)) * allowed_QK) @ v_KE,
        ),
        WrongProgram(
            "attention scaled by 1/D instead of 1/√D",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_masked(q_QD @ k_KD.T / q_QD.shape[1], allowed_QK)) @ v_KE,
        ),
        WrongProgram(
            "attention without the scale 1/√D",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_masked(q_QD @ k_KD.T, allowed_QK)) @ v_KE,
        ),
        WrongProgram(
            "attention whose softmax is over the queries instead of over the keys",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_masked(_scores(q_QD, k_KD), allowed_QK), axis=0) @ v_KE,
        ),
        WrongProgram(
            "attention with the mask inverted: True was taken for forbidden",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_masked(_scores(q_QD, k_KD), ~allowed_QK)) @ v_KE,
        ),
        WrongProgram(
            "attention with the mask added to the scores as 0 and 1, instead of as −∞ and 0",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_scores(q_QD, k_KD) + allowed_QK) @ v_KE,
        ),
        WrongProgram(
            "attention with forbidden scores set to 0, which still get exp(0) = 1",
            lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_scores(q_QD, k_KD) * allowed_QK) @ v_KE,
        ),
        WrongProgram("attention without the mask", lambda q_QD, k_KD, v_KE, allowed_QK: softmax(_scores(q_QD, k_KD)) @ v_KE),
    ),
)


def _dot(q_QD: Array, k_KD: Array) -> Array:
    return np.asarray(oracle.scores(q_QD[None, None], k_KD[None, None], score=oracle.SCALED_DOT)[0, 0])


def _draw_dot(generator: np.random.Generator) -> Case:
    Q, K, D = (length(generator, 2, 6) for _ in range(3))
    return generator.normal(size=(Q, D)), generator.normal(size=(K, D))


def _unit(x_ND: Array) -> Array:
    return np.asarray(x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True))


DOT_SCORE = Exercise(
    "dot_score",
    "the scaled dot-product score of Vaswani et al. (2017)",
    "s_qk = q_q·k_k / √D",
    {"q_QD": "queries", "k_KD": "keys"},
    {"s_QK": "scores"},
    _dot,
    (
        (
            np.array([[1.0, 2.0, 0.0, 1.0], [0.0, 2.0, 2.0, 0.0]]),
            np.array([[2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]),
        ),
    ),
    _draw_dot,
    (
        WrongProgram("the dot product without the scale 1/√D", lambda q_QD, k_KD: q_QD @ k_KD.T),
        WrongProgram("the dot product scaled by 1/D instead of 1/√D", lambda q_QD, k_KD: q_QD @ k_KD.T / q_QD.shape[1]),
        WrongProgram(
            "the dot product multiplied by √D instead of divided by it", lambda q_QD, k_KD: q_QD @ k_KD.T * np.sqrt(q_QD.shape[1])
        ),
        WrongProgram(
            "the dot product divided by the root of the number of queries instead of by √D",
            lambda q_QD, k_KD: q_QD @ k_KD.T / np.sqrt(len(q_QD)),
        ),
        WrongProgram(
            "the dot product divided by the root of the number of keys instead of by √D",
            lambda q_QD, k_KD: q_QD @ k_KD.T / np.sqrt(len(k_KD)),
        ),
        WrongProgram("the scores transposed: a row for each key instead of each query", lambda q_QD, k_KD: _scores(k_KD, q_QD)),
        WrongProgram("the scores of the keys with themselves", lambda q_QD, k_KD: _scores(k_KD, k_KD)),
        WrongProgram("the scores of the queries with themselves", lambda q_QD, k_KD: _scores(q_QD, q_QD)),
        WrongProgram(
            "the cosine: the dot product divided by the lengths of q and k", lambda q_QD, k_KD: _unit(q_QD) @ _unit(k_KD).T
        ),
        WrongProgram("attention weights, the softmax of the scores", lambda q_QD, k_KD: softmax(_scores(q_QD, k_KD))),
    ),
)


def _additive(q_QD: Array, k_KD: Array, W_q_DA: Array, W_k_DA: Array, w_A: Array) -> Array:
    score = oracle.additive(w_A, W_q_DA, W_k_DA)
    return np.asarray(oracle.scores(q_QD[None, None], k_KD[None, None], score=score)[0, 0])


def _draw_additive(generator: np.random.Generator) -> Case:
    Q, K, D, A = (length(generator, 2, 5) for _ in range(4))
    return tuple(generator.normal(size=shape) for shape in ((Q, D), (K, D), (D, A), (D, A), (A,)))


def _sums(q_QD: Array, k_KD: Array, W_q_DA: Array, W_k_DA: Array) -> Array:
    return np.asarray((q_QD @ W_q_DA)[:, None] + (k_KD @ W_k_DA)[None])


ADDITIVE_SCORE = Exercise(
    "additive_score",
    "the additive score of Bahdanau et al. (2015)",
    "s_qk = w · tanh(W_qᵀ q_q + W_kᵀ k_k)",
    {
        "q_QD": "queries",
        "k_KD": "keys",
        "W_q_DA": "projection of the queries",
        "W_k_DA": "projection of the keys",
        "w_A": "weights of the sum",
    },
    {"s_QK": "scores"},
    _additive,
    (
        (
            np.array([[1.0, 0.0]]),
            np.array([[0.0, 1.0], [1.0, 1.0]]),
            np.array([[1.0, 0.0], [0.0, 1.0]]),
            np.array([[0.0, 1.0], [1.0, 0.0]]),
            np.array([1.0, 2.0]),
        ),
    ),
    _draw_additive,
    (
        WrongProgram(
            "the additive score without tanh",
            lambda q_QD, k_KD, W_q_DA, W_k_DA, w_A: _sums(q_QD, k_KD, W_q_DA, W_k_DA) @ w_A,
        ),
        WrongProgram(
            "the additive score with tanh around the whole sum instead of inside it",
            lambda q_QD, k_KD, W_q_DA, W_k_DA, w_A: np.tanh(_sums(q_QD, k_KD, W_q_DA, W_k_DA) @ w_A),
        ),
        WrongProgram(
            "the additive score with σ instead of tanh",
            lambda q_QD, k_KD, W_q_DA, W_k_DA, w_A: sigmoid(_sums(q_QD, k_KD, W_q_DA, W_k_DA)) @ w_A,
        ),
        WrongProgram(
            "the additive score with W_q and W_k exchanged",
            lambda q_QD, k_KD, W_q_DA, W_k_DA, w_A: np.tanh(_sums(q_QD, k_KD, W_k_DA, W_q_DA)) @ w_A,
        ),
        WrongProgram(
            "a score that multiplies the projected query and key instead of adding them",
            lambda q_QD, k_KD, W_q_DA, W_k_DA, w_A: np.tanh((q_QD @ W_q_DA)[:, None] * (k_KD @ W_k_DA)[None]) @ w_A,
        ),
    ),
)


def _bilinear(q_QD: Array, M_DD: Array, k_KD: Array) -> Array:
    return np.asarray(oracle.scores(q_QD[None, None], k_KD[None, None], score=oracle.bilinear(M_DD))[0, 0])


def _draw_bilinear(generator: np.random.Generator) -> Case:
    Q, K, D = (length(generator, 2, 5) for _ in range(3))
    return generator.normal(size=(Q, D)), generator.normal(size=(D, D)), generator.normal(size=(K, D))


BILINEAR_SCORE = Exercise(
    "bilinear_score",
    "the bilinear score of Luong et al. (2015)",
    "s_qk = q_qᵀ M k_k",
    {"q_QD": "queries", "M_DD": "matrix between them, not symmetric", "k_KD": "keys"},
    {"s_QK": "scores"},
    _bilinear,
    ((np.array([[1.0, 2.0]]), np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])),),
    _draw_bilinear,
    (
        WrongProgram("the bilinear score with M transposed", lambda q_QD, M_DD, k_KD: q_QD @ M_DD.T @ k_KD.T),
        WrongProgram("the dot product, without M", lambda q_QD, M_DD, k_KD: q_QD @ k_KD.T),
        WrongProgram("the bilinear score scaled by 1/√D", lambda q_QD, M_DD, k_KD: q_QD @ M_DD @ k_KD.T / np.sqrt(q_QD.shape[1])),
        WrongProgram("a score with M on both sides, (M q)·(M k)", lambda q_QD, M_DD, k_KD: (q_QD @ M_DD.T) @ (k_KD @ M_DD.T).T),
    ),
)

ATTENTIONS = (DOT_SCORE, ATTENTION, ADDITIVE_SCORE, BILINEAR_SCORE)
