"""What a recurrent model holds while it reads: the state after each token and the gates behind it. Letters: T time, d width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from firth.errors import ConfigError, DataError, did_you_mean
from firth.figures.figure import Figure
from firth.figures.states import states_map, states_text
from firth.inspection.inputs import Reading
from firth.layers.attentive_recurrence import AttentiveRecurrent
from firth.layers.recurrent import Recurrent
from firth.models import RecurrentSeq2Seq

Array = npt.NDArray[np.float32]

MOST_TOKENS = 2048  # of a picture


@dataclass(frozen=True, eq=False)
class Level:
    """One level of recurrence in one direction; column t of everything is the step that read token t."""

    name: str
    tokens: tuple[str, ...]
    h: Array  # T,d, as the layer itself computed it
    recompute: Callable[[], Mapping[str, Tensor]]

    def gates(self) -> dict[str, Array]:
        """{name: T,d} of everything in a step, computed again from the weights: "h"; of an LSTM also "c", "input", "forget",
        "candidate" and "output"; of a GRU "reset", "update" and "candidate"."""
        with torch.no_grad():
            return {name: _plain(x_1Td[0]) for name, x_1Td in self.recompute().items()}

    def gate(self, name: str) -> Array:
        if name == "h":
            return self.h
        found = self.gates()
        if name not in found:
            there = ", ".join(found)
            raise ConfigError(f'{self.name} has no "{name}", only {there}.{did_you_mean(name, found)}')
        return found[name]

    def reaction(self) -> Array:
        """Of each unit, how much it moves from token to token: the mean of |h_t − h_{t−1}|, from rest."""
        found: Array = np.abs(np.diff(self.h, axis=0, prepend=0)).mean(0)
        return found

    def most(self, units: int = 16) -> list[int]:
        """The units that react most, those first."""
        order: list[int] = np.argsort(-self.reaction(), kind="stable")[:units].tolist()
        return order


@dataclass(frozen=True, eq=False)
class States:
    levels: tuple[Level, ...]

    def figure(self, level: int = -1, gate: str = "h", units: int = 32) -> Figure:
        """The state, or a gate, of the units that react most, over the text."""
        one = self._level(level)
        if len(one.tokens) > MOST_TOKENS:
            raise DataError(
                f"{len(one.tokens):,} tokens are too many for one picture; the most are {MOST_TOKENS:,}: give a shorter text, or "
                "look at levels[…].h and gates()"
            )
        most = one.most(units)
        return states_map(one.tokens, most, one.gate(gate)[:, most].T, f"{one.name}: {gate}", gate)

    def plot(self, level: int = -1, gate: str = "h", units: int = 32) -> Any:
        """The Plotly figure, which a notebook shows."""
        return self.figure(level, gate, units).plot

    def text(self, width: int = 80, level: int = -1, units: int = 16) -> str:
        """For a terminal: a line for each of the units that react most, a bar for each token."""
        one = self._level(level)
        most = one.most(units)
        return states_text(one.name, one.tokens, most, one.h[:, most].T, width)

    def _level(self, level: int) -> Level:
        count = len(self.levels)
        if not -count <= level < count:
            raise ConfigError(f"level {level} is asked for; this model has {count}: {', '.join(one.name for one in self.levels)}")
        return self.levels[level]


class _Call(NamedTuple):
    path: str
    module: Recurrent | AttentiveRecurrent
    given: tuple[Any, ...]
    length_B: Tensor | None
    output: Any


def states(reading: Reading) -> States:
    """Read once, as the model always does, and note what each recurrent part was given."""
    with _noted(reading.network) as calls:
        reading.run()
    levels = [level for call in calls for level in _levels(call, reading)]
    if not levels:
        raise ConfigError(f'{type(reading.network).__name__} has no recurrent state; model.kind = "rnn", "lstm" or "gru" has')
    return States(tuple(levels))


@contextmanager
def _noted(network: nn.Module) -> Iterator[list[_Call]]:
    """The calls of recurrent modules, in the order they ran."""
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


def _levels(call: _Call, reading: Reading) -> Iterator[Level]:
    side, tokens = _side(call, reading)
    if isinstance(call.module, AttentiveRecurrent):
        yield Level(f"{side}level 0", tokens, _plain(call.output[0][0]), lambda: _attentive_gates(call))
        return
    # In the decoder of RNNsearch the first level is the attentive one.
    below = 1 if side == "decoder " and getattr(reading.network, "attentive", None) is not None else 0
    module, x_1Ti = call.module, call.given[0]
    state = call.given[1] if len(call.given) > 1 and call.given[1] is not None else module.initial_state(len(x_1Ti))
    with torch.no_grad():
        for level in range(len(module.layers)):
            y_1Td, _, _ = module.level(level, x_1Ti, state, call.length_B)
            for direction in range(module.directions):
                way = "" if module.directions == 1 else ", backwards" if direction else ", forwards"
                h_Td = y_1Td[0, :, direction * module.width : (direction + 1) * module.width]
                again = _gates_of(module, level, direction, x_1Ti, state, call.length_B)
                yield Level(f"{side}level {below + level}{way}", tokens, _plain(h_Td), again)
            x_1Ti = y_1Td


def _side(call: _Call, reading: Reading) -> tuple[str, tuple[str, ...]]:
    """Which side of a translator it is, and the tokens in the order in which it reads them."""
    network = reading.network
    if not isinstance(network, RecurrentSeq2Seq):
        return "", reading.tokens
    if call.path == "encoder":
        return "encoder ", reading.tokens[::-1] if network.config.reverse else reading.tokens
    return "decoder ", reading.given


def _gates_of(
    module: Recurrent, level: int, direction: int, x_1Ti: Tensor, state: Any, length_B: Tensor | None
) -> Callable[[], Mapping[str, Tensor]]:
    row, layer = level * module.directions + direction, module.layers[level]
    assert isinstance(layer, nn.RNNBase)
    c_1d = None if state.c_LBd is None else state.c_LBd[row]
    return lambda: module.unroll(layer, x_1Ti, state.h_LBd[row], c_1d, length_B, direction == 1)[0]


def _attentive_gates(call: _Call) -> Mapping[str, Tensor]:
    """[x_t; c_t] is what the cell reads, c_t the context that was found before the step."""
    module, (x_1Ti, _, state), (_, context_1Tm, _) = call.module, call.given, call.output
    assert isinstance(module, AttentiveRecurrent)
    with torch.device("meta"):  # it has the steps; the weights are those of the level
        steps = Recurrent(module.kind, module.cell.input_size, module.width, reset=module.reset)
    c_1d = None if state.c_LBd is None else state.c_LBd[0]
    return steps.unroll(module.cell, torch.cat((x_1Ti, context_1Tm), dim=-1), state.h_LBd[0], c_1d)[0]


def _plain(x: Tensor) -> Array:
    found: Array = x.float().cpu().numpy()
    return found
