"""Decoding with int8 and int4 weights: tokens per second, bytes and perplexity, beside the weights as they are.

    python benchmarks/quantised.py [--device cpu] [--model gpt2] [--batches 1 16] [--tokens 48] [--threads 2]
    python benchmarks/quantised.py --products                      # single products, beside F.linear
    python benchmarks/quantised.py --sweep [--processes 14]        # GPU: other tiles of the Triton kernels, compiled in parallel
    python benchmarks/quantised.py --perplexity RUN --data FILE    # real weights

The shapes are those of benchmarks/decoding.py, GPT-2 124M ("gpt2") and a LLaMA of 1.0 B ("llama"), with random weights; a greedy
text is written through firth/decoding/generate.py after a prompt of 32 tokens, the settings taking turns, and the median of three
rounds is printed. On a GPU, single products are timed inside one CUDA graph over more copies of W than its cache holds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.layers.kernels.triton import quantised as gpu
from firth.layers.quantised import Int4Linear, Int8Linear, QuantisedLinear
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.quantisation import held_bytes, quantise

SHAPES = ((2304, 768), (3072, 768), (768, 3072), (50257, 768), (2048, 2048), (11264, 2048), (2048, 5632), (32000, 2048))
SHAPES_OF = {
    "gpt2": (50257, TransformerConfig(
        kind="transformer", width=768, depth=12, heads=12, context=1024, position="learned", activation="gelu_tanh", norm="layer",
        bias=True, hidden=3072,
    )),
    "llama": (32000, TransformerConfig(
        kind="transformer", width=2048, depth=22, heads=32, kv_heads=4, context=1024, position="rotary", activation="swiglu",
        norm="rms", bias=False, hidden=5632, tied=False,
    )),
}  # fmt: skip
PROMPT, ROUNDS, CACHE = 32, 3, 128 * 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--model", nargs="+", default=["gpt2"], choices=tuple(SHAPES_OF))
    parser.add_argument("--depth", type=int, help="instead of the shape's own")
    parser.add_argument("--processes", type=int, default=1)
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
            sweep(options.batches, options.processes)
        elif options.products:
            products(options.device, options.batches)
        elif options.perplexity:
            perplexities(options.perplexity, options.data)
        else:
            for model in options.model:
                decoding(model, options.device, options.batches, options.tokens, options.depth)


def decoding(shape: str, device: str, batches: list[int], tokens: int, depth: int | None) -> None:
    print(f"{shape:<10}{'MB':>8}" + "".join(f"{f'batch {batch}':>12}" for batch in batches) + "    tokens/s")
    models: dict[str, LanguageModel] = {}
    for name in ("bf16", "int8", "int4") if device == "cuda" else ("float32", "bf16", "int8", "int4"):
        low = name == "bf16" or device == "cuda"
        with torch.device(device):
            model = with_random_weights(shape, depth).to(torch.bfloat16 if low else None).eval()
        if name in ("int8", "int4"):
            quantise(model, name)  # type: ignore[arg-type]
        models[name] = model
    found: dict[str, list[list[float]]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            found[name].append([batch * tokens / seconds(model, batch, tokens, device) for batch in batches])
    for name, rounds in found.items():
        medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"{name:<10}{held_bytes(models[name]) / 1e6:>8.0f}" + "".join(f"{speed:>12.1f}" for speed in medians), flush=True)


def with_random_weights(shape: str, depth: int | None) -> LanguageModel:
    vocab, config = SHAPES_OF[shape]
    torch.manual_seed(0)
    model = language_model(config if depth is None else replace(config, depth=depth), vocab)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02)
    return model


def seconds(model: LanguageModel, batch: int, tokens: int, device: str) -> float:
    prompt_BT = torch.randint(0, model.vocab, (batch, PROMPT), generator=torch.Generator().manual_seed(0)).to(device)
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


def sweep(batches: list[int], processes: int) -> None:
    """The best tiles of each shape."""
    if processes > 1:
        spawn(warm_up, args=(batches, processes), nprocs=processes)
    for (n, d), name in itertools.product(SHAPES, ("int8", "int4")):
        layers = [_layer(name, n, d) for _ in range(min(64, CACHE // (n * d // (2 if name == "int4" else 1)) + 1))]
        for rows in batches:
            x = torch.randn(rows, d, device="cuda", dtype=torch.bfloat16)
            found = {}
            for tile in tiles(name, rows):
                with tiled(tile):
                    if works(layers[0], x, tile):
                        found[tile] = in_graph(lambda: [layer.product(x) for layer in layers]) / len(layers)  # noqa: B023
            now, plain = (microseconds(one, n, d, rows, "cuda") for one in (name, "bf16 F.linear"))
            told = ", ".join(f"{tile} {found[tile]:.2f}" for tile in sorted(found, key=found.__getitem__)[:6])
            print(f"{n:>6} {d:>5} {rows:>3} {name}: bf16 {plain:.2f}, now {now:.2f}; {told}", flush=True)


def warm_up(process: int, batches: list[int], processes: int) -> None:
    """Compile a share of all tiles, which puts them into Triton's cache."""
    shapes, kinds = {d: (n, d) for n, d in SHAPES}.values(), ("int8", "int4")  # a kernel is compiled for d
    every = [(shape, kind, rows, tile) for shape in shapes for kind in kinds for rows in batches for tile in tiles(kind, rows)]
    with torch.inference_mode():
        for (n, d), kind, rows, tile in every[process::processes]:
            with tiled(tile):
                works(_layer(kind, n, d), torch.randn(rows, d, device="cuda", dtype=torch.bfloat16), tile)


def tiles(name: str, rows: int) -> list[tuple[int, ...]]:
    if rows == 1:
        of_rows, blocks = ((2, 4, 8), (512, 1024, 2048)) if name == "int8" else ((4, 8, 16), (16, 32, 64))
        return list(itertools.product(of_rows, blocks, (4, 8)))
    every = itertools.product((16, 32, 64, 128), (1, 4, 8), (32,) if name == "int4" else (64, 128), (3, 5))
    return [tile for tile in every if tile[1] > 1 or tile[0] >= 32]


@contextmanager
def tiled(tile: tuple[int, ...]) -> Iterator[None]:
    chosen = gpu.tile_of_a_row, gpu.tile_of_rows
    gpu.tile_of_a_row = gpu.tile_of_rows = lambda *shape: tile  # type: ignore[assignment]
    try:
        yield
    finally:
        gpu.tile_of_a_row, gpu.tile_of_rows = chosen


def works(layer: QuantisedLinear, x: Tensor, tile: tuple[int, ...]) -> bool:
    try:
        y, expected = layer.product(x).float(), layer.reference(x).float()
    except Exception as error:  # too large for the chip
        print(f"{layer.out_features} × {layer.in_features}, {len(x)} rows, {tile}: {type(error).__name__}")
        return False
    right = bool((y - expected).abs().max() < 0.02 * expected.abs().max())
    if not right:
        print(f"{layer.out_features} × {layer.in_features}, {len(x)} rows, {tile}: WRONG")
    return right


def _layer(name: str, n: int, d: int) -> QuantisedLinear:
    W = torch.randn(n, d, device="cuda", dtype=torch.bfloat16) * 0.02
    return Int8Linear(W, None) if name == "int8" else Int4Linear(W, None)


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
