"""Time the forward pass of a layer in float32, to compare with the operation counts in inspection/cost.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from firth.inspection.cost import HEADS, Costs, Layer, Timing, fitted, layers, operations
from firth.layers.attention import attend, mask
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.linear_attention import IDENTITY, linear_attend
from firth.layers.recurrent import Recurrent
from firth.layers.self_attention import SelfAttention
from firth.progress import Progress
from firth.progress.display import followed, shows_progress

_LONG_ENOUGH = 0.005  # seconds; shorter measurements are dominated by the clock
_MOST_CALLS = 64
_ENOUGH = 0.02  # stop at the size where the standard error of the exponent is this small
_FIRST_N, _FIRST_D = 64, 32
_LONGEST, _WIDEST = 65_536, 8192
_MOST_BYTES = 1 << 29  # of the weights of a layer
_SLOW = 0.1  # seconds; a call that takes longer is repeated only once
Axis = Literal["n", "d"]


def doubled(first: int, last: int) -> list[int]:
    """first, 2 · first, 4 · first, … up to `last`."""
    return [first << n for n in range((last // first).bit_length())]


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """One thread only: torch uses several cores for large products but not for small ones, which would hide the growth."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@shows_progress
@one_core()
@torch.inference_mode()
def measured(
    only: Sequence[Layer] | None = None,
    *,
    n: int = 128,
    d: int = 128,
    longest: int | None = None,
    widest: int | None = None,
    seconds: float = 0.5,
    rounds: int = 3,
    device: torch.device | str = "cpu",
    progress: Progress | bool = True,
) -> Costs:
    """Time every layer, or `only` these, at lengths that double from 64 with width d, and at widths that double from 32 with
    length n, until its exponent has settled on this machine, a call takes longer than `seconds`, or the size is `longest` or
    `widest`. The time of a size is the best of `rounds`."""
    where, progress = torch.device(device), followed(progress)
    chosen = layers() if only is None else only
    axes: tuple[tuple[Axis, int, int], ...] = (("n", _FIRST_N, longest or _LONGEST), ("d", _FIRST_D, widest or _WIDEST))
    timings: list[Timing] = []
    for number, layer in enumerate(chosen):
        for axis, first, last in axes:
            progress("timing", 2 * number + (axis == "d"), 2 * len(chosen))
            timings += _grown(layer, axis, doubled(first, last), d if axis == "n" else n, seconds, where, rounds)
    return Costs(tuple({(one.layer, one.n, one.d): one for one in timings}.values()), n, d)


def _grown(
    layer: Layer, axis: Axis, sizes: Sequence[int], other: int, seconds: float, device: torch.device, rounds: int
) -> list[Timing]:
    """Time a layer at increasing sizes."""
    timings: list[Timing] = []
    for size in sizes:
        n, d = (size, other) if axis == "n" else (other, size)
        if 4 * operations(layer, 1, d) > _MOST_BYTES:  # for one token, each weight is used once
            break
        timings.append(_of_layer(layer, n, d, device, rounds))
        fit = fitted(timings, axis)
        if timings[-1].seconds > seconds or (fit is not None and fit.settled and fit.error <= _ENOUGH):
            break
    return timings


def _of_layer(layer: Layer, n: int, d: int, device: torch.device, rounds: int) -> Timing:
    x_1Td = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0)).to(device)
    run = built(layer, d, device)
    run(x_1Td)  # work that is only done once
    first = call_seconds(run, x_1Td)
    again = (call_seconds(run, x_1Td) for _ in range(1, rounds if first < _SLOW else min(rounds, 2)))
    return Timing(layer, n, d, min(first, *again) if rounds > 1 else first)


def built(layer: Layer, d: int, device: torch.device) -> Callable[[Tensor], object]:
    """The forward pass of a layer."""
    match layer:
        case "attention":
            return lambda x_1Td: attend(*[_by_head(x_1Td)] * 3, mask=mask.CAUSAL)
        case "attention with projections":
            module = SelfAttention(BlockConfig(width=d, attention=AttentionConfig(heads=HEADS))).to(device).eval()
            torch.nn.init.normal_(module.qkv.weight, 0, d**-0.5)
            return lambda x_1Td: module(x_1Td, mask.CAUSAL, None, None)
        case "linear attention":
            return lambda x_1Td: linear_attend(*[_by_head(x_1Td)] * 3)
        case "gated linear attention":
            return lambda x_1Td: linear_attend(
                *[_by_head(x_1Td)] * 3, features=IDENTITY, log_gate_BHTF=-_by_head(x_1Td).sigmoid(), normalized=False
            )
        case cell:
            return Recurrent(cell, d, d).to(device).eval()


def _by_head(x_1Td: Tensor) -> Tensor:
    return x_1Td.view(*x_1Td.shape[:-1], HEADS, -1).transpose(1, 2)


def call_seconds(run: Callable[[Tensor], object], x_1Td: Tensor) -> float:
    """Seconds per call, over enough calls to measure reliably. On a CPU, the processor time of this thread."""
    clock = time.perf_counter if x_1Td.is_cuda else time.thread_time
    calls = 1
    while True:
        began = clock()
        for _ in range(calls):
            run(x_1Td)
        if x_1Td.is_cuda:
            torch.cuda.synchronize()
        taken = clock() - began
        if taken > _LONG_ENOUGH or calls >= _MOST_CALLS:
            return taken / calls
        calls *= 4
