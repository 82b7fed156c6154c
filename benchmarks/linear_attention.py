"""Linear attention against SDPA, in one run: time and memory against the length n, and the cost of one decoded token.

    python benchmarks/linear_attention.py [--longest 65536] [--json FILE] [--only WORDS]

GPU: bf16, B 2, H 16, head width 64, causal; SDPA with the backend that torch chooses, Based with q and k of width 16 and, beside
it, its window of 64. "ms" is the device's time, the median of single runs between two events; "eager" is the clock's when runs
follow each other. Before anything is timed, every form's values and gradients are compared with the recurrence in float64 there.
On a CPU: float32, B 1, H 4, the clock.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.attention import attend, mask
from firth.layers.linear_attention import ELU_PLUS_ONE, IDENTITY, TAYLOR, Form, LinearState, linear_attend

D, SMALL_D, SPAN = 64, 16, 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
B, H = (2, 16) if DEVICE == "cuda" else (1, 4)

KINDS = ("sdpa", "linear", "linear, plain", "gated", "gated, plain", "taylor", "window 64")


class Case(NamedTuple):
    run: Callable[[], Tensor]
    leaves: list[Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=65536 if DEVICE == "cuda" else 4096)
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--only", default="", help="kinds, separated by commas")
    options = parser.parse_args()
    torch.manual_seed(0)
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else platform.processor() or "CPU"
    print(f"{name}; torch {torch.__version__}; B {B}, H {H}, head width {D}, {DTYPE}\n")
    kinds = tuple(options.only.split(",")) if options.only else KINDS
    rows = {"error": errors(kinds), "length": [], "decoding": []}
    n = 1024
    print(f"\n{'n':>6}  {'':<16}{'forward':>9}{'eager':>9}{'× SDPA':>8}  {'+ backward':>11}{'eager':>9}{'× SDPA':>8}{'GiB':>8}")
    while n <= options.longest:
        rows["length"] += at_length(n, kinds)
        n *= 2
    print(f"\none decoded token\n{'n':>6}  {'':<16}{'µs':>9}{'state, KiB':>12}")
    n = 1024
    while n <= options.longest:
        rows["decoding"] += decoding(n)
        n *= 4
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def draw(n: int, width: int, dtype: torch.dtype = DTYPE) -> Tensor:
    """As a layer makes it: a view of B,T,H,w."""
    return torch.randn(B, n, H, width, device=DEVICE).to(dtype).transpose(1, 2).requires_grad_()


def leaves_of(kind: str, n: int) -> list[Tensor]:
    width = SMALL_D if kind == "taylor" else D
    leaves = [draw(n, width), draw(n, width), draw(n, D)]
    if kind.startswith("gated"):
        leaves.append((F.logsigmoid(draw(n, D, torch.float32)) / 16).detach().requires_grad_())
    return leaves


def run(kind: str, leaves: list[Tensor], form: Form | None = None) -> Tensor:
    q, k, v = leaves[:3]
    form = form or ("chunked" if kind.endswith("plain") else "auto")
    match kind.split(",", maxsplit=1)[0]:
        case "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        case "window 64":
            return attend(q, k, v, mask=mask.window(SPAN))
        case "gated":
            return linear_attend(q, k, v, features=IDENTITY, log_gate_BHTF=leaves[3], normalized=False, form=form)[0]
        case other:
            return linear_attend(q, k, v, features=TAYLOR if other == "taylor" else ELU_PLUS_ONE, form=form)[0]


def errors(kinds: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """The largest error of o and of each gradient, as a share of the largest number, at n = 1000."""
    print(f"error against the recurrence in float64, n = 1000\n{'':<16}{'o':>9}{'dq':>9}{'dk':>9}{'dv':>9}{'dg':>9}")
    found = {}
    for kind in kinds:
        if kind in ("sdpa", "window 64"):
            continue
        leaves = leaves_of(kind, 1000)
        exact = [x.detach().double().requires_grad_() for x in leaves]
        pull = torch.randn_like(run(kind, leaves))
        results = []
        for some, form in ((leaves, None), (exact, "recurrent")):
            o = run(kind, some, form)  # type: ignore[arg-type]
            results.append([o.detach(), *torch.autograd.grad(o, some, pull.to(o.dtype))])
        shares = [float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(*results, strict=True)]
        found[kind] = dict(zip(("o", "dq", "dk", "dv", "dg"), shares, strict=False))
        print(f"{kind:<16}" + "".join(f"{share:>9.1e}" for share in shares), flush=True)
    return found


def at_length(n: int, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        leaves = leaves_of(kind, n)
        case = Case(lambda leaves=leaves, kind=kind: run(kind, leaves), leaves)  # type: ignore[misc]
        row = {"n": n, "kind": kind} | measured(case)
        rows.append(row)
        first = rows[0]
        times = [row[key] / first[key] for key in ("forward_ms", "both_ms")]
        print(
            f"{n:>6}  {kind:<16}{row['forward_ms']:>9.3f}{row['forward_eager_ms']:>9.3f}{times[0]:>8.2f}  "
            f"{row['both_ms']:>11.3f}{row['both_eager_ms']:>9.3f}{times[1]:>8.2f}{row['gib']:>8.2f}",
            flush=True,
        )
        del leaves, case
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    return rows


def measured(case: Case) -> dict[str, float]:
    pull = torch.randn_like(case.run())

    def forward() -> None:
        with torch.no_grad():
            case.run()

    def both() -> None:
        torch.autograd.grad(case.run(), case.leaves, pull)

    gib = 0.0
    both()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        both()
        torch.cuda.synchronize()
        gib = (torch.cuda.max_memory_allocated() - before) / 2**30
    return {
        "forward_ms": device_ms(forward),
        "forward_eager_ms": clock_ms(forward),
        "both_ms": device_ms(both),
        "both_eager_ms": clock_ms(both),
        "gib": gib,
    }


def decoding(n: int) -> list[dict[str, Any]]:
    """One token after n others: from a cache of keys and values, and from the state of linear attention."""
    rows = []
    with torch.no_grad():
        q, k, v = (x.detach() for x in leaves_of("sdpa", n))
        one = q[:, :, :1].contiguous()
        cache = 2 * k.numel() * k.element_size()
        states = {
            "linear": linear_attend(q, k, v, state=LinearState())[1],
            "gated": linear_attend(q, k, v, features=IDENTITY, normalized=False, state=LinearState())[1],
            "taylor": linear_attend(*(x[..., :SMALL_D] for x in (q, k)), v, features=TAYLOR, state=LinearState())[1],
        }
        gate = -torch.rand(B, H, 1, D, device=DEVICE)
        runs: dict[str, tuple[Callable[[], object], int]] = {"sdpa": (lambda: attend(one, k, v), cache)}
        for kind, state in states.items():
            assert state.S_BHFE is not None
            size = state.S_BHFE.numel() * state.S_BHFE.element_size()
            some = [one[..., :SMALL_D], one[..., :SMALL_D], one] if kind == "taylor" else [one] * 3
            settings: dict[str, Any] = {
                "linear": {},
                "gated": {"features": IDENTITY, "log_gate_BHTF": gate, "normalized": False},
                "taylor": {"features": TAYLOR},
            }[kind]
            runs[kind] = lambda some=some, state=state, settings=settings: linear_attend(*some, state=state, **settings), size  # type: ignore[misc]
        for kind, (step, size) in runs.items():
            step()
            rows.append({"n": n, "kind": kind, "us": device_ms(step) * 1e3, "eager_us": clock_ms(step) * 1e3, "bytes": size})
            print(f"{n:>6}  {kind:<16}{rows[-1]['us']:>9.1f}{size / 1024:>12.0f}", flush=True)
    return rows


def clock_ms(once: Callable[[], object]) -> float:
    once()
    wait()
    began = time.perf_counter()
    once()
    wait()
    runs = max(3, min(30, int(0.5 / max(time.perf_counter() - began, 1e-5))))
    began = time.perf_counter()
    for _ in range(runs):
        once()
    wait()
    return (time.perf_counter() - began) / runs * 1e3


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def device_ms(once: Callable[[], object]) -> float:
    """Between two events; the device waits until the host has issued all of it, and its cache is filled with other things."""
    if DEVICE == "cpu":
        return clock_ms(once)
    for _ in range(3):
        once()
    cold = torch.empty(64 << 20, dtype=torch.int32, device="cuda")  # 256 MB
    events = []
    for _ in range(15):
        cold.zero_()
        torch.cuda._sleep(4_000_000)  # about 2 ms
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        once()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


if __name__ == "__main__":
    main()
