"""The matrices of a token mixer that is no softmax attention: the state after each token and what is read from it.

A mixer runs once, recorded, so that its equations are those of its own operations. Where its tokens meet in a linear attention,
each token is one step: S_t from S_{t−1}, and o_t from S_t. Letters: T tokens, d width, D head width, F width of the features φ,
E value width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.inspection.walk.matrix import Line, SourceLine, Spell, WalkMatrix, number, product, source_line
from firth.inspection.walk.recorded import Recording
from firth.inspection.walk.recorded_layers import spelled_norm
from firth.layers.attention.call import Call
from firth.layers.linear_attention import recurrent
from firth.layers.linear_attention.call import LinearCall
from firth.layers.linear_attention.layers import LinearAttend
from firth.layers.norm import kind_of
from firth.layers.tap import ModuleCall, module_calls
from firth.layers.token_mixer import TokenMixer

_ALL_HEADS = "Concat(o of all heads)"
_TITLES = {"q": "queries of the head", "k": "keys of the head", "v": "values of the head", "ln g": "log of the gates of the head"}


def linear_attend_of(layer: nn.Module) -> LinearAttend | None:
    """The linear attention of a mixer, if it has one."""
    attend = getattr(layer, "attend", None)
    return attend if isinstance(attend, LinearAttend) else None


class MixerCall(NamedTuple):
    """A mixer with its input, which has this name."""

    layer: TokenMixer
    n_1Td: Tensor
    name: str
    allowed: Any
    position: Any
    tokens: tuple[str, ...]

    def run(self) -> Tensor:
        y_1Td: Tensor = self.layer(self.n_1Td, self.allowed, self.position, None)[0]
        return y_1Td

    @torch.no_grad()
    def weights_call(self) -> Call:
        """Its linear attention as one that has weights, if it is normalised."""
        attend = linear_attend_of(self.layer)
        assert attend is not None
        with module_calls([attend]) as calls:
            self.run()
        return attend.call(*calls[0].given)


def _linear_call(attend: LinearAttend, called: ModuleCall) -> LinearCall:
    q_BHTD, k_BHTD, v_BHTE, log_gate_BHTF, _ = called.given
    return LinearCall(q_BHTD, k_BHTD, v_BHTE, attend.features, log_gate_BHTF, attend.normalized)


@torch.no_grad()
def mixer_matrices(given: MixerCall, head: int) -> list[WalkMatrix]:
    """From the input to the output a; the last one is that."""
    layer, attend = given.layer, linear_attend_of(given.layer)
    out, norms = getattr(layer, "out", None), [one for one in layer.children() if kind_of(one) is not None]
    with module_calls([one for one in (attend, *norms, out) if one is not None]) as calls:
        ran = Recording(given.run, names=[(given.name, given.n_1Td), *_parameters(layer)])
    matrices: list[WalkMatrix] = []
    for called in calls:
        if called.module is attend:
            assert attend is not None
            call = _linear_call(attend, called)
            matrices += _Head(given, call, head).matrices(ran)
            ran.call_it(called.output[0], "o")
        elif called.module in norms and ran.name(called.given[0]) == "o":
            normed = spelled_norm(called.module, matrices[-1].value, "o", "N(o)")
            title, (_, _, equation, line, spell) = f"{normed.title} of the head", normed
            matrices.append(WalkMatrix("N(o)", title, equation, "TE", normed.value_Tn, given.tokens, line, spell))
            ran.call_it(called.output, "N(o)")
        elif called.module is out:
            matrices += _before_output(given, ran, called.given[0])
    return [*matrices, _output(given, ran)]


def _parameters(layer: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """W_qkv and b_qkv of a product `qkv`, γ of a norm."""
    for name, value in layer.named_parameters():
        module, _, own = name.rpartition(".")
        letter = {"weight": "W" if value.ndim > 1 else "γ", "bias": "b"}.get(own, own.rsplit("_", 1)[0])
        yield (f"{letter}_{module.rpartition('.')[2]}" if module and letter in ("W", "b") else letter), value


def _before_output(given: MixerCall, ran: Recording, y_1Tn: Tensor) -> list[WalkMatrix]:
    """What the output's product is given, unless it is nothing but the heads side by side."""
    if ran.name(y_1Tn) == "o":
        ran.call_it(y_1Tn, _ALL_HEADS)
        return []
    equation = ran.equation(y_1Tn)
    spell = None if "…" in equation else ran.spell(y_1Tn, "y", (0,))
    line, title = ran.origin(y_1Tn) or _forward(given.layer), "all heads, before the last product"
    ran.call_it(y_1Tn, "y")
    return [WalkMatrix("y", title, f"y = {equation}", "Td", y_1Tn[0], given.tokens, line, spell)]


def _output(given: MixerCall, ran: Recording) -> WalkMatrix:
    a_1Td, title = ran.result, f"output of {given.layer.title()}, all heads"
    equation = ran.equation(a_1Td)
    spell = None if "…" in equation else ran.spell(a_1Td, "a", (0,))
    line = _forward(given.layer, "self.out(")
    return WalkMatrix("a", title, f"a = {equation}", "Td", a_1Td[0], given.tokens, line, spell)


def _forward(layer: nn.Module, part: str = "def forward") -> SourceLine:
    try:
        return source_line(type(layer).forward, part)
    except LookupError:
        return source_line(type(layer).forward, "def forward")


class _Head:
    """One head of a linear attention, token by token."""

    def __init__(self, given: MixerCall, call: LinearCall, head: int) -> None:
        self.given, self.call, self.head = given, call, head
        self.one = replace(
            call,
            q_BHTD=call.q_BHTD[:, head : head + 1],
            k_BHTD=call.k_BHTD[:, head : head + 1],
            v_BHTE=call.v_BHTE[:, head : head + 1],
            log_gate_BHTF=None if call.log_gate_BHTF is None else call.log_gate_BHTF[:, head : head + 1],
        )

    def matrices(self, ran: Recording) -> list[WalkMatrix]:
        call, given = self.call, self.given
        read = {"q": call.q_BHTD, "k": call.k_BHTD, "v": call.v_BHTE}
        read |= {} if call.log_gate_BHTF is None else {"ln g": call.log_gate_BHTF}
        found = []
        for name, x_BHTD in read.items():
            equation, spell = f"{name} = {ran.equation(x_BHTD)}", ran.spell(x_BHTD, name, (0, self.head))
            line, value = ran.origin(x_BHTD) or _forward(given.layer), x_BHTD[0, self.head]
            found.append(WalkMatrix(name, _TITLES[name], equation, "TD", value, given.tokens, line, spell))
        return [*found, *self._features(), *self._states(), self._read_out()]

    def _features(self) -> list[WalkMatrix]:
        """φ(q) and φ(k), unless φ(x) = x; and the gates."""
        q_TD, k_TD, features = self.one.q_BHTD[0, 0], self.one.k_BHTD[0, 0], self.call.features
        ran = Recording(lambda: (features.map(q_TD), features.map(k_TD)), names=[("q", q_TD), ("k", k_TD)])
        self.q_TF, self.k_TF = ran.result
        self.q, self.k, self.g_TF = "q", "k", None
        found = []
        if self.q_TF is not q_TD:
            self.q, self.k = "φ(q)", "φ(k)"
            line = source_line(type(features).map, "def map")
            for name, x_TF, title in (
                (self.q, self.q_TF, "features of the queries"),
                (self.k, self.k_TF, "features of the keys"),
            ):
                equation, spell = f"{name} = {ran.equation(x_TF)}", ran.spell(x_TF, name)
                found.append(self._matrix(name, title, equation, "TF", x_TF, ran.source(x_TF) or line, spell))
        if self.one.log_gate_BHTF is not None:
            log_TF = self.one.log_gate_BHTF[0, 0]
            self.g_TF = log_TF.exp()
            title, line = "gates: how much of the state stays", source_line(recurrent.run, "log_gate_BHTF.to(call.wide).exp()")
            found.append(self._matrix("g", title, "g = exp(ln g)", "TF", self.g_TF, line, _exp(log_TF, self.g_TF), unit=True))
        return found

    def _states(self) -> list[WalkMatrix]:
        """S before and after each token; if the attention is normalised, z too, the last column of S."""
        v_TE, gate = self.one.values()[0, 0], (lambda t: None) if self.g_TF is None else self.g_TF.__getitem__
        S_FE, before = self.one.past()[0, 0], []
        for t in range(len(v_TE)):
            before.append(S_FE)
            S_FE = recurrent.step(S_FE, self.q_TF[t], self.k_TF[t], v_TE[t], gate(t))[0]
        before_TFE = torch.stack(before)
        names = [("S_t−1", before_TFE), (self.q, self.q_TF), (self.k, self.k_TF), ("v", v_TE)]
        names += [] if self.g_TF is None else [("g", self.g_TF)]
        ran = Recording(lambda: recurrent.step(before_TFE, self.q_TF, self.k_TF, v_TE, self.g_TF), names=names)
        S_TFE, E = ran.result[0], self.one.v_BHTE.shape[-1]
        self.S_TFE, self.z_TF = S_TFE[..., :E], S_TFE[..., E] if self.call.normalized else None
        line = ran.source(S_TFE) or source_line(recurrent.step, "def step")
        cells = f"S[f, e] is column {E} f + e"
        kept = "" if self.g_TF is None else "g ⊙ "
        found = [
            self._matrix(
                "S_t−1", f"state before the token; {cells}", "S of step t − 1", "TF", before_TFE[..., :E].flatten(1), line, None
            ),
            self._matrix(
                "S",
                f"state after the token; {cells}",
                f"S = {kept}S_t−1 + {self.k} vᵀ",
                "TF",
                self.S_TFE.flatten(1),
                line,
                lambda t, j: ran.spell(S_TFE, "S", (t,))(*divmod(j, E)),
            ),
        ]
        if self.z_TF is not None:
            title, equation = "sum of the keys' features, which o is divided by", f"z = {kept}z_t−1 + {self.k}"
            found.append(self._matrix("z", title, equation, "TF", self.z_TF, line, self._sum(before_TFE[..., E])))
        return [replace(one, step=True) for one in found]

    def _sum(self, before_TF: Tensor) -> Spell:
        """z, of which `before_TF` is the one before each token."""

        def lines(t: int, f: int) -> list[Line]:
            kept = [] if self.g_TF is None else [Line("g", number(self.g_TF[t, f]))]
            old, new = Line("z_t−1", number(before_TF[t, f])), Line(self.k, number(self.k_TF[t, f]))
            return [*kept, old, new, Line("z", old.value * (kept[0].value if kept else 1.0) + new.value)]

        return lines

    def _read_out(self) -> WalkMatrix:
        o_TE = torch.einsum("tf,tfe->te", self.q_TF.to(self.S_TFE.dtype), self.S_TFE)
        equation = f"o = {self.q} S"
        if self.z_TF is not None:
            o_TE = o_TE / (self.q_TF * self.z_TF).sum(-1, keepdim=True)
            equation = f"o = {self.q} S / ({self.q} z)"
        line = source_line(recurrent.step, "@ S_BHFE")
        return self._matrix("o", "what the query reads from the state", equation, "TE", o_TE, line, self._read)

    def _read(self, t: int, e: int) -> list[Line]:
        total = product(f"Σ {self.q} S", self.q_TF[t], self.S_TFE[t, :, e], (self.q, "S"))
        if self.z_TF is None:
            return [replace(total, label="o = " + total.label)]
        below = product(f"Σ {self.q} z", self.q_TF[t], self.z_TF[t], (self.q, "z"))
        return [total, below, Line("o", total.value / below.value)]

    def _matrix(
        self,
        name: str,
        title: str,
        equation: str,
        axes: str,
        value: Tensor,
        line: SourceLine,
        spell: Spell | None,
        unit: bool = False,
    ) -> WalkMatrix:
        return WalkMatrix(name, title, equation, axes, value, self.given.tokens, line, spell, unit=unit)


def _exp(log_TF: Tensor, g_TF: Tensor) -> Spell:
    return lambda t, f: [Line("ln g", number(log_TF[t, f])), Line("g = exp(ln g)", number(g_TF[t, f]))]
