"""The matrices of a recurrent layer over time, and of the attention of a recurrent decoder. Row t is step t.

Letters: T steps, S source tokens, i input width, d width, m width of the memory, A width of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.inspection.walk import attention
from firth.inspection.walk.matrix import Line, Linear, Matrix, SourceLine, Spell, number, product, source_line
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.attentive_recurrence import AttentionalState, Memory, MemoryAttention
from firth.layers.recurrent import Cell
from firth.layers.recurrent.cell import State

LETTERS = {"input": "i", "forget": "f", "candidate": "g", "output": "o", "reset": "r", "update": "z", "h": "h", "c": "c"}
TITLES = {
    "input": "input gate: how much of the candidate is written",
    "forget": "forget gate: how much of the cell is kept",
    "output": "output gate: how much of the cell is shown",
    "reset": "reset gate: how much of the old state the candidate sees",
    "update": "update gate",
    "candidate": "candidate: what could be written",
    "c": "cell",
    "h": "hidden state",
}


class CellCall(NamedTuple):
    """One direction of a recurrent layer on a text."""

    cell: Cell
    x_1Ti: Tensor
    first: State  # before the first step
    tokens: tuple[str, ...]
    backward: bool = False
    input_name: str = "x"

    def trace(self) -> dict[str, Tensor]:
        """{name: T,d} of the state and every gate."""
        with torch.no_grad():
            return {name: part[0] for name, part in self.cell.unroll(self.x_1Ti, self.first, None, self.backward)[0].items()}


@torch.no_grad()
def cell_matrices(given: CellCall) -> list[Matrix]:
    """The input, the state before each step, the gates, and the state after it."""
    cell, trace = given.cell, given.trace()
    before = {name: _before(trace[name], first[0], given.backward) for name, first in zip(cell.state, given.first, strict=True)}
    x_Ti, x = given.x_1Ti[0], given.input_name
    unroll = source_line(type(cell).unroll, "self.step(")
    step = {name: _step_line(cell, name) for name in trace}
    found = [Matrix("x", "what enters the layer", x, "Ti", x_Ti, given.tokens, unroll)]
    for name in cell.state:
        title = f"{TITLES[name]} before the step: that of the {'next' if given.backward else 'last'} token"
        found.append(Matrix(f"{name}_t−1", title, f"{name} of step t − 1", "Td", before[name], given.tokens, unroll, step=True))
    spelled = _Spelled(given, trace, before)
    order = [*(name for name in cell.gates if name not in cell.state), *reversed(cell.state)]
    for name in order:
        letter = spelled.letter(name)
        found.append(
            Matrix(
                letter,
                TITLES[name] + _update_note(cell, name),
                spelled.equation(name),
                "Td",
                trace[name],
                given.tokens,
                step[name],
                spelled.lines(name),
                step=True,
                unit=name in ("input", "forget", "output", "reset", "update"),
            )
        )
    return found


class _Spelled:
    """Gates and states cell by cell."""

    def __init__(self, given: CellCall, trace: dict[str, Tensor], before: dict[str, Tensor]) -> None:
        self.cell, self.x_Ti, self.trace, self.before = given.cell, given.x_1Ti[0], trace, before
        self.w = given.cell.weights(given.backward)

    def letter(self, name: str) -> str:
        return "n" if name == "candidate" and self.cell.kind != "lstm" else LETTERS[name]

    def equation(self, name: str) -> str:
        kind, after = self.cell.kind, self.cell.reset == "after"
        both, letter = "W x + U h + b", self.letter(name)
        match kind, name:
            case "rnn", "h":
                return f"h = tanh({both})"
            case "lstm", "c":
                return "c = f ⊙ c_t−1 + i ⊙ g"
            case "lstm", "h":
                return "h = o ⊙ tanh(c)"
            case "lstm", "candidate":
                return f"g = tanh({both})"
            case "gru", "candidate":
                return "n = tanh(W x + b + r ⊙ (U h + b′))" if after else "n = tanh(W x + b + U (r ⊙ h) + b′)"
            case "gru", "h":
                return "h = (1 − z) ⊙ n + z ⊙ h_t−1"
            case "mingru", "candidate":
                return "n = y + ½ where y = W x + b ≥ 0, σ(y) elsewhere"
            case "mingru", "h":
                return "h = (1 − z) ⊙ h_t−1 + z ⊙ n"
        return f"{letter} = σ({both if self.cell.has_hidden_weights else 'W x + b'})"

    def lines(self, name: str) -> Spell:
        kind = self.cell.kind
        if (kind, name) == ("lstm", "c"):
            return self._cell_state
        if (kind, name) == ("lstm", "h"):
            return self._shown
        if name == "h" and kind != "rnn":
            return self._interpolated
        return self._gate(name)

    def _gate(self, name: str) -> Spell:
        cell, w, d = self.cell, self.w, self.cell.width
        first, letter = cell.gates.index(name) * d, self.letter(name)
        reset = name == "candidate" and cell.kind == "gru"

        def lines(t: int, j: int) -> list[Line]:
            row, h_d = first + j, self.before["h"][t]
            found = [product("Σ W x", w.input_gi[row], self.x_Ti[t], ("W", "x")), Line("b", number(w.input_bias_g[row]))]
            total = found[0].value + found[1].value
            if cell.has_hidden_weights:
                r_d = self.trace["reset"][t] if reset else None
                inside = h_d if r_d is None or cell.reset == "after" else r_d * h_d
                of_hidden = product(
                    "Σ U h" if inside is h_d else "Σ U (r ⊙ h)",
                    w.hidden_gd[row],
                    inside,
                    ("U", "h_t−1" if inside is h_d else "r ⊙ h"),
                )
                bias = Line("b′", number(w.hidden_bias_g[row]))
                found += [of_hidden, bias]
                part = of_hidden.value + bias.value
                if r_d is not None and cell.reset == "after":
                    found.append(Line("r", number(r_d[j])))
                    part *= found[-1].value
                total += part
            return [*found, Line("sum", total), Line(f"{letter} = {self._outer(name)}(sum)", self._apply(name, total))]

        return lines

    def _outer(self, name: str) -> str:
        return "tanh" if name in ("candidate", "h") and self.cell.kind != "mingru" else "g" if name == "candidate" else "σ"

    def _apply(self, name: str, total: float) -> float:
        x = torch.tensor(total, dtype=torch.float64)
        match self._outer(name):
            case "tanh":
                return float(x.tanh())
            case "g":
                return total + 0.5 if total >= 0 else float(x.sigmoid())
        return float(x.sigmoid())

    def _cell_state(self, t: int, j: int) -> list[Line]:
        gates = torch.stack([self.trace["forget"][t, j], self.trace["input"][t, j]])
        values = torch.stack([self.before["c"][t, j], self.trace["candidate"][t, j]])
        return [product("c = f · c_t−1 + i · g", gates, values, ("gate", "value"), ("f · c_t−1", "i · g"))]

    def _shown(self, t: int, j: int) -> list[Line]:
        o, c = number(self.trace["output"][t, j]), self.trace["c"][t, j].double()
        return [Line("o", o), Line("c", float(c)), Line("tanh(c)", float(c.tanh())), Line("h = o · tanh(c)", o * float(c.tanh()))]

    def _interpolated(self, t: int, j: int) -> list[Line]:
        z, n, h = number(self.trace["update"][t, j]), number(self.trace["candidate"][t, j]), number(self.before["h"][t, j])
        new, old = ((1 - z), z) if self.cell.kind == "gru" else (z, 1 - z)
        return [Line("z", z), Line("n", n), Line("h_t−1", h), Line(f"h = {new:.4f} · n + {old:.4f} · h_t−1", new * n + old * h)]


def _update_note(cell: Cell, name: str) -> str:
    if name != "update":
        return ""
    return ": how much of the old state is kept" if cell.kind == "gru" else ": how much of the candidate is written"


def _step_line(cell: Cell, name: str) -> SourceLine:
    """The line of the cell's `step` that computes this gate or state."""
    parts = {
        ("rnn", "h"): "torch.tanh(",
        ("lstm", "c"): "f * c_Bd + i * g",
        ("lstm", "h"): "o * c_next_Bd.tanh()",
        ("gru", "h"): "(1 - z) * n",
        ("gru", "candidate"): "r * h_n" if cell.reset == "after" else "F.linear(r * h_Bd",
        ("gru", "reset"): "(x_r + h_r)" if cell.reset == "after" else "F.linear(h_Bd, U_r",
        ("gru", "update"): "(x_z + h_z)" if cell.reset == "after" else "F.linear(h_Bd, U_z",
        ("mingru", "h"): "(1 - z) * h_Bd",
    }
    usual = "i.sigmoid()" if cell.kind == "lstm" else "_gates(" if cell.kind == "mingru" else "def step"
    return source_line(type(cell).step, parts.get((cell.kind, name), usual))


def _before(h_Td: Tensor, first_d: Tensor, backward: bool) -> Tensor:
    first_1d = first_d.unsqueeze(0)
    return torch.cat((h_Td[1:], first_1d)) if backward else torch.cat((first_1d, h_Td[:-1]))


# Attention to a memory


class MemoryCall(NamedTuple):
    """The attention of states to a memory, one query per step."""

    layer: MemoryAttention
    query_1Td: Tensor  # the states that ask
    memory: Memory
    memory_1Sm: Tensor
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]

    def call(self) -> Call:
        q_11TA = self.layer.query(self.query_1Td).unsqueeze(1)
        memory = self.memory
        return self.layer.attend.call(q_11TA, memory.key_B1SA, memory.value_B1Sm, mask.lengths(memory.length_B), None, 0)


@torch.no_grad()
def memory_matrices(given: MemoryCall, query: str) -> list[Matrix]:
    """From the states to the contexts c; `query` is the name of the states."""
    layer, q, k = given.layer, query, "m"
    h_Td, m_Sm = given.query_1Td[0], given.memory_1Sm[0]
    found: list[Matrix] = []
    if isinstance(layer.query, nn.Linear):
        line, W = source_line(MemoryAttention.contexts, "self.query(h_BTd)"), layer.query.weight
        value, q = layer.query(h_Td), f"W {query}"
        found.append(
            Matrix(
                q,
                "the query of each step",
                f"W {query}_t",
                "TA",
                value,
                given.tokens,
                line,
                Linear(h_Td, W, None, (query, "W")).spell(q),
            )
        )
    if isinstance(layer.key, nn.Linear):
        line, W = source_line(MemoryAttention.remember, "self.key(memory_BSm)"), layer.key.weight
        value, k = layer.key(m_Sm), "U m"
        found.append(
            Matrix(
                k,
                "the key of each source token",
                "U m_s",
                "SA",
                value,
                given.source_tokens,
                line,
                Linear(m_Sm, W, None, ("m", "U")).spell(k),
            )
        )
    names = attention.Names(q, k, "m", "e", "α", "c", "TS")
    found += attention.matrices(given.call(), 0, given.tokens, given.source_tokens, names)
    found[-1] = replace(found[-1], axes="Tm", title="context: the memory, weighted")
    return found


@torch.no_grad()
def attentive_matrices(attend: MemoryCall, cell: CellCall, inputs: int) -> list[Matrix]:
    """RNNsearch: attention with the state before the step, then the step with [x; c]."""
    given = _with_context(cell_matrices(cell), inputs)
    return [given[1], *memory_matrices(attend, "h_t−1"), given[0], *given[2:]]


def _with_context(found: Sequence[Matrix], inputs: int) -> list[Matrix]:
    first = replace(
        found[0], name="[x; c]", title=f"what enters the cell: {inputs} columns of x, then the context c", equation="[x; c]"
    )
    return [first, *found[1:]]


@torch.no_grad()
def attentional_matrices(given: MemoryCall, layer: AttentionalState) -> list[Matrix]:
    """Luong: attention with the state after the step, then h̃ = tanh(W_c [c; h])."""
    found = memory_matrices(given, "h")
    both_Tn = torch.cat((found[-1].value, given.query_1Td[0]), dim=-1)
    total = Linear(both_Tn, layer.combine.weight, None, ("[c; h]", "W_c"))
    value_Td = torch.tanh(layer.combine(both_Tn))

    def lines(t: int, j: int) -> list[Line]:
        (inner,) = total.spell("Σ W_c [c; h]")(t, j)
        return [inner, Line("h̃ = tanh(…)", float(torch.tensor(inner.value, dtype=torch.float64).tanh()))]

    line = source_line(AttentionalState.forward, "torch.tanh(self.combine")
    states = Matrix("h", "the states that ask", "h", "Td", given.query_1Td[0], given.tokens, line)
    title = "attentional state: context and state together"
    return [states, *found, Matrix("h̃", title, "h̃ = tanh(W_c [c; h])", "Td", value_Td, given.tokens, line, lines)]
