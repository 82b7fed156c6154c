"""Cells that torch has a fused kernel for. Letters: B batch, T time, i input width, d width, D directions.

The parameters live in torch's own single-layer modules, with torch's names and gate orders, so torch's weights load and save
unchanged: RNN  weight_ih (d, i);  LSTM  (4d, i), rows i, f, g, o;  GRU  (3d, i), rows r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from firth.layers.kernels import half_precision
from firth.layers.quantised import Quantisation
from firth.layers.recurrent.cell import Cell, Reset, State, Weights


class TorchCell(Cell, nn.RNNBase):
    """To be inherited from before one of torch's modules: class LSTM(TorchCell, nn.LSTM)."""

    kernel: ClassVar[Callable[..., Any]]  # the function that torch's module calls

    def __init__(self, inputs: int, width: int, *, bidirectional: bool = False, reset: Reset = "after") -> None:
        torch_module: Any = super(Cell, self)  # the class after Cell in the method resolution order: nn.RNN, nn.LSTM, nn.GRU
        torch_module.__init__(inputs, width, batch_first=True, bidirectional=bidirectional)
        self.inputs, self.width, self.reset = inputs, width, reset
        self.directions = 2 if bidirectional else 1

    def own_weights(self, backward: bool = False) -> Weights:
        suffix = "_l0_reverse" if backward else "_l0"
        return Weights(*(getattr(self, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))

    def why_not_fused(self) -> str | None:
        return None if self.quantised is None else "torch's kernels take no quantised weights"

    def quantise(self, kind: Quantisation) -> None:
        super().quantise(kind)
        self._flat_weights = []  # torch's list of the parameters, which would keep them alive

    def fused(
        self, x_BTi: Tensor, state_DBd: State, length_B: Tensor | None = None, weights: Sequence[Weights] | None = None
    ) -> tuple[Tensor, State]:
        if (half := _refused(x_BTi)) is not None:
            return self._in_float32(x_BTi, state_DBd, length_B, weights, half)
        if length_B is None and (half := half_precision.precision(x_BTi)) is not None:
            return half_precision.train(self, x_BTi, state_DBd, weights or self.directions_weights(), half)
        run: Callable[..., Any] = self if weights is None else partial(self._with_weights, weights)
        state_DBd = tuple(part_DBd.contiguous() for part_DBd in state_DBd)  # those of some rows of a larger state are not
        hidden = state_DBd if len(state_DBd) > 1 else state_DBd[0]
        if length_B is None:
            y_BTd, last = run(x_BTi, hidden)
        else:
            packed, last = run(pack_padded_sequence(x_BTi, length_B.cpu(), batch_first=True, enforce_sorted=False), hidden)
            y_BTd, _ = pad_packed_sequence(packed, batch_first=True, total_length=x_BTi.shape[1])
        return y_BTd, tuple(last) if len(state_DBd) > 1 else (last,)

    def directions_weights(self) -> list[Weights]:
        return [self.own_weights(backward) for backward in (False, True)[: self.directions]]

    def _in_float32(
        self, x_BTi: Tensor, state_DBd: State, length_B: Tensor | None, weights: Sequence[Weights] | None, half: torch.dtype
    ) -> tuple[Tensor, State]:
        own = [Weights(*(part.float() for part in direction)) for direction in weights or self.directions_weights()]
        with torch.autocast("cpu", enabled=False):
            y_BTd, last_DBd = self.fused(x_BTi.float(), tuple(part.float() for part in state_DBd), length_B, own)
        return y_BTd.to(half), tuple(part.to(half) for part in last_DBd)

    def _with_weights(self, weights: Sequence[Weights], x: Tensor | PackedSequence, hidden: Any) -> tuple[Any, Any]:
        """self(x, hidden) with other weights: call torch's kernel without torch's module."""
        flat = _in_one_piece([w for direction in weights for w in direction], self)
        options = self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        if isinstance(x, Tensor):
            y_BTd, *states = self.kernel(x, hidden, flat, *options, self.batch_first)
            return y_BTd, states if len(self.state) > 1 else states[0]
        # Packed rows are sorted by length: sort the states likewise, and undo it afterwards.
        data, *states = self.kernel(x.data, x.batch_sizes, self.permute_hidden(hidden, x.sorted_indices), flat, *options)
        last: Any = states if len(self.state) > 1 else states[0]
        return x._replace(data=data), self.permute_hidden(last, x.unsorted_indices)


def _refused(x: Tensor) -> torch.dtype | None:
    """The half precision that x asks for, if it is on a processor that does not multiply it: oneDNN's LSTM raises an error."""
    if x.device.type != "cpu":
        return None
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    if dtype not in (torch.bfloat16, torch.float16) or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    onednn = torch.ops.mkldnn
    able = onednn._is_mkldnn_bf16_supported if dtype == torch.bfloat16 else onednn._is_mkldnn_fp16_supported
    return None if able() else dtype


def _in_one_piece(weights: list[Tensor], layer: nn.RNNBase) -> list[Tensor]:
    """On a GPU, a layer's parameters lie in one piece of memory, in cuDNN's order. torch gathers weights that lie elsewhere at
    every call, and warns; gathering them here avoids the warning."""
    places = [parameter for direction in layer.all_weights for parameter in direction]
    if not places[0].is_cuda or len({place.untyped_storage().data_ptr() for place in places}) > 1:
        return weights
    return list(LaidOut.apply(places, *weights))  # type: ignore[no-untyped-call]


class LaidOut(torch.autograd.Function):
    """Copies of the tensors in one new piece of memory, arranged as the `places` are in theirs."""

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
