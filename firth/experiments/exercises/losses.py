"""Losses of predictions.

Letters: T tokens, V vocabulary.
"""

from __future__ import annotations

import math

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.formulas import log_softmax, softmax
from firth.oracles.word2vec import softmax_loss

_PADDING = -1


def _log_probabilities(logits_TV: Array) -> Array:
    """log p of every token: the oracle's −log softmax of the logits, one at a time."""
    one = np.ones(1)
    return np.array([[-softmax_loss(one, logits_V[:, None], v) for v in range(len(logits_V))] for logits_V in logits_TV])


def _cross_entropy(logits_TV: Array, target_T: Array, padding: int) -> float:
    told = _log_probabilities(logits_TV)
    losses = [-float(told[t, target]) for t, target in enumerate(target_T) if target != padding]
    return math.fsum(losses) / len(losses)


def _draw_predictions(generator: np.random.Generator) -> Case:
    T, V = (length(generator, 3, 6) for _ in range(2))
    target_T = generator.integers(0, V, T)
    target_T[generator.integers(1, T) :] = _PADDING
    return generator.normal(0, 2, (T, V)), target_T, _PADDING


def _losses(logits_TV: Array, target_T: Array) -> Array:
    """−log p of each target; padding counts as token 0, so that it has a loss, too."""
    return np.asarray(-log_softmax(logits_TV)[np.arange(len(target_T)), np.maximum(target_T, 0)])


CROSS_ENTROPY = Exercise(
    "cross_entropy",
    "the mean loss of next tokens, without padding",
    "loss = − 1/n Σ_t log softmax(logits_t)[target_t]        the sum, and the count n, only over t with target_t ≠ padding",
    {"logits_TV": "scores of every token", "target_T": "correct tokens, or padding", "padding": "the target to leave out"},
    {"loss": "in nats"},
    _cross_entropy,
    (
        (np.array([[0.0, math.log(3)], [0.0, 0.0]]), np.array([1, _PADDING]), _PADDING),
        (np.array([[0.0, math.log(3)], [math.log(7), 0.0], [2.0, 0.0]]), np.array([0, 0, _PADDING]), _PADDING),
    ),
    _draw_predictions,
    (
        WrongProgram(
            "the cross-entropy divided by all positions, padding included",
            lambda logits, target, padding: float((_losses(logits, target) * (target != padding)).sum() / len(target)),
        ),
        WrongProgram(
            "the cross-entropy in bits: the logarithm has base 2",
            lambda logits, target, padding: float(_losses(logits, target)[target != padding].mean() / np.log(2)),
        ),
        WrongProgram(
            "the sum of the losses instead of their mean",
            lambda logits, target, padding: float(_losses(logits, target)[target != padding].sum()),
        ),
        WrongProgram(
            "the cross-entropy with its sign missing: the mean log probability",
            lambda logits, target, padding: -float(_losses(logits, target)[target != padding].mean()),
        ),
        WrongProgram(
            "the cross-entropy of a softmax of the softmax",
            lambda logits, target, padding: float(_losses(softmax(logits), target)[target != padding].mean()),
        ),
        WrongProgram(
            "the mean of the negative logits of the targets, without the softmax",
            lambda logits, target, padding: (
                -float(logits[np.arange(len(target)), np.maximum(target, 0)][target != padding].mean())
            ),
        ),
    ),
)


def _perplexity(log_probability_T: Array) -> float:
    return math.exp(-math.fsum(map(float, log_probability_T)) / len(log_probability_T))


PERPLEXITY = Exercise(
    "perplexity",
    "the perplexity of a text",
    "exp(− 1/T Σ_t log p_t)",
    {"log_probability_T": "log p of each token, in nats"},
    {"perplexity": "at least 1"},
    _perplexity,
    ((np.log(np.array([0.5, 0.125])),), (np.log(np.array([0.25, 0.25, 0.25])),)),
    lambda generator: (-generator.exponential(1.0, length(generator, 2, 7)),),
    (
        WrongProgram("1 / p of the whole text: the sum in place of the mean", lambda log_p: float(np.exp(-log_p.sum()))),
        WrongProgram("2 to the power of a loss in nats", lambda log_p: float(2 ** (-log_p.mean()))),
        WrongProgram("the inverse of the perplexity: the minus sign is missing", lambda log_p: float(np.exp(log_p.mean()))),
        WrongProgram("the mean loss, without exp", lambda log_p: float(-log_p.mean())),
        WrongProgram("the arithmetic mean of 1 / p", lambda log_p: float(np.exp(-log_p).mean())),
    ),
)


def _label_smoothing(logits_TV: Array, target_T: Array, smoothing: float) -> float:
    told, total = _log_probabilities(logits_TV), 0.0
    for t, target in enumerate(target_T):
        uniform = math.fsum(map(float, told[t])) / len(told[t])
        total -= (1 - smoothing) * float(told[t, target]) + smoothing * uniform
    return total / len(target_T)


def _draw_smoothed(generator: np.random.Generator) -> Case:
    T, V = (length(generator, 3, 6) for _ in range(2))
    return generator.normal(0, 2, (T, V)), generator.integers(0, V, T), 0.2


def _smoothed(logits: Array, target: Array, of_target: float, of_mean: float) -> float:
    return float((of_target * _losses(logits, target) - of_mean * log_softmax(logits).mean(-1)).mean())


LABEL_SMOOTHING = Exercise(
    "label_smoothing",
    "cross-entropy with smoothed labels",
    "loss = − 1/T Σ_t [(1 − ε) log p_t[target_t] + ε/V Σ_v log p_t[v]]        p_t = softmax(logits_t); v runs over all V tokens",
    {"logits_TV": "scores of every token", "target_T": "correct tokens", "smoothing": "ε, between 0 and 1"},
    {"loss": "in nats"},
    _label_smoothing,
    ((np.array([[0.0, 0.0, math.log(2)]]), np.array([2]), 0.25),),
    _draw_smoothed,
    (
        WrongProgram(
            "label smoothing that shares ε among the V − 1 other tokens, without the target",
            lambda logits, target, e: _smoothed(
                logits, target, 1 - e - e / (logits.shape[1] - 1), e * logits.shape[1] / (logits.shape[1] - 1)
            ),
        ),
        WrongProgram(
            "label smoothing without the division by V",
            lambda logits, target, e: _smoothed(logits, target, 1 - e, e * logits.shape[1]),
        ),
        WrongProgram("label smoothing with ε and 1 − ε exchanged", lambda logits, target, e: _smoothed(logits, target, e, 1 - e)),
        WrongProgram("the cross-entropy without smoothing", lambda logits, target, e: _smoothed(logits, target, 1, 0)),
        WrongProgram(
            "label smoothing that leaves the target its full weight 1, instead of 1 − ε",
            lambda logits, target, e: _smoothed(logits, target, 1, e),
        ),
    ),
)

LOSSES = (CROSS_ENTROPY, PERPLEXITY, LABEL_SMOOTHING)
