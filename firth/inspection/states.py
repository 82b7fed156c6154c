"""The hidden states of a recurrent model after each token, and its gates. Letters: T time, d width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.figure import Drawn, Figure
from firth.figures.states import is_open, states_map, states_text
from firth.inspection.inputs import Reading
from firth.layers.attentive_recurrence import AttentiveRecurrent
from firth.layers.recurrent import CELLS, Cell, Recurrent, State, Trace
from firth.layers.state import RecurrentState
from firth.layers.tap import ModuleCall, module_calls
from firth.models import RecurrentDecoder

Array = npt.NDArray[np.float32]

MOST_TOKENS = 2048  # in one figure


@dataclass(frozen=True, eq=False)
class Level:
    """One recurrent layer in one direction; row t of every array belongs to token t."""

    name: str
    tokens: tuple[str, ...]
    h: Array  # T,d, as the layer computed it in its forward pass
    recompute: Callable[[], Mapping[str, Tensor]]

    def gates(self) -> dict[str, Array]:
        """{name: T,d} of the state and every gate, recomputed from the weights: "h", and for example "c", "input", "forget",
        "candidate" and "output" of an LSTM."""
        with torch.no_grad():
            return {name: _plain(x_1Td[0]) for name, x_1Td in self.recompute().items()}

    def gate(self, name: str) -> Array:
        if name == "h":
            return self.h
        gates = self.gates()
        if name not in gates:
            raise ConfigError(f'{self.name} has no gate "{name}"; choose one of: {", ".join(gates)}.{did_you_mean(name, gates)}')
        return gates[name]

    def reaction(self) -> Array:
        """The change of each unit from token to token: the mean of |h_t − h_{t−1}|, with h_0 = 0."""
        change_d: Array = np.abs(np.diff(self.h, axis=0, prepend=0)).mean(0)
        return change_d

    def most(self, units: int = 16) -> list[int]:
        """The units that change most, in descending order."""
        order: list[int] = np.argsort(-self.reaction(), kind="stable")[:units].tolist()
        return order


@dataclass(frozen=True, eq=False, repr=False)
class States(Drawn):
    levels: tuple[Level, ...]

    def figure(self, level: int = -1, gate: str = "h", units: int = 32) -> Figure:
        """The state, or a gate, over the text, for the units that change most."""
        one = self._level(level)
        if len(one.tokens) > MOST_TOKENS:
            raise DataError(
                f"{len(one.tokens):,} tokens are too many for one figure (at most {MOST_TOKENS:,}); give a shorter text, or use "
                "levels[…].h and gates()"
            )
        most = one.most(units)
        return states_map(one.tokens, most, one.gate(gate)[:, most].T, f"{one.name}: {gate}", gate)

    def plot(self, level: int = -1, gate: str = "h", units: int = 32) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure(level, gate, units).plot

    def text(self, width: int = 80, level: int = -1, units: int = 16, gate: str = "h") -> str:
        """The state, or a gate, for a terminal: one line per unit, for those that change most, and one bar per token."""
        one = self._level(level)
        most = one.most(units)
        return states_text(f"{one.name}, {gate}", one.tokens, most, one.gate(gate)[:, most].T, width, opens=is_open(gate))

    def _level(self, level: int) -> Level:
        count = len(self.levels)
        if not -count <= level < count:
            raise ConfigError(f"unknown layer {level}; this model has {count}: {', '.join(one.name for one in self.levels)}")
        return self.levels[level]


class LayerPass(NamedTuple):
    """One direction of a recurrent layer on a text."""

    name: str
    cell: Cell
    x_1Ti: Tensor
    first: State  # before the first step
    length_1: Tensor | None
    backward: bool
    h_Td: Tensor

    def trace(self) -> Trace:
        return self.cell.unroll(self.x_1Ti, self.first, self.length_1, self.backward)[0]


@torch.no_grad()
def layer_passes(
    module: Recurrent, x_1Ti: Tensor, given: Sequence[RecurrentState | None], length_1: Tensor | None = None, *, below: int = 0
) -> list[LayerPass]:
    """The layers on an input, from the state that is `given`, if one is; `below`: the number of layers below them."""
    state = next((one for one in given if one is not None), None) or module.initial_state(1)
    passes = []
    for n, cell in enumerate(module.layers):
        assert isinstance(cell, Cell)
        y_1Td, _ = module.run_layer(n, x_1Ti, state, length_1)
        for direction, h_Td in enumerate(y_1Td[0].chunk(module.directions, dim=-1)):
            way = "" if module.directions == 1 else ", backwards" if direction else ", forwards"
            first = tuple(part_LBd[n * module.directions + direction] for part_LBd in state.parts)
            passes.append(LayerPass(f"layer {below + n + 1}{way}", cell, x_1Ti, first, length_1, direction == 1, h_Td))
        x_1Ti = y_1Td
    return passes


def states(reading: Reading) -> States:
    """Run the model once, unchanged, and record the inputs of its recurrent layers."""
    modules = [one for one in reading.network.modules() if isinstance(one, Recurrent | AttentiveRecurrent)]
    with module_calls(modules) as calls:
        reading.run()
    levels = [level for call in _joined(calls) for level in _levels(call, reading)]
    if not levels:
        kinds = ", ".join(cell.kind for cell in CELLS)
        raise ConfigError(f"{type(reading.network).__name__} has no recurrent state; use a run with one of model.kind = {kinds}")
    return States(tuple(levels))


def _joined(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """The calls, with those of one module right after the other as one: a decoder with input feeding runs step by step."""
    calls_of_steps: list[ModuleCall] = []
    for call in calls:
        if calls_of_steps and calls_of_steps[-1].module is call.module:
            x_1Ti = torch.cat((calls_of_steps[-1].given[0], call.given[0]), dim=1)
            calls_of_steps[-1] = calls_of_steps[-1]._replace(given=(x_1Ti, *calls_of_steps[-1].given[1:]))
        else:
            calls_of_steps.append(call)
    return calls_of_steps


def _levels(call: ModuleCall, reading: Reading) -> Iterator[Level]:
    side, tokens = _side(call, reading)
    if not isinstance(call.module, Recurrent):
        yield Level(f"{side}layer 1", tokens, _plain(call.output[0][0]), lambda: _attentive_gates(call))
        return
    # In an RNNsearch decoder, the attentive layer is the first.
    below = 1 if side == "decoder " and getattr(reading.network, "attentive", None) is not None else 0
    x_1Ti, *state = call.given
    for one in layer_passes(call.module, x_1Ti, state, call.named.get("length_B"), below=below):
        yield Level(f"{side}{one.name}", tokens, _plain(one.h_Td), one.trace)


def _side(call: ModuleCall, reading: Reading) -> tuple[str, tuple[str, ...]]:
    """Encoder or decoder, for a translator, and the tokens in the order in which it processes them."""
    network = reading.network
    if not isinstance(network, RecurrentDecoder):
        return "", reading.tokens
    if call.module is network.encoder:
        return "encoder ", reading.tokens[::-1] if network.encoder.reverse else reading.tokens
    return "decoder ", reading.given


def _attentive_gates(call: ModuleCall) -> Mapping[str, Tensor]:
    module, (x_1Ti, _, state), (_, context_1Tm, _) = call.module, call.given, call.output
    assert isinstance(module, AttentiveRecurrent)
    return module.gates(x_1Ti, context_1Tm, state)


def _plain(x: Tensor) -> Array:
    array: Array = x.float().cpu().numpy()
    return array
