"""Recurrent layers, twice: as equations one can read, and through torch's fused kernels; tests hold the two equal.

Letters: B batch, T time, i input width, d width, L layers × directions. The weights live in torch's own single-layer
modules with torch's names and gate orders, so they load and save as torch's do:
RNN  weight_ih (d, i);  LSTM  (4d, i), rows i, f, g, o;  GRU  (3d, i), rows r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from firth.errors import ConfigError
from firth.layers.state import RecurrentState, zeros

CellKind = Literal["rnn", "lstm", "gru"]
Reset = Literal["after", "before"]
RecurrentKernel = Literal["auto", "fused", "cells"]


class Weights(NamedTuple):
    """One layer in one direction."""

    input_gi: Tensor
    hidden_gd: Tensor
    input_bias_g: Tensor
    hidden_bias_g: Tensor


class RNNStep(NamedTuple):
    h_Bd: Tensor


class LSTMStep(NamedTuple):
    h_Bd: Tensor
    c_Bd: Tensor
    input_Bd: Tensor
    forget_Bd: Tensor
    candidate_Bd: Tensor
    output_Bd: Tensor


class GRUStep(NamedTuple):
    h_Bd: Tensor
    reset_Bd: Tensor
    update_Bd: Tensor
    candidate_Bd: Tensor


AnyStep = RNNStep | LSTMStep | GRUStep


def rnn_cell(x_Bi: Tensor, h_Bd: Tensor, w: Weights) -> RNNStep:
    """h' = tanh(W x + U h + b)   (Elman 1990)."""
    return rnn_step(F.linear(x_Bi, w.input_gi, w.input_bias_g), h_Bd, w)


def lstm_cell(x_Bi: Tensor, h_Bd: Tensor, c_Bd: Tensor, w: Weights) -> LSTMStep:
    """i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), c' = f⊙c + i⊙g, h' = o⊙tanh(c')
    (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""
    return lstm_step(F.linear(x_Bi, w.input_gi, w.input_bias_g), h_Bd, c_Bd, w)


def gru_cell(x_Bi: Tensor, h_Bd: Tensor, w: Weights, reset: Reset) -> GRUStep:
    """r, z = σ(W x + U h + b), h' = (1 − z)⊙n + z⊙h, and two candidates that are different functions:
    reset="after"   n = tanh(W x + b + r⊙(U h + b'))   torch's and cuDNN's
    reset="before"  n = tanh(W x + b + U(r⊙h) + b')    as published (Cho et al. 2014)."""
    return gru_step(F.linear(x_Bi, w.input_gi, w.input_bias_g), h_Bd, w, reset)


# The same cells for an x that has met its W and b already, all gates side by side.


def rnn_step(x_Bg: Tensor, h_Bd: Tensor, w: Weights) -> RNNStep:
    return RNNStep(torch.tanh(x_Bg + F.linear(h_Bd, w.hidden_gd, w.hidden_bias_g)))


def lstm_step(x_Bg: Tensor, h_Bd: Tensor, c_Bd: Tensor, w: Weights) -> LSTMStep:
    i, f, g, o = (x_Bg + F.linear(h_Bd, w.hidden_gd, w.hidden_bias_g)).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c_next_Bd = f * c_Bd + i * g
    return LSTMStep(o * c_next_Bd.tanh(), c_next_Bd, i, f, g, o)


def gru_step(x_Bg: Tensor, h_Bd: Tensor, w: Weights, reset: Reset) -> GRUStep:
    x_r, x_z, x_n = x_Bg.chunk(3, dim=-1)
    U_r, U_z, U_n = w.hidden_gd.chunk(3)
    b_r, b_z, b_n = w.hidden_bias_g.chunk(3)
    r = (x_r + F.linear(h_Bd, U_r, b_r)).sigmoid()
    z = (x_z + F.linear(h_Bd, U_z, b_z)).sigmoid()
    match reset:
        case "after":
            n = torch.tanh(x_n + r * F.linear(h_Bd, U_n, b_n))
        case "before":
            n = torch.tanh(x_n + F.linear(r * h_Bd, U_n, b_n))
    return GRUStep((1 - z) * n + z * h_Bd, r, z, n)


def step(kind: CellKind, x_Bg: Tensor, h_Bd: Tensor, c_Bd: Tensor | None, w: Weights, reset: Reset) -> AnyStep:
    """That of a kind of cell."""
    match kind:
        case "rnn":
            return rnn_step(x_Bg, h_Bd, w)
        case "lstm":
            assert c_Bd is not None
            return lstm_step(x_Bg, h_Bd, c_Bd, w)
        case "gru":
            return gru_step(x_Bg, h_Bd, w, reset)


def dropout(x_BTd: Tensor, rate: float, locked: bool) -> Tensor:
    """m⊙x / (1 − p), m ~ Bernoulli(1 − p): one m for each number, or `locked`, one for each row and feature that holds at
    all T positions, so that a unit is gone from the whole window (Gal & Ghahramani 2016; Merity et al. 2018, §4.2)."""
    if not (locked and rate):
        return F.dropout(x_BTd, rate)
    B, _, d = x_BTd.shape
    return x_BTd * F.dropout(x_BTd.new_ones(B, 1, d), rate)


def dropout_words(x_BTe: Tensor, token_BT: Tensor, vocab: int, rate: float) -> Tensor:
    """Embedded tokens without some words: one m_w ~ Bernoulli(1 − p) for each word w, the same wherever w stands in the
    batch (Gal & Ghahramani 2016; Merity et al. 2018, §4.3). As if the embedding had lost rows, without a copy of it."""
    if not rate:
        return x_BTe
    keep_V1 = F.dropout(x_BTe.new_ones(vocab, 1), rate)
    return x_BTe * keep_V1[token_BT]


class Recurrent(nn.Module):
    """`depth` recurrent layers, each reading the one below; with `bidirectional`, two per level, side by side.

    In training, `dropout` acts between levels (`locked`: with one mask for all positions), `dropout_weight` on every U."""

    def __init__(
        self,
        kind: CellKind,
        inputs: int,
        width: int,
        depth: int = 1,
        *,
        dropout: float = 0.0,
        dropout_weight: float = 0.0,
        locked: bool = False,
        bidirectional: bool = False,
        reset: Reset = "after",
    ) -> None:
        super().__init__()
        self.kind, self.width, self.reset = kind, width, reset
        self.dropout, self.dropout_weight, self.locked = dropout, dropout_weight, locked
        self.directions = 2 if bidirectional else 1
        holder: Callable[..., nn.RNNBase] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.layers = nn.ModuleList(
            holder(inputs if level == 0 else width * self.directions, width, batch_first=True, bidirectional=bidirectional)
            for level in range(depth)
        )

    def initial_state(self, batch: int) -> RecurrentState:
        like = next(self.parameters())
        h_LBd = zeros(len(self.layers) * self.directions, batch, self.width, like)
        return RecurrentState(h_LBd, torch.zeros_like(h_LBd) if self.kind == "lstm" else None)

    def forward(
        self,
        x_BTi: Tensor,
        state: RecurrentState | None = None,
        *,
        length_B: Tensor | None = None,
        kernel: RecurrentKernel = "auto",
    ) -> tuple[Tensor, RecurrentState]:
        """All hidden states of the top level (zero after a row's length) and the last state of every level."""
        if state is None:
            state = self.initial_state(x_BTi.shape[0])
        if length_B is not None:
            _check_lengths(length_B, *x_BTi.shape[:2])
        h_last, c_last = [], []
        for level in range(len(self.layers)):
            x_BTi, h_Bd, c_Bd = self.level(level, x_BTi, state, length_B, kernel)
            h_last.append(h_Bd)
            c_last.append(c_Bd)
        return x_BTi, RecurrentState(
            torch.cat(h_last), torch.cat([c for c in c_last if c is not None]) if self.kind == "lstm" else None
        )

    def level(
        self, level: int, x_BTi: Tensor, state: RecurrentState, length_B: Tensor | None = None, kernel: RecurrentKernel = "auto"
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What one level makes of the outputs of the one below: all its hidden states, and its last h and c."""
        if level and self.training:
            x_BTi = dropout(x_BTi, self.dropout, self.locked)
        rows = slice(level * self.directions, (level + 1) * self.directions)
        layer = self.layers[level]
        assert isinstance(layer, nn.RNNBase)
        c_Ld = None if state.c_LBd is None else state.c_LBd[rows]
        run = self._fused if self._chosen(kernel) == "fused" else self._cells
        return run(layer, x_BTi, state.h_LBd[rows], c_Ld, length_B, self._dropped(layer))

    def why_not_fused(self) -> str | None:
        if self.kind == "gru" and self.reset == "before":
            return 'no fused kernel computes the GRU with reset="before"'
        return None

    def _chosen(self, kernel: RecurrentKernel) -> Literal["fused", "cells"]:
        reason = self.why_not_fused()
        if kernel == "fused" and reason:
            raise ConfigError(f'kernel "fused" cannot run this layer: {reason}; use kernel="cells"')
        return "cells" if kernel == "cells" or reason else "fused"

    def _dropped(self, layer: nn.RNNBase) -> list[Weights] | None:
        """DropConnect: x_t meets W and h_{t−1} meets m⊙U / (1 − p), with one m ~ Bernoulli(1 − p) for the whole window
        (Merity et al. 2018, §2). For each direction; None where nothing is dropped."""
        if not (self.training and self.dropout_weight):
            return None
        weights = (weights_of(layer, backward=direction == 1) for direction in range(self.directions))
        return [w._replace(hidden_gd=F.dropout(w.hidden_gd, self.dropout_weight)) for w in weights]

    def _fused(
        self,
        layer: nn.RNNBase,
        x_BTi: Tensor,
        h_Ld: Tensor,
        c_Ld: Tensor | None,
        length_B: Tensor | None,
        dropped: list[Weights] | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        run = layer if dropped is None else partial(_run_with, dropped, layer)
        hidden = (h_Ld, c_Ld) if c_Ld is not None else h_Ld
        if length_B is None:
            y_BTd, last = run(x_BTi, hidden)
        else:
            packed, last = run(pack_padded_sequence(x_BTi, length_B.cpu(), batch_first=True, enforce_sorted=False), hidden)
            y_BTd, _ = pad_packed_sequence(packed, batch_first=True, total_length=x_BTi.shape[1])
        return (y_BTd, last[0], last[1]) if c_Ld is not None else (y_BTd, last, None)

    def _cells(
        self,
        layer: nn.RNNBase,
        x_BTi: Tensor,
        h_Ld: Tensor,
        c_Ld: Tensor | None,
        length_B: Tensor | None,
        dropped: list[Weights] | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        outputs, h_last, c_last = [], [], []
        for direction in range(self.directions):
            c_Bd = None if c_Ld is None else c_Ld[direction]
            weights = None if dropped is None else dropped[direction]
            trace, h_Bd, c_Bd = self.unroll(layer, x_BTi, h_Ld[direction], c_Bd, length_B, direction == 1, weights)
            outputs.append(trace["h"])
            h_last.append(h_Bd)
            c_last.append(c_Bd)
        return (
            torch.cat(outputs, -1),
            torch.stack(h_last),
            torch.stack([c for c in c_last if c is not None]) if c_Ld is not None else None,
        )

    def unroll(
        self,
        layer: nn.RNNBase,
        x_BTi: Tensor,
        h_Bd: Tensor,
        c_Bd: Tensor | None,
        length_B: Tensor | None = None,
        backward: bool = False,
        weights: Weights | None = None,
    ) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
        """One layer in one direction through time: every gate as {name: B,T,d}, and the last h and c. With `weights`, as if
        the layer had those."""
        weights = weights or weights_of(layer, backward)
        steps: list[AnyStep] = []
        times = range(x_BTi.shape[1])
        for t in reversed(times) if backward else times:
            step = self._cell(x_BTi[:, t], h_Bd, c_Bd, weights)
            if length_B is None:
                h_Bd, c_Bd = step.h_Bd, step.c_Bd if isinstance(step, LSTMStep) else None
            else:  # after its end a row keeps its state and shows zeros
                real_B1 = (t < length_B).to(x_BTi.device).unsqueeze(1)
                h_Bd = torch.where(real_B1, step.h_Bd, h_Bd)
                if isinstance(step, LSTMStep) and c_Bd is not None:
                    c_Bd = torch.where(real_B1, step.c_Bd, c_Bd)
                step = type(step)(*(value * real_B1 for value in step))
            steps.append(step)
        in_order = steps[::-1] if backward else steps
        names = [name.removesuffix("_Bd") for name in in_order[0]._fields]
        return {name: torch.stack([step[n] for step in in_order], dim=1) for n, name in enumerate(names)}, h_Bd, c_Bd

    def _cell(self, x_Bi: Tensor, h_Bd: Tensor, c_Bd: Tensor | None, w: Weights) -> AnyStep:
        return step(self.kind, F.linear(x_Bi, w.input_gi, w.input_bias_g), h_Bd, c_Bd, w, self.reset)


def _check_lengths(length_B: Tensor, batch: int, time: int) -> None:
    given = length_B.tolist()
    if len(given) != batch or not all(1 <= length <= time for length in given):
        raise ConfigError(f"lengths are {given}; expected {batch} whole numbers in 1 … {time}, one for each row of the input")


def weights_of(layer: nn.RNNBase, backward: bool = False) -> Weights:
    suffix = "_l0_reverse" if backward else "_l0"
    return Weights(*(getattr(layer, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))


def _run_with(weights: list[Weights], layer: nn.RNNBase, given: Tensor | PackedSequence, hidden: Any) -> tuple[Any, Any]:
    """layer(given, hidden) as if it had other weights: the kernel that torch's module calls, called without the module."""
    kernels: dict[str, Callable[..., Any]] = {"RNN_TANH": torch.rnn_tanh, "LSTM": torch.lstm, "GRU": torch.gru}
    kernel = kernels[layer.mode]
    flat = _in_one_piece([w for direction in weights for w in direction], layer)
    options = layer.bias, layer.num_layers, layer.dropout, layer.training, layer.bidirectional
    if isinstance(given, Tensor):
        y_BTd, *states = kernel(given, hidden, flat, *options, layer.batch_first)
        return y_BTd, states if layer.mode == "LSTM" else states[0]
    # Packed rows are sorted by their lengths: the states have to be sorted as they are, and put back.
    data, *states = kernel(given.data, given.batch_sizes, layer.permute_hidden(hidden, given.sorted_indices), flat, *options)
    last: Any = states if layer.mode == "LSTM" else states[0]
    return given._replace(data=data), layer.permute_hidden(last, given.unsorted_indices)


def _in_one_piece(weights: list[Tensor], layer: nn.RNNBase) -> list[Tensor]:
    """On a GPU a layer's parameters lie in one piece of memory, in cuDNN's order. Weights that lie elsewhere are gathered by
    torch at every call, with a warning; so they are gathered here."""
    places = [parameter for direction in layer.all_weights for parameter in direction]
    if not places[0].is_cuda or len({place.untyped_storage().data_ptr() for place in places}) > 1:
        return weights
    return list(_LaidOut.apply(places, *weights))  # type: ignore[no-untyped-call]


class _LaidOut(torch.autograd.Function):
    """Copies of the tensors in one new piece of memory, each where its place is in that of the `places`."""

    @staticmethod
    def forward(ctx: Any, places: list[Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        size = places[0].untyped_storage().nbytes() // places[0].element_size()
        memory = places[0].new_zeros(size)
        copies = tuple(memory.as_strided(place.size(), place.stride(), place.storage_offset()) for place in places)
        for copy, tensor in zip(copies, tensors, strict=True):
            copy.copy_(tensor)
        return copies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *gradients
