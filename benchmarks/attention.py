"""attend() against its peers, in one run: time of forward + backward, TFLOP/s, memory.

    python benchmarks/attention.py [--device cuda|cpu] [--only WORDS] [--no-peers]

GPU: bf16, B 4, H 16, D 64, n = 4096, causal, where a case does not say otherwise. "ms" is the device's time, the median of
single runs between two events, the gradients of everything that has one included; "eager" is the clock's when runs follow each
other, the host's part included where it is the longer. TFLOP/s count what the mask lets
through: 4·D operations forward and 10·D backward per visible pair; for the additive score 3·A + 2·E forward and 8·A + 6·E
backward, a tanh as one operation.
CPU: float32, the two sides take turns, the figure is the median of the ratios of neighbours.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from firth.layers.attention import attend, mask, position, score
from firth.layers.attention.weights import statistics as row_statistics
from firth.layers.attention.weights import weights
from firth.layers.position.t5 import bucket
from firth.layers.tap import attention_calls
from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise

B, H, D, N = 4, 16, 64, 4096

Run = Callable[[], Tensor]  # a forward pass


@dataclass
class Case:
    name: str
    firth: Run
    leaves: list[Tensor]  # whose gradients are wanted
    flops: float
    must: str
    target: str = ""
    peers: dict[str, Run] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="cases whose name contains one of these words")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    wanted = options.only.split()
    if options.device == "cpu":
        on_cpu()
        return
    torch.manual_seed(0)
    torch._dynamo.config.cache_size_limit = 64
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}, {platform.machine()}\n")
    print(f"{'forward + backward':32} {'ms':>8} {'eager':>8} {'TFLOP/s':>8} {'GiB':>6}   must    target  | peers in ms")
    for make in (dense_cases, masked_cases, table_cases, gaussian_cases, additive_cases):
        for case in make():
            if not wanted or any(word in case.name for word in wanted):
                print(line(case, options.no_peers), flush=True)
    if not wanted or "weights" in wanted:
        weights_on_demand()


def line(case: Case, no_peers: bool) -> str:
    ms, eager, peak = timed(case.firth, case.leaves)
    peers = []
    for name, peer in {} if no_peers else case.peers.items():
        try:
            found, _, memory = timed(peer, case.leaves)
            peers.append(f"{name} {found:.2f}" + (f" ({memory:.1f} GiB)" if memory > 4 * max(peak, 0.5) else ""))
        except Exception as problem:  # a backend that does not take the case
            peers.append(f"{name} – ({type(problem).__name__})")
            print(f"{case.name}, {name}: {str(problem)[:300]}", file=sys.stderr)
        torch.cuda.empty_cache()
    figures = f"{case.name:32} {ms:8.3f} {eager:8.3f} {case.flops / ms / 1e9:8.0f} {peak:6.2f}"
    return f"{figures}   {case.must:7} {case.target:7} | " + ", ".join(peers)


def timed(forward: Run, leaves: list[Tensor], runs: int = 30) -> tuple[float, float, float]:
    """Median milliseconds that the device takes for a forward and backward pass, those that pass on the clock when they follow
    each other, and the most memory taken beyond what stood before, in GiB."""
    out = forward()
    pull = torch.randn_like(out)
    del out

    def once() -> None:
        torch.autograd.grad(forward(), leaves, pull)

    once()
    first = clock(once, 1)
    if first > 100:
        runs = 5
    for _ in range(5):
        once()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    once()
    torch.cuda.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30
    return on_device(once, runs), clock(once, runs), peak


def clock(once: Callable[[], object], runs: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        once()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / runs * 1e3


def on_device(once: Callable[[], object], runs: int) -> float:
    """Between two events; the device is kept waiting until the host has issued all of it, and its cache is filled with other
    things first."""
    cold = torch.empty(64 << 20, dtype=torch.int32, device="cuda")  # 256 MB
    events = []
    for _ in range(runs):
        cold.zero_()
        torch.cuda._sleep(4_000_000)  # about 2 ms
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        once()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def qkv(groups: int = H, n: int = N) -> list[Tensor]:
    """As a layer makes them: views of B,T,heads,D."""
    return [
        torch.randn(B, n, heads, D, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
        for heads in (H, groups, groups)
    ]


def flops(pairs: float) -> float:
    return 14 * D * pairs


CAUSAL_PAIRS = B * H * N * (N + 1) / 2

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def sdpa_of(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Run:
    def run() -> Tensor:
        with sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])

    return run


def dense_cases() -> Iterator[Case]:
    for name, groups in (("causal, multi-head", H), ("causal, grouped-query (4)", 4), ("causal, multi-query", 1)):
        q, k, v = leaves = qkv(groups)
        peers = {peer: sdpa_of(backend, q, k, v) for peer, backend in BACKENDS.items()}
        yield Case(
            name, lambda q=q, k=k, v=v: attend(q, k, v, mask=mask.CAUSAL), leaves, flops(CAUSAL_PAIRS), "1.05×", peers=peers
        )


def masked_cases() -> Iterator[Case]:
    q, k, v = leaves = qkv()
    pairs = B * H * sum(min(t + 1, 512) for t in range(N))
    window = flex_of(q, k, v, lambda b, h, i, j: (j <= i) & (i - j < 512))
    yield Case("window 512", lambda: attend(q, k, v, mask=mask.window(512)), leaves, flops(pairs), "0.9", "0.5", window)
    slope_H = position.alibi(H).slope_H.cuda()
    alibi = position.ALiBi(slope_H)
    peer = flex_of(q, k, v, causal_mod, lambda s, b, h, i, j: s + slope_H[h] * (j - i))
    yield Case(
        "ALiBi", lambda: attend(q, k, v, mask=mask.CAUSAL, position=alibi), leaves, flops(CAUSAL_PAIRS), "2.2", "1.6", peer
    )
    # Eight documents to a row, their ends drawn at random.
    ends = torch.rand(B, N, device="cuda").topk(7, dim=1).indices
    document_BT = torch.zeros(B, N, dtype=torch.long, device="cuda").scatter_(1, ends, 1).cumsum(1)
    packed = mask.documents(document_BT) & mask.CAUSAL
    lengths = torch.stack([torch.bincount(row, minlength=8) for row in document_BT]).double()
    pairs = H * float((lengths * (lengths + 1) / 2).sum())
    peer = flex_of(q, k, v, lambda b, h, i, j: (j <= i) & (document_BT[b, i] == document_BT[b, j]), rows=B)
    yield Case("packed documents (8)", lambda: attend(q, k, v, mask=packed), leaves, flops(pairs), "2.2", "1.6", peer)


def causal_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def flex_of(q: Tensor, k: Tensor, v: Tensor, mask_mod: Any, score_mod: Any = None, rows: int | None = None) -> dict[str, Run]:
    """FlexAttention as its documentation shows it: the block mask made once, the call compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = create_block_mask(mask_mod, rows, None, N, N, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return {"FlexAttention": lambda: compiled(q, k, v, score_mod=score_mod, block_mask=block_mask)}


def table_cases() -> Iterator[Case]:
    q, k, v = qkv()
    table_NH = torch.randn(32, H, device="cuda", requires_grad=True)
    buckets = position.buckets(table_NH, bidirectional=False)
    yield Case(
        "T5 bias, 32 learned buckets",
        lambda: attend(q, k, v, mask=mask.CAUSAL, position=buckets),
        [q, k, v, table_NH],
        flops(CAUSAL_PAIRS),
        "4",
        "2.5",
        {"FlexAttention": flex_buckets(q, k, v, table_NH)},
    )
    key_RD, value_RE = (torch.randn(129, D, device="cuda", dtype=torch.bfloat16).mul_(0.1).requires_grad_() for _ in range(2))
    shaw = position.shaw(key_RD, value_RE)
    yield Case(
        "Shaw keys and values, clip 64",
        lambda: attend(q, k, v, mask=mask.CAUSAL, position=shaw),
        [q, k, v, key_RD, value_RE],
        flops(CAUSAL_PAIRS),
        "8",
        "4.5",
        {"FlexAttention, keys only": flex_shaw_keys(q, k, v, key_RD, value_RE)},
    )


def flex_buckets(q: Tensor, k: Tensor, v: Tensor, table_NH: Tensor) -> Run:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = create_block_mask(causal_mod, None, None, N, N, device="cuda")
    bucket_N = bucket(-torch.arange(N, device="cuda"), 32, False, 128)

    @torch.compile
    def run(table_NH: Tensor) -> Tensor:
        table_HN = table_NH.T.contiguous()
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s + table_HN[h, bucket_N[(i - j).clamp(min=0)]], block_mask=block_mask
        )

    return lambda: run(table_NH)


def flex_shaw_keys(q: Tensor, k: Tensor, v: Tensor, key_RD: Tensor, value_RE: Tensor) -> Run:
    """The nearest that FlexAttention comes to it: q·a gathered in the score, no values."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = create_block_mask(causal_mod, None, None, N, N, device="cuda")

    @torch.compile
    def run(key_RD: Tensor, value_RE: Tensor) -> Tensor:
        relative_BHQR = q @ key_RD.T * D**-0.5
        o_BHQE = flex_attention(
            q,
            k,
            v,
            score_mod=lambda s, b, h, i, j: s + relative_BHQR[b, h, i, (j - i).clamp(-64, 64) + 64],
            block_mask=block_mask,
        )
        return o_BHQE + 0 * value_RE.sum()  # so that it, too, has a gradient

    return lambda: run(key_RD, value_RE)


def gaussian_cases() -> Iterator[Case]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = leaves = qkv()
    block_mask = create_block_mask(causal_mod, None, None, N, N, device="cuda")

    @torch.compile
    def flex(k: Tensor) -> Tensor:
        norm_BHK = -0.5 * k.float().square().sum(-1)
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + norm_BHK[b, h, j], block_mask=block_mask, scale=1.0)

    yield Case(
        "Gaussian",
        lambda: attend(q, k, v, mask=mask.CAUSAL, score=score.GAUSSIAN),
        leaves,
        flops(CAUSAL_PAIRS),
        "3",
        "2",
        {"FlexAttention": lambda: flex(k)},
    )


def additive_cases() -> Iterator[Case]:
    for n, must, target in ((1024, "8", "5"), (8192, "runs", "")):
        q, k, v = qkv(n=n)
        w_HA = (torch.randn(H, D, device="cuda", dtype=torch.bfloat16) * D**-0.5).requires_grad_()

        def plain(q: Tensor = q, k: Tensor = k, v: Tensor = v, w_HA: Tensor = w_HA) -> Tensor:
            score_BHQK = (torch.tanh(q.unsqueeze(3) + k.unsqueeze(2)) * w_HA[:, None, None]).sum(-1)
            return score_BHQK.softmax(-1) @ v

        yield Case(
            f"additive, n = {n}, not causal",
            lambda q=q, k=k, v=v, w=w_HA: attend(q, k, v, score=score.additive(w)),
            [q, k, v, w_HA],
            B * H * n * n * (11 * D + 8 * D),
            must,
            target,
            {"plain": plain, "torch.compile": torch.compile(plain)} if n == 1024 else {},
        )


def weights_on_demand(n: int = N) -> None:
    """One head of one layer of twelve, all rows, of every text in the batch, beside a forward pass of the model."""
    config = TransformerConfig(kind="transformer", width=H * D, depth=12, heads=H, context=n)
    with torch.device("cuda"):
        model = language_model(config, 256).eval()
    initialise(model, torch.Generator("cuda").manual_seed(0))
    model.to(torch.bfloat16)
    token_BT = torch.randint(256, (B, n), device="cuda")
    with torch.no_grad():
        model.hidden(token_BT)
        with attention_calls(model, [6]) as calls:
            model.hidden(token_BT)
        forward = on_device(lambda: model.hidden(token_BT), 20)
        one = on_device(lambda: weights(calls[6], heads=3), 20)
        rows = on_device(lambda: row_statistics(calls[6], heads=3), 20)
    print(f"\nforward of 12 layers, {B} × {n} tokens: {forward:.2f} ms")
    print(f"weights of one head of one layer: {one:.2f} ms, {100 * one / forward:.1f} % of it (must ≤ 5 %)")
    print(f"entropy, maximum and distance of its rows: {rows:.2f} ms, {100 * rows / forward:.1f} %")


# ------------------------------------------------------------------------------------------------ CPU


def on_cpu() -> None:
    print(
        f"{platform.machine()}, {torch.get_num_threads()} threads; torch {torch.__version__}, float32, B 1, H 8, D 64, n 1024\n"
    )
    print(f"{'forward + backward':38} {'ms':>8} {'÷ torch':>8}")
    for name, ours, theirs, leaves in cpu_cases():
        ms, ratio = in_turns(ours, theirs, leaves)
        print(f"{name:38} {ms:8.1f} {ratio:8.3f}", flush=True)
    print("\nadditive, forward + backward: the most memory taken at a time, MiB (B 1, H 4)")
    for n, width in ((256, 16), (256, 64), (512, 16), (512, 64), (1024, 64)):
        ours, matrix = additive_memory(n, width), 4 * n * n * 4 / 2**20
        print(f"  n {n:5}, width {width:3}: {ours:8.1f}   Q·K {matrix:8.1f}   Q·K·D {matrix * width:8.1f}")


def cpu_cases() -> Iterator[tuple[str, Run, Run, list[Tensor]]]:
    n, heads = 1024, 8
    for name, groups, allowed in (
        ("full", heads, mask.FULL),
        ("causal", heads, mask.CAUSAL),
        ("causal, grouped-query (2)", 2, mask.CAUSAL),
        ("causal, multi-query", 1, mask.CAUSAL),
        ("window 128", heads, mask.window(128)),
    ):
        q, k, v = leaves = [torch.randn(1, n, g, D).transpose(1, 2).requires_grad_() for g in (heads, groups, groups)]
        causal, gqa = allowed == mask.CAUSAL, groups != heads
        t = torch.arange(n)
        seen = None if allowed in (mask.FULL, mask.CAUSAL) else (t <= t[:, None]) & (t > t[:, None] - 128)
        yield (
            name,
            lambda q=q, k=k, v=v, allowed=allowed: attend(q, k, v, mask=allowed),
            lambda q=q, k=k, v=v, seen=seen, causal=causal, gqa=gqa: F.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, is_causal=causal, enable_gqa=gqa
            ),
            leaves,
        )


def in_turns(ours: Run, theirs: Run, leaves: list[Tensor], rounds: int = 40) -> tuple[float, float]:
    pull = torch.randn_like(ours())

    def seconds(forward: Run) -> float:
        start = time.perf_counter()
        torch.autograd.grad(forward(), leaves, pull)
        return time.perf_counter() - start

    for _ in range(3):
        seconds(ours), seconds(theirs)
    pairs = []
    for turn in range(rounds):  # who goes first alternates
        if turn % 2:
            pairs.append((seconds(ours), seconds(theirs)))
        else:
            pairs.append(tuple(reversed((seconds(theirs), seconds(ours)))))
    return statistics.median(a for a, _ in pairs) * 1e3, statistics.median(a / b for a, b in pairs)


def additive_memory(n: int, width: int) -> float:
    """Peak of what the allocator gave out, by torch's own profiler."""
    q, k, v = (torch.randn(1, 4, n, width, requires_grad=True) for _ in range(3))
    w_HA = torch.randn(4, width, requires_grad=True)
    with torch.profiler.profile(profile_memory=True) as profile:
        attend(q, k, v, score=score.additive(w_HA)).sum().backward()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak / 2**20


if __name__ == "__main__":
    main()
