"""The base of recurrent cells: gates, a state, the equation of one step, and, where there is one, a fast path for a whole text.

Letters: B batch, T time, i input width, d width, g gates × d, D directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.ideas import Idea
from firth.layers.quantised import Quantisation, QuantisedLinear, quantised_matrix

Reset = Literal["after", "before"]
State = tuple[Tensor, ...]  # h, or h and c
Trace = dict[str, Tensor]  # the state and every gate, by name


class Quantity(NamedTuple):
    """A gate or a part of the state, as pictures show it."""

    letter: str  # in equations
    title: str


USUAL = {
    "h": Quantity("h", "hidden state"),
    "c": Quantity("c", "cell"),
    "input": Quantity("i", "input gate: how much of the candidate is written"),
    "forget": Quantity("f", "forget gate: how much of the cell is kept"),
    "output": Quantity("o", "output gate: how much of the cell is shown"),
    "reset": Quantity("r", "reset gate: how much of the old state the candidate sees"),
    "update": Quantity("z", "update gate: how much of the candidate is written"),
    "candidate": Quantity("n", "candidate: what could be written"),
}


class Weights(NamedTuple):
    """The parameters of one layer in one direction, the gates stacked: W x + b + U h + b'."""

    input_gi: Tensor
    hidden_gd: Tensor
    input_bias_g: Tensor
    hidden_bias_g: Tensor

    def of_input(self, x_BTi: Tensor) -> Tensor:
        """W x + b."""
        return F.linear(x_BTi, self.input_gi, self.input_bias_g)

    def of_hidden(self, h_Bd: Tensor) -> Tensor:
        """U h + b'."""
        return F.linear(h_Bd, self.hidden_gd, self.hidden_bias_g)


class QuantisedWeights(nn.Module):
    """`Weights` of one direction that multiply without being dequantised."""

    def __init__(self, weights: Weights, kind: Quantisation) -> None:
        super().__init__()
        self.input: QuantisedLinear = quantised_matrix(weights.input_gi, weights.input_bias_g, kind)
        self.hidden: QuantisedLinear | None = None
        if len(weights.hidden_gd):
            self.hidden = quantised_matrix(weights.hidden_gd, weights.hidden_bias_g, kind)

    def of_input(self, x_BTi: Tensor) -> Tensor:
        x_BTg: Tensor = self.input(x_BTi)
        return x_BTg

    def of_hidden(self, h_Bd: Tensor) -> Tensor:
        assert self.hidden is not None  # a cell without U does not ask for U h
        h_Bg: Tensor = self.hidden(h_Bd)
        return h_Bg


class Cell(Idea, nn.Module, ABC):
    """One recurrent layer, in one direction or two, with its parameters.

    A subclass declares its gates and its state and writes `step`. It may create other parameters (`own_weights`), and add a fast
    path (`fused`, as ScanCell does) and its own initial weights (`draw`). To make it known, add it to CELLS."""

    gates: ClassVar[tuple[str, ...]]  # in the order in which W stacks them
    state: ClassVar[tuple[str, ...]] = ("h",)
    has_reset: ClassVar[bool] = False  # whether model.reset applies
    has_hidden_weights: ClassVar[bool] = True  # whether a gate depends on h_{t−1}, through a matrix U
    quantities: ClassVar[Mapping[str, Quantity]] = {}  # gates and states with other letters or titles than the USUAL
    scans: ClassVar[bool] = False  # whether `fused` computes all positions at once, in O(log T) sequential steps

    inputs: int
    width: int
    directions: int
    reset: Reset

    def __init__(self, inputs: int, width: int, *, bidirectional: bool = False, reset: Reset = "after") -> None:
        """With W, b and, if it `has_hidden_weights`, U, b' of all gates, under torch's names."""
        nn.Module.__init__(self)
        self.inputs, self.width, self.reset = inputs, width, reset
        self.directions = 2 if bidirectional else 1
        rows = len(self.gates) * width
        of_input = {"weight_ih": (rows, inputs), "bias_ih": (rows,)}
        of_hidden = {"weight_hh": (rows, width), "bias_hh": (rows,)} if self.has_hidden_weights else {}
        for suffix in ("_l0", "_l0_reverse")[: self.directions]:
            for name, shape in (of_input | of_hidden).items():
                self.register_parameter(name + suffix, nn.Parameter(torch.empty(shape).uniform_(-(width**-0.5), width**-0.5)))

    @classmethod
    def quantity(cls, name: str) -> Quantity:
        return cls.quantities.get(name) or USUAL.get(name) or Quantity(name, name.replace("_", " "))

    def own_weights(self, backward: bool = False) -> Weights:
        suffix = "_l0_reverse" if backward else "_l0"
        W_gi, b_g = self.get_parameter("weight_ih" + suffix), self.get_parameter("bias_ih" + suffix)
        if not self.has_hidden_weights:
            return Weights(W_gi, W_gi.new_zeros(0, self.width), b_g, b_g.new_zeros(0))
        return Weights(W_gi, self.get_parameter("weight_hh" + suffix), b_g, self.get_parameter("bias_hh" + suffix))

    def weights(self, backward: bool = False) -> Weights:
        if (directions := self.quantised) is None:
            return self.own_weights(backward)
        return cast(Weights, directions[int(backward)])  # multiplies as they do

    @property
    def quantised(self) -> nn.ModuleList | None:
        """QuantisedWeights of each direction, in place of the parameters."""
        return cast(nn.ModuleList | None, self._modules.get("quantised_weights"))

    def quantise(self, kind: Quantisation) -> None:
        """In place: the parameters are gone then."""
        self.quantised_weights = nn.ModuleList(QuantisedWeights(self.own_weights(n == 1), kind) for n in range(self.directions))
        for name in [name for name, _ in self.named_parameters(recurse=False)]:
            delattr(self, name)

    def why_not_quantised(self) -> str | None:
        return None

    @abstractmethod
    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        """The state after one step, then the gates. `x_Bg` is W x + b, which does not depend on the state."""

    def why_not_fused(self) -> str | None:
        return f'the cell "{self.kind}" has no fused kernel'

    def fused(
        self, x_BTi: Tensor, state_DBd: State, length_B: Tensor | None = None, weights: Sequence[Weights] | None = None
    ) -> tuple[Tensor, State]:
        """The same as `stepwise`, faster."""
        raise NotImplementedError(self.why_not_fused())

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float = 0.0) -> None:
        """Initial weights, in place: U(−1/√d, 1/√d)."""
        bound = self.width**-0.5
        parameter.uniform_(-bound, bound, generator=generator)

    def stepwise(
        self, x_BTi: Tensor, state_DBd: State, length_B: Tensor | None = None, weights: Sequence[Weights] | None = None
    ) -> tuple[Tensor, State]:
        """The equations, one position after another: h at every position, the directions side by side, and the last state.
        `weights`, one per direction, replace the layer's own."""
        outputs, last = [], []
        for direction in range(self.directions):
            state = tuple(part_DBd[direction] for part_DBd in state_DBd)
            w = None if weights is None else weights[direction]
            trace, state = self.unroll(x_BTi, state, length_B, direction == 1, w)
            outputs.append(trace["h"])
            last.append(state)
        return torch.cat(outputs, -1), tuple(torch.stack(part) for part in zip(*last, strict=True))

    def unroll(
        self,
        x_BTi: Tensor,
        state: State | None = None,
        length_B: Tensor | None = None,
        backward: bool = False,
        weights: Weights | None = None,
    ) -> tuple[Trace, State]:
        """One direction through time: the state and every gate as {name: B,T,d}, and the last state."""
        w = weights or self.weights(backward)
        state = state or tuple(x_BTi.new_zeros(len(x_BTi), self.width) for _ in self.state)
        steps: list[Trace] = []
        times = range(x_BTi.shape[1])
        for t in reversed(times) if backward else times:
            step = self.step(w.of_input(x_BTi[:, t]), state, w)
            if length_B is None:
                state = tuple(step[name] for name in self.state)
            else:  # past the end of a row, its state stays and its outputs are zero
                real_B1 = (t < length_B).to(x_BTi.device).unsqueeze(1)
                state = tuple(torch.where(real_B1, step[name], old) for name, old in zip(self.state, state, strict=True))
                step = {name: value * real_B1 for name, value in step.items()}
            steps.append(step)
        in_order = steps[::-1] if backward else steps
        return {name: torch.stack([step[name] for step in in_order], dim=1) for name in in_order[0]}, state
