"""The matrices of an attention: scores, weights, and their sum of the values. Letters: H heads, G key/value heads, Q queries,
K keys, D head width, E value width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from firth.inspection.walk.matrix import Line, Spell, WalkMatrix, number, product, source_line
from firth.inspection.walk.recorded_attention import bias_equation, recorded_bias, recorded_score
from firth.layers.attention import reference
from firth.layers.attention.call import Call
from firth.layers.attention.weights import weights
from firth.layers.position import Bias, Shaw


class Names(NamedTuple):
    """The names of an attention's letters where it stands."""

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
    scored = _Scored(one, named)
    bias = [] if scored.bias is None else [_bias(scored, named, rows, columns)]
    s, p, v, o, axes, allowed_QK = named.score, named.weight, named.value, named.output, named.axes, one.allowed_QK
    line = scored.compared.source(scored.compared.result) or source_line(reference.scores, "score_BHQK = call.score.between")
    title, equation = "scores: how well each key matches the query", f"{s} = {scored.equation()}"
    scores = WalkMatrix(s, title, equation, axes, one.s_QK, rows, line, scored.lines, columns, allowed=allowed_QK)
    title, equation = (
        "attention weights: a mask, then a softmax over each row",
        f"{p} = softmax({s}), over the keys that the mask allows",
    )
    line, spell = source_line(reference.weights, "softmax(-1)"), _softmax(one, named)
    shares = WalkMatrix(p, title, equation, axes, one.p_QK, rows, line, spell, columns, allowed=allowed_QK, unit=True)
    equation = f"{o} = {p} {v}" + (" + Σ p a^V" if _shaw_values(one.call) else "")
    line, spell = source_line(reference.run, "call.v_BGKE.unsqueeze(2)"), _weighted(one, named, columns)
    sums = WalkMatrix(o, "sum of the values, weighted", equation, f"{axes[0]}D", one.o_QE, rows, line, spell)
    return [*bias, scores, shares, sums]


class _Scored:
    """The scores of one head: a(q, k) in its own operations, then the effects of positions, scale and cap. The contribution of a
    position that is not a bias is shown as a difference."""

    def __init__(self, one: Seen, named: Names) -> None:
        self.one, self.call, self.named = one, one.call, named
        self.compared, position = recorded_score(self.call, named.query, named.key), self.call.position
        self.bias = recorded_bias(position, self.call.distance_BHQK()) if isinstance(position, Bias) else None
        self.is_inside = position is not None and self.bias is None

    def equation(self) -> str:
        call, q, inside = self.call, self.named.query, self.compared.equation(self.compared.result)
        if self.is_inside:
            inside = f"({inside} + {q} aᵀ)" if isinstance(call.position, Shaw) else f"({inside} + position)"
        if call.scale != 1:
            inside += f" · {call.scale:.4g}" if not _is_root(call) else " / √D"
        if call.cap is not None:
            inside = f"{call.cap:g} tanh({inside} / {call.cap:g})"
        return inside if self.bias is None else f"{inside} + b"

    def b_QK(self) -> Tensor:
        assert self.bias is not None
        b_QK: Tensor = self.bias.result[0, 0]
        return b_QK

    def lines(self, t: int, k: int) -> list[Line]:
        call, final = self.call, number(self.one.s_QK[t, k])
        lines = self.compared.spell(self.compared.result, "a", (0, 0, 0))(t, k)
        value = lines[-1].value
        if self.is_inside:
            raw = final if call.cap is None else call.cap * math.atanh(final / call.cap)
            lines.append(Line("term of the position", raw / call.scale - value))
            value += lines[-1].value
        if call.scale != 1:
            value *= call.scale
            lines.append(Line("divided by √D" if _is_root(call) else f"times {call.scale:.4g}", value))
        if call.cap is not None:
            value = call.cap * math.tanh(value / call.cap)
            lines.append(Line(f"bounded by ±{call.cap:g}", value))
        if self.bias is not None:
            lines.append(Line("b", number(self.b_QK()[t, k])))
            value += lines[-1].value
        return [*lines, Line(self.named.score, value)]


def _bias(scored: _Scored, named: Names, rows: tuple[str, ...], columns: tuple[str, ...]) -> WalkMatrix:
    """The term that a position adds to the scores."""
    bias, allowed_QK = scored.bias, scored.one.allowed_QK
    assert bias is not None
    line = bias.source(bias.result) or source_line(reference.scores, "position.bias_BHQK(")
    title, equation, spell = "position: a bias for each distance", bias_equation(bias), bias.spell(bias.result, "b", (0, 0))
    value = scored.b_QK()
    return WalkMatrix("b", title, f"b = {equation}", named.axes, value, rows, line, spell, columns, allowed=allowed_QK, reads=())


def _is_root(call: Call) -> bool:
    return math.isclose(call.scale, call.q_BHQD.shape[-1] ** -0.5, rel_tol=1e-9)


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
