"""What the parts of a Transformer's training step cost on this CPU, firth's beside the plain expression:

    python benchmarks/cpu_operations.py

Forward and backward at the shapes of the tour's Transformer, in milliseconds, the two sides taking turns; then page faults
per training step with and without `keep_freed_memory`, each reading in a process of its own. These explain the figures of
language_models.py; nothing is promised here.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.activation import _plain_swiglu, swiglu
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.norm import RMSNorm
from firth.layers.position import Rotary
from firth.layers.self_attention import SelfAttention, _plain_split

B, T, WIDTH, HIDDEN, HEADS, PAIRS, ROUNDS = 32, 64, 96, 288, 3, 200, 5


def main() -> None:
    if len(sys.argv) > 1:
        print(page_faults(keep=sys.argv[1] == "keep"))
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; median of {PAIRS} pairs, forward + backward\n")
    layer, attention = RMSNorm(WIDTH, eps=1e-5), SelfAttention(BlockConfig(width=WIDTH, attention=AttentionConfig(heads=HEADS)))
    turn = Rotary(T, WIDTH // HEADS, 10_000.0).turn(0, T)

    compare("RMSNorm", layer, lambda x: F.rms_norm(x, (WIDTH,), layer.weight, 1e-5), B, T, WIDTH)
    compare(
        "split and rotate", lambda x: attention.split(x, turn), lambda x: _plain_split(by_head(x), turn, HEADS), B, T, 3 * WIDTH
    )
    compare("SwiGLU", swiglu, _plain_swiglu, B, T, 2 * HIDDEN)
    readings: dict[str, list[tuple[float, float]]] = {"give": [], "keep": []}
    for name in ("give", "keep", "keep", "give") * ROUNDS:  # one reading says little on a shared machine, and order matters
        run = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        faults, milliseconds = run.stdout.split()
        readings[name].append((float(faults), float(milliseconds)))
    print(f"\nfreed memory, {2 * ROUNDS} processes each, taking turns:")
    for name, found in readings.items():
        faults, times = (statistics.median(column) for column in zip(*found, strict=True))
        low, high = min(time for _, time in found), max(time for _, time in found)
        print(f"{name:5} {faults:6,.0f} page faults a step, {times:.1f} ms a step ({low:.1f}–{high:.1f})")


def by_head(qkv_BTn: Tensor) -> Tensor:
    return qkv_BTn.view(B, T, -1, WIDTH // HEADS).transpose(1, 2)


def compare(what: str, ours: Callable[[Tensor], object], plain: Callable[[Tensor], object], *shape: int) -> None:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    times: dict[str, list[float]] = {"firth": [], "plain": []}
    for n in range(PAIRS + 10):
        for name, function in (("firth", ours), ("plain", plain))[:: 1 if n % 2 else -1]:
            began = time.perf_counter()
            y = function(x)
            outputs = y if isinstance(y, tuple) else (y,)
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
            times[name].append(time.perf_counter() - began)
    firth, other = (statistics.median(side[10:]) * 1e3 for side in times.values())
    print(f"{what:20}firth {firth:.2f} ms   plain {other:.2f} ms")


def page_faults(keep: bool) -> str:
    from firth.training import loop

    if not keep:
        loop.keep_freed_memory = lambda: None
    from language_models import firth_steps, started, tour

    recipe, data = tour("transformer")
    steps = firth_steps(started(recipe, data), recipe)
    for _ in range(10):
        next(steps)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    for _ in range(60):
        next(steps)
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 60
    return f"{faults} {(time.perf_counter() - began) / 60 * 1e3}"


if __name__ == "__main__":
    main()
