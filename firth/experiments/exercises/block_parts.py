"""The parts of a Transformer block around attention.

Letters: T tokens, d width, h hidden width, m output width, r rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.oracles.attention import times
from firth.oracles.feedforward import feed_forward
from firth.oracles.norm import layer_norm, rms_norm


def _draw_norm(generator: np.random.Generator) -> Case:
    T, d = length(generator, 2, 4), length(generator, 2, 6)
    return generator.normal(1, 1, (T, d)), generator.normal(1, 0.5, d), generator.normal(size=d), 0.1


def _draw_rms_norm(generator: np.random.Generator) -> Case:
    x_Td, gain_d, _, epsilon = _draw_norm(generator)
    return x_Td, gain_d, epsilon


def _layer_norm(
    spread: Callable[[Array, float], Array], affine: bool = True, centred: bool = True, axis: int | None = -1
) -> Callable[..., Array]:
    def program(x_Td: Array, gain_d: Array, bias_d: Array, epsilon: float) -> Array:
        centre = x_Td - x_Td.mean(axis=axis, keepdims=True)
        y_Td = (centre if centred else x_Td) / spread(centre, epsilon)
        return y_Td * gain_d + bias_d if affine else y_Td

    return program


def _std(centre: Array, epsilon: float, axis: int | None = -1) -> Array:
    return np.asarray(np.sqrt((centre**2).mean(axis=axis, keepdims=True) + epsilon))


_NORM_CASE = (np.array([[1.0, 3.0], [0.0, 4.0]]), np.array([1.0, 2.0]), np.array([0.0, 1.0]), 0.25)

LAYER_NORM = Exercise(
    "layer_norm",
    "layer normalization of each token",
    "y_t = gain ⊙ (x_t − μ_t) / √(σ²_t + ε) + bias        μ_t = 1/d Σ_j x_tj        σ²_t = 1/d Σ_j (x_tj − μ_t)²",
    {"x_Td": "tokens", "gain_d": "gain", "bias_d": "bias", "epsilon": "ε"},
    {"y_Td": "normalized tokens"},
    layer_norm,
    (_NORM_CASE,),
    _draw_norm,
    (
        WrongProgram(
            "a layer norm with the unbiased variance, divided by d − 1 instead of by d",
            _layer_norm(lambda centre, epsilon: np.sqrt((centre**2).sum(-1, keepdims=True) / (centre.shape[-1] - 1) + epsilon)),
        ),
        WrongProgram(
            "a layer norm with ε outside the root: √σ² + ε instead of √(σ² + ε)",
            _layer_norm(lambda centre, epsilon: np.sqrt((centre**2).mean(-1, keepdims=True)) + epsilon),
        ),
        WrongProgram("a layer norm without ε", _layer_norm(lambda centre, epsilon: _std(centre, 0.0))),
        WrongProgram(
            "a norm over the tokens of each feature instead of over the features of each token",
            _layer_norm(lambda centre, epsilon: _std(centre, epsilon, 0), axis=0),
        ),
        WrongProgram(
            "a norm over all numbers at once instead of over the features of each token",
            _layer_norm(lambda centre, epsilon: _std(centre, epsilon, None), axis=None),
        ),
        WrongProgram("a layer norm without gain and bias", _layer_norm(_std, affine=False)),
        WrongProgram("a layer norm that does not subtract the mean", _layer_norm(_std, centred=False)),
        WrongProgram(
            "a layer norm that divides by σ² + ε, without the root",
            _layer_norm(lambda centre, epsilon: _std(centre, epsilon) ** 2),
        ),
    ),
)

RMS_NORM = Exercise(
    "rms_norm",
    "root-mean-square normalization of each token",
    "y_t = gain ⊙ x_t / √(1/d Σ_j x_tj² + ε)",
    {"x_Td": "tokens", "gain_d": "gain", "epsilon": "ε"},
    {"y_Td": "normalized tokens"},
    rms_norm,
    ((_NORM_CASE[0], _NORM_CASE[1], _NORM_CASE[3]),),
    _draw_rms_norm,
    (
        WrongProgram(
            "an RMS norm that subtracts the mean, as a layer norm does",
            lambda x_Td, gain_d, epsilon: _layer_norm(_std)(x_Td, gain_d, np.zeros_like(gain_d), epsilon),
        ),
        WrongProgram(
            "an RMS norm with ε outside the root",
            lambda x_Td, gain_d, epsilon: gain_d * x_Td / (np.sqrt((x_Td**2).mean(-1, keepdims=True)) + epsilon),
        ),
        WrongProgram(
            "an RMS norm with the sum of the squares instead of their mean",
            lambda x_Td, gain_d, epsilon: gain_d * x_Td / np.sqrt((x_Td**2).sum(-1, keepdims=True) + epsilon),
        ),
        WrongProgram("an RMS norm without ε", lambda x_Td, gain_d, epsilon: gain_d * x_Td / _std(x_Td, 0.0)),
        WrongProgram("an RMS norm without the gain", lambda x_Td, gain_d, epsilon: x_Td / _std(x_Td, epsilon)),
        WrongProgram(
            "an RMS norm over the tokens of each feature instead of over the features of each token",
            lambda x_Td, gain_d, epsilon: gain_d * x_Td / _std(x_Td, epsilon, 0),
        ),
        WrongProgram(
            "an RMS norm that adds 1 to the gain", lambda x_Td, gain_d, epsilon: (1 + gain_d) * x_Td / _std(x_Td, epsilon)
        ),
    ),
)


def _draw_feed_forward(generator: np.random.Generator) -> Case:
    T, d, h = (length(generator, 2, 5) for _ in range(3))
    return tuple(generator.normal(size=shape) for shape in ((T, d), (d, h + 2), (h + 2,), (h + 2, d), (d,)))


FEED_FORWARD = Exercise(
    "feed_forward",
    "the feed-forward network of a Transformer block",
    "y = max(0, x W_1 + b_1) W_2 + b_2, without the residual",
    {
        "x_Td": "tokens",
        "W_1_dh": "weights of the first layer",
        "b_1_h": "its bias",
        "W_2_hd": "weights of the second layer",
        "b_2_d": "its bias",
    },
    {"y_Td": "outputs"},
    feed_forward,
    (
        (
            np.array([[1.0, -2.0]]),
            np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
            np.array([0.5, 0.0, 0.5]),
            np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
            np.array([-2.0, 1.0]),
        ),
    ),
    _draw_feed_forward,
    (
        WrongProgram("two linear layers without max(0, ·) between them", lambda x, W, b, V, c: (x @ W + b) @ V + c),
        WrongProgram(
            "a feed-forward network with max(0, ·) after the second layer, too",
            lambda x, W, b, V, c: np.maximum(np.maximum(x @ W + b, 0) @ V + c, 0),
        ),
        WrongProgram(
            "a feed-forward network with max(0, ·) before the bias b_1 is added",
            lambda x, W, b, V, c: (np.maximum(x @ W, 0) + b) @ V + c,
        ),
        WrongProgram("a feed-forward network with tanh instead of max(0, ·)", lambda x, W, b, V, c: np.tanh(x @ W + b) @ V + c),
        WrongProgram("a feed-forward network without the biases", lambda x, W, b, V, c: np.maximum(x @ W, 0) @ V),
        WrongProgram(
            "a feed-forward network with the residual: x is added", lambda x, W, b, V, c: x + np.maximum(x @ W + b, 0) @ V + c
        ),
    ),
)


def _lora(x_Td: Array, W_dm: Array, A_dr: Array, B_rm: Array, alpha: float) -> Array:
    scale = alpha / A_dr.shape[1]
    return np.array([times(x_d, W_dm) + scale * times(times(x_d, A_dr), B_rm) for x_d in x_Td])


def _draw_lora(generator: np.random.Generator) -> Case:
    T, d, m, r = (length(generator, 2, 5) for _ in range(4))
    return (*(generator.normal(size=shape) for shape in ((T, d), (d, m), (d, r), (r, m))), r + 3.0)


def _adapted(scale: Callable[[float, int], float], base: float = 1.0) -> Callable[..., Array]:
    return lambda x, W, A, B, alpha: base * (x @ W) + scale(alpha, A.shape[1]) * (x @ A @ B)


LORA = Exercise(
    "lora",
    "a linear layer with a low-rank adapter",
    "y = x W + (α / r) x A B",
    {
        "x_Td": "tokens",
        "W_dm": "frozen weights",
        "A_dr": "first matrix of the adapter",
        "B_rm": "second matrix of the adapter",
        "alpha": "α, a number",
    },
    {"y_Tm": "outputs"},
    _lora,
    ((np.array([[1.0, 2.0]]), np.array([[1.0], [1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [3.0]]), 6.0),),
    _draw_lora,
    (
        WrongProgram("LoRA scaled by α instead of α / r", _adapted(lambda alpha, r: alpha)),
        WrongProgram("LoRA without the scale α / r", _adapted(lambda alpha, r: 1.0)),
        WrongProgram("LoRA scaled by r / α instead of α / r", _adapted(lambda alpha, r: r / alpha)),
        WrongProgram("LoRA scaled by α / √r instead of α / r", _adapted(lambda alpha, r: alpha / math.sqrt(r))),
        WrongProgram("the adapter alone, without x W", _adapted(lambda alpha, r: alpha / r, 0.0)),
        WrongProgram("the frozen layer alone, without the adapter", _adapted(lambda alpha, r: 0.0)),
    ),
)

BLOCK_PARTS = (LAYER_NORM, RMS_NORM, FEED_FORWARD, LORA)
