"""The matrices of a recurrent layer over time, and of the attention of a recurrent decoder. Row t is step t.

Letters: T steps, S source tokens, i input width, d width, m width of the memory, A width of the comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.inspection.walk import attention
from firth.inspection.walk.matrix import Line, LinearProduct, SourceLine, WalkMatrix, source_line
from firth.inspection.walk.recorded import Recording
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attentive_recurrence import AttentionalState, MemoryAttention
from firth.layers.cross_attention import Source
from firth.layers.recurrent import Cell, State, Trace, Weights


class CellCall(NamedTuple):
    """One direction of a recurrent layer on a text."""

    cell: Cell
    x_1Ti: Tensor
    first: State  # before the first step
    tokens: tuple[str, ...]
    backward: bool = False
    input_name: str = "x"

    def run(self) -> _Ran:
        """Every step of the text at once, recorded, with the states that the cell has gone through."""
        with torch.no_grad():
            trace = self.cell.unroll(self.x_1Ti, self.first, None, self.backward)[0]
            before = [
                _before(trace[name][0], first[0], self.backward) for name, first in zip(self.cell.state, self.first, strict=True)
            ]
            return _Ran(self, self.x_1Ti[0], tuple(before))


class _Ran:
    """Steps of a cell, one in each row, as they were computed."""

    def __init__(self, given: CellCall, x_Ti: Tensor, before: State) -> None:
        cell, w = given.cell, given.cell.weights(given.backward)
        self.cell, self.before = cell, before
        names = [(given.input_name, x_Ti), *self._parameters(w)]
        names += [(f"{cell.quantity(name).letter}_t−1", h_Td) for name, h_Td in zip(cell.state, before, strict=True)]
        self.steps = Recording(lambda: cell.step(w.of_input(x_Ti), before, w), names=names)
        self.trace: Trace = self.steps.result
        for name, value in self.trace.items():
            self.steps.call_it(value, cell.quantity(name).letter)

    def _parameters(self, w: Weights) -> list[tuple[str, Tensor]]:
        own = [(name.removesuffix("_reverse").removesuffix("_l0"), value) for name, value in self.cell.named_parameters()]
        return [*own, *zip(("W", "U", "b", "b′"), w, strict=True)] if isinstance(w, Weights) else own

    def equation(self, name: str) -> str:
        letter, equation = self.cell.quantity(name).letter, self.steps.equation(self.trace[name])
        return letter if equation == letter else f"{letter} = {equation}"

    def source(self, name: str) -> SourceLine:
        return self.steps.source(self.trace[name]) or source_line(type(self.cell).step, "def step")


def cell_equation(given: CellCall) -> str:
    """The equations from the gates to the state of the cell, the outermost last."""
    with torch.no_grad():
        ran = _Ran(given, given.x_1Ti[0, :1], given.first)
    return ",  ".join(ran.equation(name) for name in reversed(given.cell.state))


@torch.no_grad()
def cell_matrices(given: CellCall) -> list[WalkMatrix]:
    """The input, the state before each step, the gates, and the state after it."""
    cell, ran, x = given.cell, given.run(), given.input_name
    unroll = source_line(type(cell).unroll, "self.step(")
    matrices = [WalkMatrix(x, "what enters the layer", x, "Ti", given.x_1Ti[0], given.tokens, unroll)]
    for name, before_Td in zip(cell.state, ran.before, strict=True):
        letter, title = cell.quantity(name)
        title = f"{title} before the step: that of the {'next' if given.backward else 'last'} token"
        matrices.append(
            WalkMatrix(f"{letter}_t−1", title, f"{letter} of step t − 1", "Td", before_Td, given.tokens, unroll, step=True)
        )
    for name in [*(name for name in ran.trace if name not in cell.state), *reversed(cell.state)]:
        (letter, title), value_Td = cell.quantity(name), ran.trace[name]
        spell, unit = ran.steps.spell(value_Td, letter), ran.steps.is_share(value_Td)
        equation, line = ran.equation(name), ran.source(name)
        matrices.append(WalkMatrix(letter, title, equation, "Td", value_Td, given.tokens, line, spell, step=True, unit=unit))
    return matrices


def _before(h_Td: Tensor, first_d: Tensor, backward: bool) -> Tensor:
    first_1d = first_d.unsqueeze(0)
    return torch.cat((h_Td[1:], first_1d)) if backward else torch.cat((first_1d, h_Td[:-1]))


# Attention to a memory


class MemoryCall(NamedTuple):
    """The attention of states to a memory, one query per step."""

    layer: MemoryAttention
    query_1Td: Tensor  # the states that ask
    memory: Source
    memory_1Sm: Tensor
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]

    def call(self) -> Call:
        q_11TA = self.layer.query(self.query_1Td).unsqueeze(1)
        memory = self.memory
        return self.layer.attend.call(q_11TA, memory.k_BGSD, memory.v_BGSD, mask.lengths(memory.length_B), None, 0)


_QUERY = (MemoryAttention.contexts, "self.query(h_BTd)")
_KEY = (MemoryAttention.remember, "self.key(memory_BSm)")


@torch.no_grad()
def memory_matrices(given: MemoryCall, query: str) -> list[WalkMatrix]:
    """From the states to the contexts c; `query` is the name of the states."""
    layer, names = given.layer, {"W": query, "U": "m"}
    matrices: list[WalkMatrix] = []
    for projection, W, x, x_ni, title, axes, tokens, (function, part) in (
        (layer.query, "W", f"{query}_t", given.query_1Td[0], "the query of each step", "TA", given.tokens, _QUERY),
        (layer.key, "U", "m_s", given.memory_1Sm[0], "the key of each source token", "SA", given.source_tokens, _KEY),
    ):
        if isinstance(projection, nn.Linear):
            spell = LinearProduct(x_ni, projection.weight, None, (names[W], W))
            names[W] = name = f"{W} {names[W]}"
            line = source_line(function, part)
            matrix = WalkMatrix(name, title, f"{W} {x}", axes, projection(x_ni), tokens, line, spell.spell(name))
            matrices.append(replace(matrix, reads=(query,) if W == "W" else ()))
    letters = attention.Names(names["W"], names["U"], "m", "e", "α", "c", "TS")
    matrices += attention.matrices(given.call(), 0, given.tokens, given.source_tokens, letters)
    matrices[-1] = replace(matrices[-1], axes="Tm", title="context: the memory, weighted")
    return matrices


@torch.no_grad()
def attentive_matrices(attend: MemoryCall, cell: CellCall, inputs: int) -> list[WalkMatrix]:
    """RNNsearch: attention with the state before the step, then the step with [x; c]."""
    x, *matrices = cell_matrices(cell)
    x = replace(x, title=f"what enters the cell: {inputs} columns of x, then the context c", reads=("c",))
    return [matrices[0], *memory_matrices(attend, "h_t−1"), x, *matrices[1:]]


@torch.no_grad()
def attentional_matrices(given: MemoryCall, layer: AttentionalState) -> list[WalkMatrix]:
    """Luong: attention with the state after the step, then h̃ = tanh(W_c [c; h])."""
    matrices = memory_matrices(given, "h")
    both_Tn = torch.cat((matrices[-1].value, given.query_1Td[0]), dim=-1)
    total = LinearProduct(both_Tn, layer.combine.weight, None, ("[c; h]", "W_c"))
    value_Td = torch.tanh(layer.combine(both_Tn))

    def lines(t: int, j: int) -> list[Line]:
        (inner,) = total.spell("Σ W_c [c; h]")(t, j)
        return [inner, Line("h̃ = tanh(…)", float(torch.tensor(inner.value, dtype=torch.float64).tanh()))]

    line = source_line(AttentionalState.forward, "torch.tanh(self.combine")
    states = WalkMatrix("h", "the states that ask", "h", "Td", given.query_1Td[0], given.tokens, line)
    title = "attentional state: context and state together"
    return [states, *matrices, WalkMatrix("h̃", title, "h̃ = tanh(W_c [c; h])", "Td", value_Td, given.tokens, line, lines)]
