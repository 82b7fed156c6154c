"""The losses of word2vec with their gradients.

Letters: V vocabulary, N negative samples, d dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.formulas import log_softmax, sigmoid, softmax
from firth.oracles import word2vec as oracle


def _skip_gram(v_d: Array, U_Vd: Array, target: int) -> tuple[float, Array, Array]:
    """The oracle takes a step of size 1 against the gradient."""
    moved_1d, moved_Vd = v_d[None].copy(), U_Vd.copy()
    loss = oracle.softmax_step(moved_1d, moved_Vd, [0], target, 1.0, cbow=False).loss
    return loss, v_d - moved_1d[0], U_Vd - moved_Vd


def _skip_gram_program(
    loss: Callable[[Array, int], float] = lambda s_V, target: float(-log_softmax(s_V)[target]),
    error: Callable[[Array, Array], Array] = lambda p_V, y_V: p_V - y_V,
    of_v: Callable[[Array], Array] | None = None,
) -> Callable[..., Any]:
    """Skip-gram with parts of it replaced. `of_v`: another error for the gradient of v alone."""

    def program(v_d: Array, U_Vd: Array, target: int) -> tuple[float, Array, Array]:
        s_V, y_V = U_Vd @ v_d, np.eye(len(U_Vd))[target]
        g_V = error(softmax(s_V), y_V)
        return loss(s_V, target), (g_V if of_v is None else of_v(softmax(s_V))) @ U_Vd, np.outer(g_V, v_d)

    return program


def _draw_skip_gram(generator: np.random.Generator) -> Case:
    V, d = length(generator, 3, 6), length(generator, 2, 5)
    return generator.normal(size=d), generator.normal(size=(V, d)), int(generator.integers(V))


SKIP_GRAM = Exercise(
    "skip_gram",
    "the skip-gram loss with a full softmax, and its gradients",
    "loss = − log p(target)        p = softmax(U v)        ∂loss/∂v = Σ_c (p_c − [c = target]) u_c\n"
    "∂loss/∂u_c = (p_c − [c = target]) v, for every word c",
    {
        "v_d": "vector of the centre word",
        "U_Vd": "output vectors, a row per word",
        "target": "the word of the context, a row of U",
    },
    {"loss": "in nats", "gradient_v_d": "∂loss/∂v", "gradient_U_Vd": "∂loss/∂U"},
    _skip_gram,
    ((np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 2.0]]), 1), (np.array([1.0, 2.0]), np.eye(3)[:, :2], 2)),
    _draw_skip_gram,
    (
        WrongProgram(
            "skip-gram with gradients of the wrong sign: those of the log likelihood, not of the loss",
            _skip_gram_program(error=lambda p_V, y_V: y_V - p_V),
        ),
        WrongProgram(
            "skip-gram without the − 1 at the target: both gradients use p instead of p − y",
            _skip_gram_program(error=lambda p_V, y_V: p_V),
        ),
        WrongProgram(
            "skip-gram whose gradient of v uses p instead of p − y, although that of U is right",
            _skip_gram_program(of_v=lambda p_V: p_V),
        ),
        WrongProgram(
            "skip-gram in which only the row of the target gets a gradient",
            _skip_gram_program(error=lambda p_V, y_V: (p_V - y_V) * y_V),
        ),
        WrongProgram(
            "skip-gram whose loss is −u·v: the logarithm of the sum over all words is missing",
            _skip_gram_program(loss=lambda s_V, target: float(-s_V[target])),
        ),
        WrongProgram(
            "skip-gram whose loss is −p, without the logarithm",
            _skip_gram_program(loss=lambda s_V, target: float(-softmax(s_V)[target])),
        ),
        WrongProgram(
            "skip-gram whose loss is log p: the minus sign is missing",
            _skip_gram_program(loss=lambda s_V, target: float(log_softmax(s_V)[target])),
        ),
    ),
)


def _negative_sampling(v_d: Array, u_d: Array, negative_Nd: Array) -> tuple[float, Array, Array, Array]:
    """The oracle takes a step of size 1 against the gradient."""
    targets_Td = np.array([u_d, *negative_Nd])
    moved_1d, moved_Td = v_d[None].copy(), targets_Td.copy()
    sign_T = [1.0] + [-1.0] * len(negative_Nd)
    loss = oracle.step(moved_1d, moved_Td, [0], range(len(targets_Td)), sign_T, 1.0, cbow=False).loss
    gradient_Td = targets_Td - moved_Td
    return loss, v_d - moved_1d[0], gradient_Td[0], gradient_Td[1:]


def _sampled(
    loss: Callable[[float, Array], float] = lambda s, s_N: float(-np.log(sigmoid(s)) - np.log(sigmoid(-s_N)).sum()),
    positive: Callable[[Any], Any] = lambda s: sigmoid(s) - 1,
    negative: Callable[[Array], Array] = sigmoid,
    sign: float = 1.0,
    both: bool = True,
) -> Callable[..., Any]:
    """Negative sampling with parts of it replaced. `both`: v gets a gradient from the negative samples, too."""

    def program(v_d: Array, u_d: Array, negative_Nd: Array) -> tuple[float, Array, Array, Array]:
        s, s_N = float(u_d @ v_d), negative_Nd @ v_d
        g, g_N = sign * positive(s), sign * negative(s_N)
        gradient_v_d = g * u_d + (g_N @ negative_Nd if both else 0)
        return loss(s, s_N), gradient_v_d, g * v_d, np.outer(g_N, v_d)

    return program


def _draw_sampled(generator: np.random.Generator) -> Case:
    N, d = (length(generator, 2, 5) for _ in range(2))
    return generator.normal(size=d), generator.normal(size=d), generator.normal(size=(N, d))


NEGATIVE_SAMPLING = Exercise(
    "negative_sampling",
    "the loss of skip-gram with negative sampling, and its gradients",
    "loss = − log σ(u·v) − Σ_n log σ(−u_n·v)        ∂loss/∂u = (σ(u·v) − 1) v        ∂loss/∂u_n = σ(u_n·v) v\n"
    "∂loss/∂v = (σ(u·v) − 1) u + Σ_n σ(u_n·v) u_n",
    {
        "v_d": "vector of the centre word",
        "u_d": "output vector of the observed word",
        "negative_Nd": "output vectors u_n of the negative samples",
    },
    {
        "loss": "in nats",
        "gradient_v_d": "∂loss/∂v",
        "gradient_u_d": "∂loss/∂u",
        "gradient_negative_Nd": "∂loss/∂u_n, a row per sample",
    },
    _negative_sampling,
    ((np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([[0.0, 2.0], [1.0, 0.0]])),),
    _draw_sampled,
    (
        WrongProgram(
            "negative sampling with the sign of the negative term wrong: log σ(u_n·v), with gradients to match",
            _sampled(
                loss=lambda s, s_N: float(-np.log(sigmoid(s)) - np.log(sigmoid(s_N)).sum()), negative=lambda s_N: sigmoid(s_N) - 1
            ),
        ),
        WrongProgram(
            "negative sampling with log σ(u_n·v) in the loss; the gradients are right",
            _sampled(loss=lambda s, s_N: float(-np.log(sigmoid(s)) - np.log(sigmoid(s_N)).sum())),
        ),
        WrongProgram(
            "negative sampling without the logarithms: −σ(u·v) − Σ σ(−u_n·v)",
            _sampled(loss=lambda s, s_N: float(-sigmoid(s) - sigmoid(-s_N).sum())),
        ),
        WrongProgram(
            "negative sampling with the mean over the negative samples instead of their sum, with gradients to match",
            _sampled(
                loss=lambda s, s_N: float(-np.log(sigmoid(s)) - np.log(sigmoid(-s_N)).mean()),
                negative=lambda s_N: sigmoid(s_N) / len(s_N),
            ),
        ),
        WrongProgram("negative sampling with all gradients of the wrong sign", _sampled(sign=-1.0)),
        WrongProgram("negative sampling in which the negative samples give v no gradient", _sampled(both=False)),
        WrongProgram(
            "negative sampling with σ(u·v) instead of σ(u·v) − 1 in the gradients of the observed word",
            _sampled(positive=sigmoid),
        ),
        WrongProgram(
            "negative sampling without the negative samples in the loss", _sampled(loss=lambda s, s_N: float(-np.log(sigmoid(s))))
        ),
    ),
)

WORD_VECTORS = (SKIP_GRAM, NEGATIVE_SAMPLING)
