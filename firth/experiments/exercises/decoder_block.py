"""A whole block of a Transformer decoder.

Letters: N norms (there are two), T tokens, d width, h hidden width of the feed-forward network, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.heads import multi_head
from firth.oracles.attention import projected
from firth.oracles.feedforward import feed_forward
from firth.oracles.norm import layer_norm

_EPSILON = 1e-5

Part = Callable[[Array], Array]
Half = Callable[[Array, Part, Part], Array]  # (x, norm, attention or feed-forward network)


def _pre_norm(x_Td: Array, norm: Part, part: Part) -> Array:
    return x_Td + part(norm(x_Td))


def _post_norm(x_Td: Array, norm: Part, part: Part) -> Array:
    return norm(x_Td + part(x_Td))


def _from_the_norm(x_Td: Array, norm: Part, part: Part) -> Array:
    return _without_norm(norm(x_Td), norm, part)


def _without_norm(x_Td: Array, norm: Part, part: Part) -> Array:
    return x_Td + part(x_Td)


def _without_residual(x_Td: Array, norm: Part, part: Part) -> Array:
    return part(norm(x_Td))


def _left_out(x_Td: Array, norm: Part, part: Part) -> Array:
    return x_Td


def _causal(T: int) -> Array:
    return np.tri(T, dtype=bool)


def _block(
    first: Half = _pre_norm,
    second: Half = _pre_norm,
    mask: Callable[[int], Array] = _causal,
    norms: tuple[int, int] = (0, 1),
    full: bool = False,
) -> Callable[..., Array]:
    """A block with parts of it replaced. `norms`: the rows of gain and bias that the halves use."""

    def program(x_Td: Array, gain_Nd: Array, bias_Nd: Array, *weights: Any) -> Array:
        *matrices, heads = weights

        def norm_of(row: int) -> Part:
            return lambda x_Td: layer_norm(x_Td, gain_Nd[row], bias_Nd[row], _EPSILON)

        def attention(x_Td: Array) -> Array:
            return multi_head(full=full, mask=mask)(x_Td, *matrices[:4], heads)

        a_Td = first(x_Td, norm_of(norms[0]), attention)
        return second(a_Td, norm_of(norms[1]), lambda x_Td: feed_forward(x_Td, *matrices[4:]))

    return program


def _oracle(x_Td: Array, gain_Nd: Array, bias_Nd: Array, *weights: Any) -> Array:
    W_Q_dd, W_K_dd, W_V_dd, W_O_dd, *layers, heads = weights
    normed_Td = layer_norm(x_Td, gain_Nd[0], bias_Nd[0], _EPSILON)
    a_Td = x_Td + projected(normed_Td[None], W_Q_dd, W_K_dd, W_V_dd, W_O_dd, heads, lambda b, h, q, k: k <= q)[0]
    return np.asarray(a_Td + feed_forward(layer_norm(a_Td, gain_Nd[1], bias_Nd[1], _EPSILON), *layers))


def _parallel(*case: Any) -> Array:
    """x + Attention(LayerNorm_1(x)) + FFN(LayerNorm_2(x))."""
    return np.asarray(_block(second=_left_out)(*case) + _block(first=_left_out)(*case) - case[0])


def _from_the_input(*case: Any) -> Array:
    """x + FFN(LayerNorm_2(a)) instead of a + FFN(LayerNorm_2(a))."""
    return np.asarray(case[0] + _block(second=_without_residual)(*case))


def _draw(generator: np.random.Generator) -> Case:
    H, D = int(generator.integers(2, 4)), length(generator, 2, 4)
    T, h, d = length(generator, 3, 5), length(generator, 3, 6), H * D
    gain_Nd, bias_Nd = generator.normal(1, 0.5, (2, d)), generator.normal(size=(2, d))
    projections = (generator.normal(size=(d, d)) / np.sqrt(d) for _ in range(4))
    layers = (generator.normal(size=shape) for shape in ((d, h), (h,), (h, d), (d,)))
    return generator.normal(size=(T, d)), gain_Nd, bias_Nd, *projections, *layers, H


_SMALL = (
    np.array([[1.0, 3.0], [4.0, 2.0], [0.0, 2.0]]),
    np.array([[1.0, 1.0], [2.0, 1.0]]),
    np.array([[1.0, 0.0], [0.0, 1.0]]),
    np.array([[1.0, 0.0], [0.0, 1.0]]),
    np.array([[0.0, 1.0], [1.0, 0.0]]),
    np.array([[1.0, 0.0], [0.0, 2.0]]),
    np.array([[1.0, 1.0], [0.0, 1.0]]),
    np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
    np.array([0.0, 1.0, -1.0]),
    np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]),
    np.array([0.0, 1.0]),
)

BLOCK = Exercise(
    "block",
    "a pre-norm block of a Transformer decoder",
    "a = x + Attention(LayerNorm_1(x))        y = a + FFN(LayerNorm_2(a))\n"
    "Attention: multi-head self-attention without biases in which token t attends to the tokens up to t, itself included\n"
    "FFN(x) = max(0, x W_1 + b_1) W_2 + b_2        LayerNorm: ε = 10⁻⁵ inside the root",
    {
        "x_Td": "tokens",
        "gain_Nd": "gains of the two norms; the first row is that of LayerNorm_1",
        "bias_Nd": "biases of the two norms",
        "W_Q_dd": "projection to queries",
        "W_K_dd": "projection to keys",
        "W_V_dd": "projection to values",
        "W_O_dd": "output projection",
        "W_1_dh": "weights of the first layer of the FFN",
        "b_1_h": "its bias",
        "W_2_hd": "weights of the second layer",
        "b_2_d": "its bias",
        "heads": "H, a divisor of d; each head has D = d / H consecutive columns of W_Q, W_K and W_V",
    },
    {"y_Td": "outputs"},
    _oracle,
    ((*_SMALL, 1), (*_SMALL, 2)),
    _draw,
    (
        WrongProgram(
            "a post-norm block, whose norms come after the sums: LayerNorm(x + Attention(x))",
            _block(first=_post_norm, second=_post_norm),
        ),
        WrongProgram("a block without the residual connection around attention", _block(first=_without_residual)),
        WrongProgram("a block without the residual connection around the FFN", _block(second=_without_residual)),
        WrongProgram(
            "a block whose residual connections take the output of the norm instead of its input",
            _block(first=_from_the_norm, second=_from_the_norm),
        ),
        WrongProgram("a block whose second residual connection adds x instead of a", _from_the_input),
        WrongProgram(
            "a parallel block, whose FFN reads x instead of a: x + Attention(LayerNorm_1(x)) + FFN(LayerNorm_2(x))", _parallel
        ),
        WrongProgram("a block that uses the gain and bias of LayerNorm_1 in both norms", _block(norms=(0, 0))),
        WrongProgram("a block whose attention reads x without a norm", _block(first=_without_norm)),
        WrongProgram("a block whose FFN reads a without a norm", _block(second=_without_norm)),
        WrongProgram("a block without the causal mask", _block(mask=lambda T: np.ones((T, T), dtype=bool))),
        WrongProgram(
            "a block whose mask forbids a token to attend to itself, so that the first token has no key",
            _block(mask=lambda T: np.tri(T, k=-1, dtype=bool)),
        ),
        WrongProgram(
            "a block whose mask is transposed: a token attends to itself and to the later ones",
            _block(mask=lambda T: _causal(T).T),
        ),
        WrongProgram("a block whose attention is scaled by the full width, 1/√d, instead of 1/√D", _block(full=True)),
    ),
)

BLOCKS = (BLOCK,)
