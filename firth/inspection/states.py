"""The hidden states of a recurrent model after each token, and its gates. Letters: T time, d width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.figure import Drawn, Figure
from firth.figures.states import is_open, states_map, states_text
from firth.inspection.inputs import Reading
from firth.layers.attentive_recurrence import AttentiveRecurrent
from firth.layers.recurrent import CELLS, Cell, Recurrent
from firth.layers.state import RecurrentState
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


class _Call(NamedTuple):
    path: str
    module: Recurrent | AttentiveRecurrent
    given: tuple[Any, ...]
    length_B: Tensor | None
    output: Any


def states(reading: Reading) -> States:
    """Run the model once, unchanged, and record the inputs of its recurrent layers."""
    with _noted(reading.network) as calls:
        reading.run()
    levels = [level for call in _joined(calls) for level in _levels(call, reading)]
    if not levels:
        kinds = ", ".join(cell.kind for cell in CELLS)
        raise ConfigError(f"{type(reading.network).__name__} has no recurrent state; use a run with one of model.kind = {kinds}")
    return States(tuple(levels))


@contextmanager
def _noted(network: nn.Module) -> Iterator[list[_Call]]:
    """The calls of recurrent modules, in order."""
    calls: list[_Call] = []

    def noting(path: str) -> Callable[..., None]:
        def note(module: Any, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            calls.append(_Call(path, module, args, named.get("length_B"), output))

        return note

    parts = [(path, one) for path, one in network.named_modules() if isinstance(one, Recurrent | AttentiveRecurrent)]
    handles = [module.register_forward_hook(noting(path), with_kwargs=True) for path, module in parts]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _joined(calls: Sequence[_Call]) -> list[_Call]:
    """The calls, with those of one module right after the other as one: a decoder with input feeding runs step by step."""
    calls_of_steps: list[_Call] = []
    for call in calls:
        if calls_of_steps and calls_of_steps[-1].path == call.path:
            x_1Ti = torch.cat((calls_of_steps[-1].given[0], call.given[0]), dim=1)
            calls_of_steps[-1] = calls_of_steps[-1]._replace(given=(x_1Ti, *calls_of_steps[-1].given[1:]))
        else:
            calls_of_steps.append(call)
    return calls_of_steps


def _levels(call: _Call, reading: Reading) -> Iterator[Level]:
    side, tokens = _side(call, reading)
    if isinstance(call.module, AttentiveRecurrent):
        yield Level(f"{side}layer 1", tokens, _plain(call.output[0][0]), lambda: _attentive_gates(call))
        return
    # In an RNNsearch decoder, the attentive layer is the first.
    below = 1 if side == "decoder " and getattr(reading.network, "attentive", None) is not None else 0
    module, x_1Ti = call.module, call.given[0]
    state = call.given[1] if len(call.given) > 1 and call.given[1] is not None else module.initial_state(len(x_1Ti))
    with torch.no_grad():
        for n in range(len(module.layers)):
            y_1Td, _ = module.run_layer(n, x_1Ti, state, call.length_B)
            for direction in range(module.directions):
                way = "" if module.directions == 1 else ", backwards" if direction else ", forwards"
                h_Td = y_1Td[0, :, direction * module.width : (direction + 1) * module.width]
                recompute = _gates_of(module, n, direction, x_1Ti, state, call.length_B)
                yield Level(f"{side}layer {below + n + 1}{way}", tokens, _plain(h_Td), recompute)
            x_1Ti = y_1Td


def _side(call: _Call, reading: Reading) -> tuple[str, tuple[str, ...]]:
    """Encoder or decoder, for a translator, and the tokens in the order in which it processes them."""
    network = reading.network
    if not isinstance(network, RecurrentDecoder):
        return "", reading.tokens
    if isinstance(network, RecurrentDecoder) and call.path == "encoder":
        return "encoder ", reading.tokens[::-1] if network.encoder.reverse else reading.tokens
    return "decoder ", reading.given


def _gates_of(
    module: Recurrent, n: int, direction: int, x_1Ti: Tensor, state: RecurrentState, length_B: Tensor | None
) -> Callable[[], Mapping[str, Tensor]]:
    cell = module.layers[n]
    assert isinstance(cell, Cell)
    first = tuple(part_LBd[n * module.directions + direction] for part_LBd in state.parts)
    return lambda: cell.unroll(x_1Ti, first, length_B, direction == 1)[0]


def _attentive_gates(call: _Call) -> Mapping[str, Tensor]:
    module, (x_1Ti, _, state), (_, context_1Tm, _) = call.module, call.given, call.output
    assert isinstance(module, AttentiveRecurrent)
    return module.gates(x_1Ti, context_1Tm, state)


def _plain(x: Tensor) -> Array:
    array: Array = x.float().cpu().numpy()
    return array
