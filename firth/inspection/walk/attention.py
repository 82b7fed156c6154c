"""The matrices of an attention: scores, weights, and their sum of the values. Letters: H heads, G key/value heads, Q queries,
K keys, D head width, E value width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from firth.inspection.walk.matrix import Line, Spell, WalkMatrix, number, product, source_line
from firth.layers.attention import reference
from firth.layers.attention.call import Call
from firth.layers.attention.score import Additive, Dot, Gaussian
from firth.layers.attention.weights import weights
from firth.layers.position import Bias, Shaw


class Names(NamedTuple):
    """What the letters of an attention are called where it stands."""

    query: str = "q"
    key: str = "k"
    value: str = "v"
    score: str = "s"
    weight: str = "p"
    output: str = "o"
    axes: str = "TT"


class Seen(NamedTuple):
    """One head of a call."""

    call: Call  # reduced, with one head
    s_QK: Tensor
    p_QK: Tensor
    o_QE: Tensor
    allowed_QK: Tensor


def mean_weights(call: Call) -> Tensor:
    """p_QK, averaged over heads."""
    return weights(call)[0].mean(0)


@torch.no_grad()
def seen(call: Call, head: int) -> Seen:
    one = call.reduced()
    one = one.of_heads(torch.tensor([head], device=one.q_BHQD.device))
    s_QK = reference.scores(one)[0, 0]
    return Seen(one, s_QK, reference.weights(one)[0, 0], reference.run(one)[0, 0], one.allowed_BHQK()[0, 0].expand_as(s_QK))


def matrices(call: Call, head: int, queries: Sequence[str], keys: Sequence[str], named: Names) -> list[WalkMatrix]:
    """Scores, weights and outputs of one head."""
    one, rows, columns = seen(call, head), tuple(queries), tuple(keys)
    s, p, v, o = named.score, named.weight, named.value, named.output
    return [
        WalkMatrix(
            s,
            "scores: how well each key matches the query",
            f"{s} = {_score_equation(one.call, named)}",
            named.axes,
            one.s_QK,
            rows,
            source_line(reference.scores, "score_BHQK = call.score.between"),
            _scores(one, named),
            columns,
            allowed=one.allowed_QK,
        ),
        WalkMatrix(
            p,
            "attention weights: a mask, then a softmax over each row",
            f"{p} = softmax({s}), over the keys that the mask allows",
            named.axes,
            one.p_QK,
            rows,
            source_line(reference.weights, "softmax(-1)"),
            _softmax(one, named),
            columns,
            allowed=one.allowed_QK,
            unit=True,
        ),
        WalkMatrix(
            o,
            "sum of the values, weighted",
            f"{o} = {p} {v}" + (" + Σ p a^V" if _shaw_values(one.call) else ""),
            named.axes[0] + "D",
            one.o_QE,
            rows,
            source_line(reference.run, "call.v_BGKE.unsqueeze(2)"),
            _weighted(one, named, columns),
        ),
    ]


def _score_equation(call: Call, named: Names) -> str:
    q, k = named.query, named.key
    match call.score:
        case Additive():
            inside = f"w · tanh({q} + {k})"
        case Gaussian():
            inside = f"−½ |{q} − {k}|²"
        case Dot():
            inside = f"{q} {k}ᵀ"
        case _:
            inside = f"a({q}, {k})"
    if call.position is not None and not isinstance(call.position, Bias):
        inside = f"({inside} + {q} aᵀ)" if isinstance(call.position, Shaw) else f"({inside} + position)"
    if call.scale != 1:
        inside += f" · {call.scale:.4g}" if not _is_root(call) else " / √D"
    if call.cap is not None:
        inside = f"{call.cap:g} tanh({inside} / {call.cap:g})"
    return inside + (" + bias(k − q)" if isinstance(call.position, Bias) else "")


def _is_root(call: Call) -> bool:
    return math.isclose(call.scale, call.q_BHQD.shape[-1] ** -0.5, rel_tol=1e-9)


def _scores(one: Seen, named: Names) -> Spell:
    """The score before and after what positions, scale and cap do to it. The share of a position is told as a difference."""
    call = one.call
    q_QD, k_KD = call.q_BHQD[0, 0], call.k_BGKC[0, 0]

    def lines(t: int, k: int) -> list[Line]:
        names = (named.query, named.key)
        match call.score:
            case Additive(w_HA=w_HA):
                inner = torch.tanh(q_QD[t] + k_KD[k])
                found = [product(f"w · tanh({names[0]} + {names[1]})", w_HA[0], inner, ("w", "tanh(…)"))]
            case Dot():
                found = [product(f"{names[0]} · {names[1]}", q_QD[t], k_KD[k], names)]
            case Gaussian():
                apart = q_QD[t] - k_KD[k]
                found = [product(f"−½ |{names[0]} − {names[1]}|²", -apart / 2, apart, (f"−½({names[0]} − {names[1]})", "same"))]
            case _:
                found = [Line(f"a({names[0]}, {names[1]})", number(call.score.between(q_QD[t : t + 1], k_KD[k : k + 1])))]
        value, final = found[0].value, number(one.s_QK[t, k])
        if call.position is not None and not isinstance(call.position, Bias):
            raw = final if call.cap is None else call.cap * math.atanh(final / call.cap)
            found.append(Line("term of the position", raw / call.scale - value))
            value += found[-1].value
        if call.scale != 1:
            value *= call.scale
            found.append(Line("divided by √D" if _is_root(call) else f"times {call.scale:.4g}", value))
        if call.cap is not None:
            value = call.cap * math.tanh(value / call.cap)
            found.append(Line(f"bounded by ±{call.cap:g}", value))
        if isinstance(call.position, Bias):
            bias_BHQK = call.position.bias_BHQK(call.distance_BHQK())
            bias = number(bias_BHQK[0, 0, t, k])
            found.append(Line("bias of the distance", bias))
            value += bias
        return [*found, Line(named.score, value)]

    return lines


def _softmax(one: Seen, named: Names) -> Spell:
    def lines(t: int, k: int) -> list[Line]:
        if not bool(one.allowed_QK[t, k]):
            return [Line("the mask hides this key from this query", 0.0), Line(named.weight, 0.0)]
        s_K = one.s_QK[t][one.allowed_QK[t]].double()
        most, own = float(s_K.max()), number(one.s_QK[t, k])
        total = float((s_K - most).exp().sum())
        exp = math.exp(own - most)
        return [
            Line(named.score, own),
            Line("largest score of the row", most),
            Line("exp(score − largest)", exp),
            Line("sum of these over the row", total),
            Line(named.weight, exp / total),
        ]

    return lines


def _shaw_values(call: Call) -> bool:
    return isinstance(call.position, Shaw) and call.position.value_RE is not None


def _weighted(one: Seen, named: Names, keys: tuple[str, ...]) -> Spell:
    v_KE = one.call.v_BGKE[0, 0]

    def lines(t: int, j: int) -> list[Line]:
        total = product(f"Σ {named.weight} {named.value}", one.p_QK[t], v_KE[:, j], (named.weight, named.value), keys)
        if not _shaw_values(one.call):
            return [Line(named.output, total.value, total.left, total.right, total.names, keys)]
        position = one.call.position
        assert isinstance(position, Shaw)
        assert position.value_RE is not None
        p_R = reference.by_distance(one.p_QK[None, None], one.call)[0, 0, t]
        shaw = product("Σ p a^V, by distance", p_R, position.value_RE[:, j], ("p", "a^V"))
        return [total, shaw, Line(named.output, total.value + shaw.value)]

    return lines
