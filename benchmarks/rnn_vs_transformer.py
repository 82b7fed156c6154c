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
from pathlib import Path

import torch

from firth.figures.saving import expected_format
from firth.inspection.timing import doubled, timed


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


if __name__ == "__main__":
    main()
