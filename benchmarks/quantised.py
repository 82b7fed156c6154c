"""Decoding with int8 and int4 weights: tokens per second, bytes and perplexity, beside the weights as they are.

    python benchmarks/quantised.py [--device cpu] [--batches 1 16] [--tokens 48] [--threads 2]
    python benchmarks/quantised.py --products                      # single products, beside F.linear
    python benchmarks/quantised.py --sweep                         # GPU: other block sizes of the Triton kernels
    python benchmarks/quantised.py --perplexity RUN --data FILE    # real weights

The shape is that of GPT-2 124M with random weights; a greedy text is written through firth/decoding/generate.py after a prompt of
32 tokens, the settings taking turns, and the median of three rounds is printed. On a GPU, single products are timed inside one
CUDA graph over more copies of W than its cache holds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.decoding.generate import generate
from firth.decoding.sample import DecodingConfig
from firth.layers.quantised import Int4Linear, Int8Linear, gpu
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.quantisation import held_bytes, quantise

SHAPES = ((2304, 768), (3072, 768), (768, 3072), (50257, 768), (2048, 2048), (11264, 2048), (2048, 5632), (32000, 2048))
PROMPT, ROUNDS, CACHE = 32, 3, 128 * 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--perplexity", type=Path)
    parser.add_argument("--data")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {name}\n")
    with torch.inference_mode():
        if options.sweep:
            sweep()
        elif options.products:
            products(options.device, options.batches)
        elif options.perplexity:
            perplexities(options.perplexity, options.data)
        else:
            decoding(options.device, options.batches, options.tokens, options.depth)


def decoding(device: str, batches: list[int], tokens: int, depth: int) -> None:
    print(f"{'weights':<10}{'MB':>8}" + "".join(f"{f'batch {batch}':>12}" for batch in batches) + "    tokens/s")
    models: dict[str, LanguageModel] = {}
    for name in ("float32", "bf16", "int8", "int4"):
        low = name == "bf16" or (device == "cuda" and name != "float32")
        model = gpt2(depth).to(device, torch.bfloat16 if low else None).eval()
        if name in ("int8", "int4"):
            quantise(model, name)  # type: ignore[arg-type]
        models[name] = model
    found: dict[str, list[list[float]]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            found[name].append([batch * tokens / seconds(model, batch, tokens, device) for batch in batches])
    for name, rounds in found.items():
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"{name:<10}{held_bytes(models[name]) / 1e6:>8.0f}" + "".join(f"{speed:>12.1f}" for speed in medians))


def gpt2(depth: int) -> LanguageModel:
    config = TransformerConfig(
        kind="transformer", width=768, depth=depth, heads=12, context=1024, position="learned", activation="gelu_tanh",
        norm="layer", bias=True, hidden=3072,
    )  # fmt: skip
    torch.manual_seed(0)
    model = language_model(config, 50257)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02)
    return model


def seconds(model: LanguageModel, batch: int, tokens: int, device: str) -> float:
    prompt_BT = torch.randint(0, 50257, (batch, PROMPT), generator=torch.Generator().manual_seed(0)).to(device)
    texts = generate(model, prompt_BT, DecodingConfig(tokens=tokens + 1, temperature=0))
    next(texts)  # the prompt
    began = time.perf_counter()
    for token_B in texts:
        last_B = token_B
    last_B.cpu()
    return time.perf_counter() - began


def products(device: str, batches: list[int]) -> None:
    names = ("F.linear", "bf16 F.linear", "int8", "int4") if device == "cpu" else ("bf16 F.linear", "int8", "int4")
    print(f"{'n × d':<16}{'rows':>6}" + "".join(f"{name:>16}" for name in names) + "    µs")
    for (n, d), rows in itertools.product(SHAPES if device == "cuda" else SHAPES[:4], batches):
        times = [microseconds(name, n, d, rows, device) for name in names]
        print(f"{f'{n} × {d}':<16}{rows:>6}" + "".join(f"{one:>16.1f}" for one in times), flush=True)


def microseconds(name: str, n: int, d: int, rows: int, device: str) -> float:
    dtype = torch.float32 if device == "cpu" and name != "bf16 F.linear" else torch.bfloat16
    x = torch.randn(rows, d, device=device, dtype=dtype)
    copies = 1 if device == "cpu" else min(64, CACHE // (n * d // (2 if name == "int4" else 1)) + 1)
    run = [_product(name, torch.randn(n, d, device=device, dtype=dtype) * 0.02) for _ in range(copies)]
    return on_cpu(lambda: run[0](x)) if device == "cpu" else in_graph(lambda: [one(x) for one in run]) / copies


def _product(name: str, W: Tensor) -> Callable[[Tensor], Tensor]:
    match name:
        case "int8":
            return Int8Linear(W, None).forward
        case "int4":
            return Int4Linear(W, None).forward
        case _:
            return lambda x: F.linear(x, W)


def on_cpu(run: Callable[[], object]) -> float:
    times = []
    for _ in range(60):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times[10:]) * 1e6


def in_graph(run: Callable[[], object], repeats: int = 10) -> float:
    """Microseconds of one replay."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / repeats * 1e3


def sweep() -> None:
    """The best block sizes: BLOCK_N, BLOCK_K and warps."""
    chosen = gpu.blocks
    for (n, d), rows, name in itertools.product(SHAPES, (1, 16, 64), ("int8", "int4")):
        block_m = 1 if rows == 1 else max(16, rows)
        found = {}
        block_ns, block_ks = ((2, 4, 8, 16), (256, 512, 1024)) if rows == 1 else ((16, 32, 64), (64, 128, 256))
        for block_n, block_k, warps in itertools.product(block_ns, block_ks, (2, 4, 8)):
            gpu.blocks = lambda *shape, now=(block_m, block_n, block_k, warps): now
            try:
                found[block_n, block_k, warps] = microseconds(name, n, d, rows, "cuda")
            except Exception as error:  # too large for the chip
                print(n, d, rows, name, block_n, block_k, warps, type(error).__name__)
        gpu.blocks = chosen
        best = sorted(found, key=found.__getitem__)[:3]
        told = ", ".join(f"{one} {found[one]:.2f}" for one in best)
        print(f"{n:>6} {d:>5} {rows:>3} {name}: now {microseconds(name, n, d, rows, 'cuda'):.2f}; {told}", flush=True)


def perplexities(path: Path, data: str | None) -> None:
    from firth.api import load

    run = load(path)
    plain = run.evaluate(data)["perplexity"]
    print(f"{'weights':<10}{'MB':>8}{'perplexity':>12}\n{'as loaded':<10}{held_bytes(run.network) / 1e6:>8.0f}{plain:>12.4f}")
    for kind in ("int8", "int4"):
        run = load(path, quantise=kind)  # type: ignore[arg-type]
        after = run.evaluate(data)["perplexity"]
        print(f"{kind:<10}{held_bytes(run.network) / 1e6:>8.0f}{after:>12.4f}  ({after / plain - 1:+.2%})", flush=True)  # type: ignore[operator]


if __name__ == "__main__":
    main()
