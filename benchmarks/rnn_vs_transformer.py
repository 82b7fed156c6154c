"""Time of one layer against the length n of a text and its width d, recurrent and self-attention (Vaswani et al. 2017, table 1):

    python benchmarks/rnn_vs_transformer.py [--device cpu|cuda] [--longest 4096] [--widest 1024] [--rounds 5] [--save page.html]

One text, forward, float32; the best of a few rounds in which all layers take turns. Counted are O(n·d²) operations in n steps
for the recurrent layers and O(n²·d) in one for attention, with O(n·d²) for its projections: printed are the exponents of n and d
that the timings fit beside those of the counts at the same sizes. Quality by length is in docs/seq2seq.md (figures/lengths.py).
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

from firth.figures.saving import expected_format
from firth.inspection.cost import Costs, Layer, Timing, layers
from firth.inspection.timing import built, call_seconds, doubled, one_core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    for name, usual in (("longest", 4096), ("widest", 1024), ("n", 256), ("d", 128), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--save", type=Path, help="the figure: .html, .svg, .png, .pdf, .csv or .json")
    given = parser.parse_args()
    if given.save is not None:
        expected_format(given.save)
    device = torch.device(given.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{where}; torch {torch.__version__}, one core, float32; best of {given.rounds}\n")
    lengths, widths = doubled(64, given.longest), doubled(32, given.widest)
    costs = timed(lengths, widths, n=given.n, d=given.d, rounds=given.rounds, device=device)
    for one in costs.timings:
        print(f"{one.layer:<28}n {one.n:>6}  d {one.d:>5}{1e3 * one.seconds:>12.3f} ms{one.steps:>8} steps")
    print(f"\nexponents along n at d = {given.d}, and along d at n = {given.n}, of the largest sizes\n{costs.text()}")
    if given.save is not None:
        costs.figure().save(given.save)
        print(given.save)


@one_core()
@torch.inference_mode()
def timed(
    lengths: Sequence[int],
    widths: Sequence[int],
    *,
    n: int,
    d: int,
    rounds: int,
    device: torch.device,
) -> Costs:
    """Time every layer at each of `lengths` with width d, and at each of `widths` with length n: the best of `rounds`, in each of
    which all layers take turns."""
    sizes = sorted({*((length, d) for length in lengths), *((n, width) for width in widths)})
    timings: list[Timing] = []
    for length, width in sizes:
        timings += _at(length, width, device, rounds)
    return Costs(tuple(timings), n, d)


def _at(n: int, d: int, device: torch.device, rounds: int) -> list[Timing]:
    x_1Td = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0)).to(device)
    work = {layer: built(layer, d, device) for layer in layers()}
    taken: dict[Layer, list[float]] = {layer: [] for layer in layers()}
    for _ in range(rounds + 1):
        for layer, run in work.items():
            taken[layer].append(call_seconds(run, x_1Td))
    return [Timing(layer, n, d, min(times[1:])) for layer, times in taken.items()]


if __name__ == "__main__":
    main()
