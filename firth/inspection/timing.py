"""Time the forward pass of a layer in float32, to compare with the operation counts in inspection/cost.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from firth.inspection.cost import HEADS, LAYERS, Costs, Layer, Timing
from firth.layers.attention import attend, mask
from firth.layers.linear_attention import IDENTITY, linear_attend
from firth.layers.recurrent import Recurrent
from firth.layers.self_attention import SelfAttention
from firth.progress import Progress, silent

_LONG_ENOUGH = 0.005  # seconds; shorter measurements are dominated by the clock
_MOST_CALLS = 64


def doubled(first: int, last: int) -> list[int]:
    """first, 2 · first, 4 · first, … up to `last`."""
    return [first << n for n in range((last // first).bit_length())]


@torch.inference_mode()
def timed(
    lengths: Sequence[int],
    widths: Sequence[int],
    *,
    n: int = 256,
    d: int = 128,
    rounds: int = 5,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> Costs:
    """Time every layer at each of `lengths` with width d, and at each of `widths` with length n: the best of `rounds`, in each of
    which all layers take turns."""
    sizes = sorted({*((length, d) for length in lengths), *((n, width) for width in widths)})
    found: list[Timing] = []
    for number, (length, width) in enumerate(sizes):
        progress("timing", number, len(sizes))
        found += _at(length, width, torch.device(device), rounds)
    return Costs(tuple(found), n, d)


def _at(n: int, d: int, device: torch.device, rounds: int) -> list[Timing]:
    x_1Td = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0)).to(device)
    work = {layer: _built(layer, d, device) for layer in LAYERS}
    taken: dict[Layer, list[float]] = {layer: [] for layer in LAYERS}
    for _ in range(rounds + 1):
        for layer, run in work.items():
            taken[layer].append(_seconds(run, x_1Td))
    return [Timing(layer, n, d, min(times[1:])) for layer, times in taken.items()]


def _built(layer: Layer, d: int, device: torch.device) -> Callable[[Tensor], object]:
    match layer:
        case "attention":
            return lambda x_1Td: attend(*[_by_head(x_1Td)] * 3, mask=mask.CAUSAL)
        case "attention with projections":
            module = SelfAttention(d, HEADS, HEADS, bias=False).to(device).eval()
            torch.nn.init.normal_(module.qkv.weight, 0, d**-0.5)
            return lambda x_1Td: module(x_1Td, mask.CAUSAL, None, None)
        case "linear attention":
            return lambda x_1Td: linear_attend(*[_by_head(x_1Td)] * 3)
        case "gated linear attention":
            return lambda x_1Td: linear_attend(
                *[_by_head(x_1Td)] * 3, features=IDENTITY, log_gate_BHTF=-_by_head(x_1Td).sigmoid(), normalised=False
            )
        case cell:
            return Recurrent(cell, d, d).to(device).eval()


def _by_head(x_1Td: Tensor) -> Tensor:
    return x_1Td.view(*x_1Td.shape[:-1], HEADS, -1).transpose(1, 2)


def _seconds(run: Callable[[Tensor], object], x_1Td: Tensor) -> float:
    """Seconds per call, over enough calls to measure reliably."""
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            run(x_1Td)
        if x_1Td.is_cuda:
            torch.cuda.synchronize()
        taken = time.perf_counter() - began
        if taken > _LONG_ENOUGH or calls >= _MOST_CALLS:
            return taken / calls
        calls *= 4
