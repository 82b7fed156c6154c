"""Two processes of one thread (DDP under torchrun) against one process of two threads, on this machine's CPU:

    python benchmarks/distributed.py [--rounds 3] [--steps 30]

The same recipe, a Transformer of width 192 and depth 4 that reads 16 windows of 128 characters per step. Speed is that of the
steps after the first ten, from log.jsonl. The two sides take turns; the figure is the median of the ratios of neighbours.
Target: 0.9.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from firth.training.log import read

RECIPE = """
[data]
path = "text.txt"
valid = 0.01
[model]
kind = "transformer"
width = 192
depth = 4
heads = 4
context = 128
[training]
steps = {steps}
batch = 16
context = 128
device = "cpu"
log_every = 10
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
WARM = 10  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}, float32, gloo")
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text(
            "".join(f"{n} times {n + 1} is {n * (n + 1)}.\n" for n in range(5_000)), encoding="utf-8"
        )
        (folder / "recipe.toml").write_text(RECIPE.format(steps=options.steps), encoding="utf-8")
        for number in range(options.rounds):
            one = tokens_per_second(folder, f"one-{number}", (), threads=2)
            two = tokens_per_second(folder, f"two-{number}", TORCHRUN, threads=1)
            ratios.append(two / one)
            print(f"one process, two threads {one:,.0f} tokens/s; two processes {two:,.0f}; ratio {ratios[-1]:.3f}")
    print(f"median ratio {statistics.median(ratios):.3f}")


def tokens_per_second(folder: Path, out: str, launcher: tuple[str, ...], threads: int) -> float:
    command = [sys.executable, *launcher, "-m", "firth", "train", "recipe.toml", "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "FIRTH_CACHE": str(folder / "cache")}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    lines = {line["step"]: line for line in read(folder / out / "log.jsonl")}
    first, last = lines[WARM], lines[max(lines)]
    return float((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]))


if __name__ == "__main__":
    main()
