"""Steps by the clock of a GPU, beside the peak of its matrix products; for the benchmarks that train there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

WARM = 10  # steps before those that are timed


@dataclass(frozen=True)
class Work:
    """What a step does."""

    tokens: int
    operations: float  # of a token


def heading() -> str:
    return f"{'':<24}{'tokens/s':>10}{'ms/step':>9}{'TFLOP/s':>9}{'of peak':>9}{'GiB':>7}"


def timed(name: str, steps: Iterator[Tensor], count: int, work: Work, peak: float) -> list[Tensor]:
    """Ten steps to warm up, then `count` by the clock, the device waited for at both ends only; their losses."""
    torch.cuda.reset_peak_memory_stats()
    losses = [next(steps) for _ in range(WARM)]
    torch.cuda.synchronize()
    began = time.perf_counter()
    losses += [next(steps) for _ in range(count)]
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / count
    steps.close()  # type: ignore[attr-defined]
    rate, memory = work.tokens / seconds, torch.cuda.max_memory_allocated() / 2**30
    flops = rate * work.operations
    row = f"{name:<24}{rate:>10,.0f}{seconds * 1e3:>9.1f}{flops / 1e12:>9.0f}{flops / peak:>9.1%}{memory:>7.1f}"
    print(row, flush=True)
    return losses


def matrix_peak(n: int = 8192) -> float:
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds = min(_seconds(lambda: a @ b) for _ in range(20))
    return 2 * n**3 / seconds


def _seconds(run: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def profile(steps: Iterator[Tensor]) -> None:
    """Where the time of a step goes."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    for _ in range(WARM):
        next(steps)
    torch.cuda.synchronize()
    with profiler(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        for _ in range(3):
            next(steps)
        torch.cuda.synchronize()
    print(recorded.key_averages().table(sort_by="cuda_time_total", row_limit=45, max_name_column_width=90))
