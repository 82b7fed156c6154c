"""Time of one layer against the length n of a text and its width d, recurrent and self-attention (Vaswani et al. 2017, table 1):

    python benchmarks/rnn_vs_transformer.py [--device cpu|cuda] [--longest 4096] [--widest 1024] [--rounds 5] [--save page.html]

One text, forward, float32; the median of a few rounds in which all layers take turns. Counted are O(n·d²) operations in n steps
for the recurrent layers and O(n²·d) in one for attention, with O(n·d²) for its projections: printed are the exponents of n and d
that the timings fit beside those of the counts at the same sizes. Quality by length is in docs/seq2seq.md (figures/lengths.py).
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from firth.inspection.cost import LAYERS, Costs, Layer, Timing
from firth.layers.attention import attend, mask
from firth.layers.heads import SelfAttention
from firth.layers.recurrent import Recurrent

HEADS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    for name, usual in (("longest", 4096), ("widest", 1024), ("n", 256), ("d", 128), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--save", type=Path, help="a page with the figure")
    given = parser.parse_args()
    device = torch.device(given.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{where}; torch {torch.__version__}, {torch.get_num_threads()} threads, float32; median of {given.rounds}\n")
    lengths, widths = doubled(64, given.longest), doubled(32, given.widest)
    sizes = sorted({*((n, given.d) for n in lengths), *((given.n, d) for d in widths)})
    costs = Costs(tuple(one for n, d in sizes for one in measure(n, d, device, given.rounds)), given.n, given.d)
    for one in costs.timings:
        print(f"{one.layer:<28}n {one.n:>6}  d {one.d:>5}{1e3 * one.seconds:>12.3f} ms{one.steps:>8} steps")
    print(f"\nexponents along n at d = {given.d}, and along d at n = {given.n}, of the larger half of the sizes\n{costs.text()}")
    if given.save is not None:
        costs.figure().save(given.save)
        print(given.save)


def doubled(first: int, last: int) -> list[int]:
    return [first << n for n in range((last // first).bit_length())]


@torch.inference_mode()
def measure(n: int, d: int, device: torch.device, rounds: int) -> list[Timing]:
    x_1Td = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0)).to(device)
    work = {layer: built(layer, d, device) for layer in LAYERS}
    taken: dict[Layer, list[float]] = {layer: [] for layer in LAYERS}
    for _ in range(rounds + 1):
        for layer, run in work.items():
            taken[layer].append(seconds(run, x_1Td))
    return [Timing(layer, n, d, statistics.median(times[1:])) for layer, times in taken.items()]


def built(layer: Layer, d: int, device: torch.device) -> Callable[[Tensor], object]:
    match layer:
        case "rnn" | "lstm" | "gru":
            return Recurrent(layer, d, d).to(device).eval()
        case "attention":
            return lambda x_1Td: attend(*[by_head(x_1Td)] * 3, mask=mask.CAUSAL)
        case "attention with projections":
            module = SelfAttention(d, HEADS, HEADS, bias=False).to(device).eval()
            torch.nn.init.normal_(module.qkv.weight, 0, d**-0.5)
            return lambda x_1Td: module(x_1Td, mask.CAUSAL, None, None)


def by_head(x_1Td: Tensor) -> Tensor:
    return x_1Td.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def seconds(run: Callable[[Tensor], object], x_1Td: Tensor) -> float:
    """Of one call, or of as many as take a few milliseconds."""
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            run(x_1Td)
        if x_1Td.is_cuda:
            torch.cuda.synchronize()
        taken = time.perf_counter() - began
        if taken > 0.005 or calls >= 64:
            return taken / calls
        calls *= 4


if __name__ == "__main__":
    main()
