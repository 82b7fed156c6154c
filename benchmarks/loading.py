"""Loading a public model: seconds and peak memory, beside `transformers` in the same run.

    python benchmarks/loading.py [--device cpu] [--rounds 3]
    python benchmarks/loading.py --depth 2 --width 256                 # in miniature

A folder with a LLaMA of 1.1 B parameters in bfloat16 (the shape of TinyLlama: width 2048, 22 layers, 32 heads, 4 key/value heads,
inner width 5632, a vocabulary of 32,000; random weights, one safetensors file) is loaded by turns with `firth.load` and with
`AutoModelForCausalLM.from_pretrained`, each time in a process of its own. The clock starts when everything is imported. "ready":
the object is there, on its device. "first logits": after one more token, so that both have read what they map. Memory is the
peak of the pages that belong to the process alone while it loads (RssAnon, sampled), and the peak on the GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch

SLOWER, LARGER = 1.2, 1.1  # at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=22)
    parser.add_argument("--width", type=int, default=2048)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "llama"
        weights = written(folder, options.depth, options.width)
        print(f"{weights / 2**30:.2f} GiB of weights, on {options.device}; torch {torch.__version__}\n")
        print(f"{'':<14}{'ready, s':>10}{'first logits, s':>17}{'memory / weights':>18}{'GPU / weights':>15}")
        found: dict[str, list[float]] = {"firth": [], "transformers": []}
        for _ in range(options.rounds):
            for name, all_seconds in found.items():
                seconds, first, memory, on_gpu = in_new_process(name, folder, options.device)
                all_seconds.append(seconds)
                print(f"{name:<14}{seconds:>10.2f}{first:>17.2f}{memory / weights:>18.2f}{on_gpu / weights:>15.2f}", flush=True)
    ratio = statistics.median(found["firth"]) / statistics.median(found["transformers"])
    print(f"\nmedian time of firth / transformers: {ratio:.2f} (at most {SLOWER}); memory at most {LARGER} × the weights")


def written(folder: Path, depth: int, width: int) -> int:
    """A folder with random weights; how many bytes they have."""
    import tokenizers
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=width // 64,
        num_key_value_heads=max(1, width // 512),
        intermediate_size=width * 11 // 4,
        tie_word_embeddings=False,
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
    )
    folder.mkdir()
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in LlamaForCausalLM(config).state_dict().items()}
    tensors = {name: torch.empty(shape, dtype=torch.bfloat16).normal_(0, 0.02) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    letters = {chr(33 + id): id for id in range(90)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(letters, []))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return sum(tensor.numel() for tensor in tensors.values()) * 2


def in_new_process(name: str, folder: Path, device: str) -> tuple[float, float, float, float]:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=measure, args=(name, str(folder), device, queue))
    process.start()
    found: tuple[float, float, float, float] = queue.get(timeout=120)
    process.join()
    return found


def measure(name: str, folder: str, device: str, queue: Any) -> None:
    torch.zeros(1, device=device)
    load: Any = _firth if name == "firth" else _transformers
    token_BT = torch.zeros(1, 1, dtype=torch.long, device=device)
    load_one = load(folder, device)
    with Peak() as peak:
        began = time.perf_counter()
        model = load_one()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    with torch.inference_mode():
        model(token_BT)
    if device == "cuda":
        torch.cuda.synchronize()
    on_gpu = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    queue.put((seconds, time.perf_counter() - began, float(peak.bytes), float(on_gpu)))


def _firth(folder: str, device: str) -> Any:
    from firth.api.loading import load

    return lambda: load(folder, device).network  # type: ignore[arg-type]


def _transformers(folder: str, device: str) -> Any:
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    assert LlamaForCausalLM is not None  # imported before the clock starts
    return lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map=device).eval()


class Peak:
    """The most memory that this process has for itself, sampled every 5 ms, above what it had before."""

    def __enter__(self) -> Peak:
        self._before, self.bytes, self._done = _private(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, _private() - self._before)

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self.bytes = max(self.bytes, _private() - self._before)


def _private() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
