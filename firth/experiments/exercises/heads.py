"""Attention of several heads, of one cached step, and without a softmax.

Letters: T tokens, U tokens with the new one, d width of the model, H heads, G key/value heads, D width of a head, E of a value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firth.experiments.exercises.exercise import Array, Case, Exercise, WrongProgram, length
from firth.experiments.exercises.formulas import softmax
from firth.oracles import attention as oracle
from firth.oracles import linear_attention as linear_oracle

Split = Callable[[Array, int], Array]


def _split(x_Td: Array, H: int) -> Array:
    return x_Td.reshape(len(x_Td), H, -1).swapaxes(0, 1)


def _merge(o_HTD: Array, H: int) -> Array:
    return o_HTD.swapaxes(0, 1).reshape(o_HTD.shape[1], -1)


def multi_head(
    split: Split = _split,
    merge: Split = _merge,
    full: bool = False,
    projected: bool = True,
    mask: Callable[[int], Array] = lambda T: np.ones((T, T), dtype=bool),
) -> Callable[..., Array]:
    """Multi-head attention with parts of it replaced. `full`: scaled by the width of the model; `mask`: True where allowed."""

    def program(x_Td: Array, W_Q_dd: Array, W_K_dd: Array, W_V_dd: Array, W_O_dd: Array, heads: int) -> Array:
        q_HTD, k_HTD, v_HTD = (split(x_Td @ W, heads) for W in (W_Q_dd, W_K_dd, W_V_dd))
        width = x_Td.shape[1] if full else q_HTD.shape[-1]
        s_HTT = q_HTD @ k_HTD.swapaxes(1, 2) / np.sqrt(width)
        o_HTD = softmax(np.where(mask(s_HTT.shape[1]), s_HTT, -np.inf)) @ v_HTD
        merged_Td = merge(o_HTD, heads)
        return np.asarray(merged_Td @ W_O_dd if projected else merged_Td)

    return program


def _multi_head_oracle(x_Td: Array, W_Q_dd: Array, W_K_dd: Array, W_V_dd: Array, W_O_dd: Array, heads: int) -> Array:
    return np.asarray(oracle.projected(x_Td[None], W_Q_dd, W_K_dd, W_V_dd, W_O_dd, heads)[0])


def _draw_multi_head(generator: np.random.Generator) -> Case:
    H, D, T = int(generator.integers(2, 4)), length(generator, 2, 4), length(generator, 2, 4)
    d = H * D
    return (generator.normal(size=(T + 1, d)), *(generator.normal(size=(d, d)) / np.sqrt(d) for _ in range(4)), H)


_EYE = np.eye(4)

MULTI_HEAD = Exercise(
    "multi_head",
    "multi-head self-attention without a mask",
    "head_h = softmax(x W^Q_h (x W^K_h)ᵀ / √D) x W^V_h        y = Concat(head_1 … head_H) W^O\n"
    "D = d / H; W^Q_h, W^K_h and W^V_h are the columns hD … (h + 1)D − 1 of the matrices",
    {
        "x_Td": "inputs",
        "W_Q_dd": "projection to queries",
        "W_K_dd": "projection to keys",
        "W_V_dd": "projection to values",
        "W_O_dd": "output projection",
        "heads": "H, a divisor of d",
    },
    {"y_Td": "outputs"},
    _multi_head_oracle,
    (
        (np.array([[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 3.0, 0.0]]), _EYE, _EYE, _EYE, np.roll(_EYE, 1, axis=1), 2),
        (np.array([[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 3.0, 0.0], [1.0, 2.0, 0.0, 1.0]]), _EYE, _EYE, _EYE, 2 * _EYE, 2),
    ),
    _draw_multi_head,
    (
        WrongProgram(
            "multi-head attention whose heads were split by a reshape to (H, T, D), without a transpose",
            multi_head(split=lambda x_Td, H: x_Td.reshape(H, len(x_Td), -1)),
        ),
        WrongProgram(
            "multi-head attention whose head h has the columns h, h + H, h + 2H, … instead of D in a row",
            multi_head(split=lambda x_Td, H: x_Td.reshape(len(x_Td), -1, H).transpose(2, 0, 1)),
        ),
        WrongProgram(
            "multi-head attention whose heads were joined by a reshape, without a transpose back to (T, H, D)",
            multi_head(merge=lambda o_HTD, H: o_HTD.reshape(o_HTD.shape[1], -1)),
        ),
        WrongProgram(
            "multi-head attention whose heads were concatenated in reverse order",
            multi_head(merge=lambda o_HTD, H: _merge(o_HTD[::-1], H)),
        ),
        WrongProgram("multi-head attention scaled by the full width, 1/√d, instead of 1/√D", multi_head(full=True)),
        WrongProgram("multi-head attention without the output projection W^O", multi_head(projected=False)),
        WrongProgram(
            "attention with a single head of full width",
            multi_head(split=lambda x_Td, H: x_Td[None], merge=lambda o_HTD, H: o_HTD[0]),
        ),
    ),
)


def _grouped(chosen: Callable[[int, int, int], int]) -> Callable[[Array, Array, Array], Array]:
    """Grouped-query attention in which head h of H reads the key/value head chosen(h, H, G)."""

    def program(q_HTD: Array, k_GTD: Array, v_GTD: Array) -> Array:
        H, G = len(q_HTD), len(k_GTD)
        g_H = [chosen(h, H, G) for h in range(H)]
        return np.asarray(softmax(q_HTD @ k_GTD[g_H].swapaxes(1, 2) / np.sqrt(q_HTD.shape[-1])) @ v_GTD[g_H])

    return program


def _draw_grouped(generator: np.random.Generator) -> Case:
    G, J, T, D = *map(int, generator.integers(2, 4, 2)), length(generator, 2, 4), length(generator, 2, 4)
    return tuple(generator.normal(size=(heads, T, D)) for heads in (G * J, G, G))


GROUPED_QUERY = Exercise(
    "grouped_query",
    "grouped-query attention without a mask",
    "o_h = softmax(q_h k_gᵀ / √D) v_g        g = ⌊h / (H / G)⌋: consecutive query heads share a key/value head",
    {"q_HTD": "queries", "k_GTD": "keys; G divides H", "v_GTD": "values"},
    {"o_HTD": "outputs"},
    lambda q_HTD, k_GTD, v_GTD: oracle.attend(q_HTD[None], k_GTD[None], v_GTD[None])[0],
    (
        (
            np.array([[[0.0]], [[0.0]], [[0.0]], [[0.0]]]),
            np.array([[[0.0]], [[0.0]]]),
            np.array([[[1.0]], [[2.0]]]),
        ),
    ),
    _draw_grouped,
    (
        WrongProgram(
            "grouped-query attention with interleaved groups, g = h mod G, instead of consecutive ones",
            _grouped(lambda h, H, G: h % G),
        ),
        WrongProgram("attention in which every head reads the first key/value head", _grouped(lambda h, H, G: 0)),
        WrongProgram(
            "grouped-query attention with the key/value heads in reverse order", _grouped(lambda h, H, G: G - 1 - h // (H // G))
        ),
        WrongProgram(
            "grouped-query attention without the scale 1/√D",
            lambda q_HTD, k_GTD, v_GTD: _grouped(lambda h, H, G: h // (H // G))(q_HTD * np.sqrt(q_HTD.shape[-1]), k_GTD, v_GTD),
        ),
    ),
)


def _cached(q_D: Array, k_D: Array, v_E: Array, keys_TD: Array, values_TE: Array) -> tuple[Array, Array, Array]:
    keys_UD, values_UE = np.array([*keys_TD, k_D]), np.array([*values_TE, v_E])
    return oracle.attend(q_D[None, None, None], keys_UD[None, None], values_UE[None, None])[0, 0, 0], keys_UD, values_UE


Added = Callable[[Array, Array], Array]


def _after(rows: Array, new: Array) -> Array:
    return np.vstack([rows, new])


def _before(rows: Array, new: Array) -> Array:
    return np.vstack([new, rows])


def _old(rows: Array, new: Array) -> Array:
    return rows


def _new(rows: Array, new: Array) -> Array:
    return new[None]


def _stepped(read: Added = _after, kept: Added = _after, scaled: bool = True) -> Callable[..., tuple[Array, Array, Array]]:
    """A step that attends to some rows and keeps others."""

    def program(q_D: Array, k_D: Array, v_E: Array, keys_TD: Array, values_TE: Array) -> tuple[Array, Array, Array]:
        p_U = softmax(read(keys_TD, k_D) @ q_D / np.sqrt(len(q_D) if scaled else 1))
        return p_U @ read(values_TE, v_E), kept(keys_TD, k_D), kept(values_TE, v_E)

    return program


def _draw_cached(generator: np.random.Generator) -> Case:
    T, D, E = (length(generator, 2, 5) for _ in range(3))
    return tuple(generator.normal(size=shape) for shape in ((D,), (D,), (E,), (T, D), (T, E)))


CACHED_STEP = Exercise(
    "cached_step",
    "one decoding step with a cache of keys and values",
    "the cache gets k and v as its last row, then o = softmax(keys q / √D) values over all of its rows, the new one included",
    {
        "q_D": "query of the new token",
        "k_D": "its key",
        "v_E": "its value",
        "keys_TD": "keys of the tokens before it",
        "values_TE": "their values",
    },
    {"o_E": "output of the new token", "keys_UD": "keys with the new one, U = T + 1", "values_UE": "values with the new one"},
    _cached,
    ((np.array([1.0, 1.0]), np.array([0.0, 0.0]), np.array([4.0]), np.array([[1.0, -1.0]]), np.array([[2.0]])),),
    _draw_cached,
    (
        WrongProgram("a step that only attends to the tokens before it, not to itself", _stepped(read=_old)),
        WrongProgram("a step that does not add its key and value to the cache it returns", _stepped(kept=_old)),
        WrongProgram("a step that puts its key and value at the front of the cache", _stepped(_before, _before)),
        WrongProgram("a step without the scale 1/√D", _stepped(scaled=False)),
        WrongProgram("a step that only attends to itself", _stepped(read=_new)),
    ),
)


def _phi(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def _linear(f_q: Array, f_k: Array, v_TE: Array, normalized: bool = True, late: bool = False) -> Array:
    """The recurrence; `late`: the state gets a token only after that token has read it."""
    S_DE, z_D, outputs = np.zeros((f_k.shape[1], v_TE.shape[1])), np.zeros(f_k.shape[1]), []
    for q_D, k_D, v_E in zip(f_q, f_k, v_TE, strict=True):
        if not late:
            S_DE, z_D = S_DE + np.outer(k_D, v_E), z_D + k_D
        outputs.append(q_D @ S_DE / (q_D @ z_D if normalized else 1))
        if late:
            S_DE, z_D = S_DE + np.outer(k_D, v_E), z_D + k_D
    return np.array(outputs)


def _draw_linear(generator: np.random.Generator) -> Case:
    T, D, E = (length(generator, 2, 5) for _ in range(3))
    return tuple(generator.normal(size=shape) for shape in ((T, D), (T, D), (T, E)))


LINEAR_ATTENTION = Exercise(
    "linear_attention",
    "causal linear attention as a recurrence",
    "S_t = S_{t−1} + φ(k_t) v_tᵀ        z_t = z_{t−1} + φ(k_t)        o_t = φ(q_t)ᵀ S_t / φ(q_t)ᵀ z_t\n"
    "φ(x) = elu(x) + 1: x + 1 for x > 0, exp(x) otherwise; S_0 and z_0 are zero",
    {"q_TD": "queries", "k_TD": "keys", "v_TE": "values"},
    {"o_TE": "outputs"},
    lambda q_TD, k_TD, v_TE: linear_oracle.attend(q_TD[None, None], k_TD[None, None], v_TE[None, None])[0, 0],
    ((np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]), np.array([[3.0], [6.0]])),),
    _draw_linear,
    (
        WrongProgram(
            "linear attention without the division by φ(q)ᵀ z",
            lambda q_TD, k_TD, v_TE: _linear(_phi(q_TD), _phi(k_TD), v_TE, normalized=False),
        ),
        WrongProgram("linear attention without φ", _linear),
        WrongProgram("linear attention with φ on the keys only", lambda q_TD, k_TD, v_TE: _linear(q_TD, _phi(k_TD), v_TE)),
        WrongProgram(
            "linear attention that is not causal: every token reads the final state",
            lambda q_TD, k_TD, v_TE: _phi(q_TD) @ (_phi(k_TD).T @ v_TE) / (_phi(q_TD) @ _phi(k_TD).sum(0))[:, None],
        ),
        WrongProgram(
            "linear attention that reads the state before the token's own key and value are in it",
            lambda q_TD, k_TD, v_TE: _linear(_phi(q_TD), _phi(k_TD), v_TE, late=True),
        ),
        WrongProgram(
            "linear attention with φ(x) = elu(x), without the + 1",
            lambda q_TD, k_TD, v_TE: _linear(_phi(q_TD) - 1, _phi(k_TD) - 1, v_TE),
        ),
    ),
)

HEADS = (MULTI_HEAD, GROUPED_QUERY, CACHED_STEP, LINEAR_ATTENTION)
