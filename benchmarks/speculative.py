"""Speculative decoding: tokens per second with and without a draft, for models that were trained on the same text.

    python benchmarks/speculative.py --out FOLDER [--device cpu] [--threads 2] [--tokens 400] [--rounds 3] [--a.b=value …]

Random weights would say nothing: how many proposals are accepted depends on what both models have learned. The target is a
character Transformer with 6 layers of width 384; the drafts are a GRU and a Transformer with one layer of width 64. All are
trained on the documentation of the installed packages (recipes docs-char-transformer and docs-char-gru). Runs that FOLDER already
has are used as they are. Each way of writing continues the same prompts, one text at a time and by turns with the others; printed
is the median over the rounds. Options such as --training.steps=5 go to the trainings that are still to be done.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

import torch

from firth.api import find_recipe, load, train_recipe
from firth.decoding.search.speculative import Acceptance
from firth.tasks.next_token import LanguageModelRun

PROMPTS = ("Return the ", "If the argument is ", "This function ")
LONG = ["training.context=256", "training.batch=16"]  # so that a text of 250 tokens needs no second reading
LARGE = ["model.width=384", "model.depth=6", "model.attention.heads=6", "model.feedforward.hidden=1152", "training.rate=0.0015"]
SMALL = ["model.width=64", "model.depth=1", "model.attention.heads=2", "model.feedforward.hidden=192"]
RUNS = {
    "target": ("docs-char-transformer", [*LONG, *LARGE]),
    "gru": ("docs-char-gru", []),
    "small": ("docs-char-transformer", [*LONG, *SMALL]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--evaluate", action="store_true", help="print the loss of every model on held-out text, too")
    given, settings = parser.parse_known_args()
    torch.set_num_threads(given.threads)
    models = {name: trained(name, given.out / name, given.device, [one.removeprefix("--") for one in settings]) for name in RUNS}
    where = torch.cuda.get_device_name() if given.device == "cuda" else f"CPU, {given.threads} threads"
    print(
        f"{where}; torch {torch.__version__}; {given.tokens} tokens after each of {len(PROMPTS)} prompts, {given.rounds} rounds"
    )
    for name, model in models.items():
        size = sum(p.numel() for p in model.network.parameters())
        loss = model.evaluate(split="valid")["bits_per_character"] if given.evaluate else math.nan
        print(f"{name:<8}{size:>12,} parameters  {loss:.3f} bits per character")
    for temperature in (0.0, 0.7, 1.0):
        print(f"\ntemperature {temperature}")
        compare(models, temperature, given.tokens, given.rounds)


def trained(name: str, folder: Path, device: str, settings: list[str]) -> LanguageModelRun:
    if not folder.exists():
        recipe, own = RUNS[name]
        train_recipe(find_recipe(recipe, [*own, f"training.device={device}", *settings]), folder)
    return load(folder, device, kind=LanguageModelRun)  # type: ignore[arg-type]


def compare(models: dict[str, LanguageModelRun], temperature: float, tokens: int, rounds: int) -> None:
    ways = {"alone": None, "with gru": models["gru"], "with small": models["small"]}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    counts = {way: Acceptance() for way in ways}
    for turn in range(rounds + 1):  # the first is a warm-up
        for way, draft in ways.items():
            taken = 0.0
            for prompt in PROMPTS:
                config = models["target"].generation({"tokens": tokens, "temperature": temperature, "seed": turn})
                started = time.perf_counter()
                "".join(models["target"].stream(prompt, config, draft, counts[way]))
                taken += time.perf_counter() - started
            seconds[way].append(taken)
    speed = {way: len(PROMPTS) * tokens / statistics.median(found[1:]) for way, found in seconds.items()}
    for way, count in counts.items():
        accepted = f"  {count.rate:.1%} of {count.proposed:,} proposals accepted" if count.proposed else ""
        print(f"{way:<12}{speed[way]:>8.0f} tokens/s  {speed[way] / speed['alone']:.2f} ×{accepted}")


if __name__ == "__main__":
    main()
