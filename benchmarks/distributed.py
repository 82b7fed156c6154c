"""Two processes of one thread (under torchrun) on this machine's CPU:

    python benchmarks/distributed.py [--rounds 3] [--steps 30]
    FIRTH_DATA=… python benchmarks/distributed.py --vectors [--rounds 3]

*Language models*, with DDP, against one process of two threads. The same recipe, a Transformer of width 192 and depth 4 that
reads 16 windows of 128 characters per step. Speed is that of the steps after the first ten, from log.jsonl. The two sides take
turns; the figure is the median of the ratios of neighbours.
Target: 0.9.

*Word vectors*, one epoch of wiki8 with d 100, against one process of one thread; the speed is that of the training alone,
the seconds are those of the whole command. Target: 1.7.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
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
    parser.add_argument("--vectors", action="store_true", help="word vectors instead of language models")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}, float32, gloo")
    with tempfile.TemporaryDirectory() as name:
        ratios = vectors(Path(name), options.rounds) if options.vectors else models(Path(name), options.rounds, options.steps)
    print(f"median ratio {statistics.median(ratios):.3f}")


def models(folder: Path, rounds: int, steps: int) -> list[float]:
    (folder / "text.txt").write_text("".join(f"{n} times {n + 1} is {n * (n + 1)}.\n" for n in range(5_000)), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE.format(steps=steps), encoding="utf-8")
    ratios = []
    for number in range(rounds):
        one = tokens_per_second(folder, f"one-{number}", (), threads=2)
        two = tokens_per_second(folder, f"two-{number}", TORCHRUN, threads=1)
        ratios.append(two / one)
        print(f"one process, two threads {one:,.0f} tokens/s; two processes {two:,.0f}; ratio {ratios[-1]:.3f}", flush=True)
    return ratios


def vectors(folder: Path, rounds: int) -> list[float]:
    words_per_second(folder, "warm.firth", (), threads=1)  # reads wiki8, compiles the kernels
    ratios = []
    for number in range(rounds):
        (one, seconds_1), (both, seconds_t), (two, seconds_2) = (
            words_per_second(folder, f"one-{number}.firth", (), threads=1),
            words_per_second(folder, f"threads-{number}.firth", (), threads=2),
            words_per_second(folder, f"two-{number}.firth", TORCHRUN, threads=1),
        )
        ratios.append(two / one)
        print(
            f"one process {one:,.0f} words/s ({seconds_1:.1f} s in all); two threads {both:,.0f} ({seconds_t:.1f} s); "
            f"two processes {two:,.0f} ({seconds_2:.1f} s); ratio {ratios[-1]:.3f}",
            flush=True,
        )
    return ratios


def words_per_second(folder: Path, out: str, launcher: tuple[str, ...], threads: int) -> tuple[float, float]:
    """Of the training alone, and the seconds of the whole command."""
    settings = ["--epochs", "1", "--threads", str(threads), "--out", out, "--json"]
    command = [sys.executable, *launcher, "-m", "firth", "vectors", "train", "wiki8", *settings]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "FIRTH_CACHE": str(folder / "cache")}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["words_per_second"]), time.perf_counter() - began


def tokens_per_second(folder: Path, out: str, launcher: tuple[str, ...], threads: int) -> float:
    command = [sys.executable, *launcher, "-m", "firth", "train", "recipe.toml", "--out", out]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "FIRTH_CACHE": str(folder / "cache")}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    lines = {line["step"]: line for line in read(folder / out / "log.jsonl")}
    first, last = lines[WARM], lines[max(lines)]
    return float((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]))


if __name__ == "__main__":
    main()
