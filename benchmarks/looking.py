"""How long it takes to see attention after the forward pass, on this machine:

    python benchmarks/looking.py [--layers 12] [--heads 12] [--width 768] [--tokens 512] [--rounds 5]

A model of random weights reads a text of random tokens once; what is timed comes after: thumbnails of every layer and head with
what each head is like, as a figure and as the JSON that a browser is sent; one head in full; entropy; rollout. The picture of all
heads is promised within 2 seconds for 12 layers and 512 tokens.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch

from firth.figures.figure import Figure
from firth.inspection.attention import attention
from firth.inspection.inputs import Reading
from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise

PROMISED = 2.0  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("layers", 12), ("heads", 12), ("width", 768), ("tokens", 512), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    threads = torch.get_num_threads()
    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}, {threads} threads, float32")
    print(f"{given.layers} layers, {given.heads} heads, {given.tokens} tokens; median of {given.rounds}\n")
    reading = read(given.layers, given.heads, given.width, given.tokens)
    timed("forward pass alone", reading.run, given.rounds)
    seen = attention(reading)
    overview = timed("every head, reduced, as a figure", lambda: as_json(seen.overview()), given.rounds)
    timed("one head in full, as a figure", lambda: as_json(seen.figure(0, 0)), given.rounds)
    timed("entropy of every head", seen.entropy, given.rounds)
    timed("rollout through all layers", seen.rollout, given.rounds)
    print(f"\nthe first picture: {overview:.2f} s, promised {PROMISED} s: {'kept' if overview <= PROMISED else 'MISSED'}")


def read(layers: int, heads: int, width: int, tokens: int) -> Reading:
    config = TransformerConfig(kind="transformer", width=width, depth=layers, heads=heads, context=tokens)
    network = language_model(config, 1000)
    generator = torch.Generator().manual_seed(0)
    initialise(network, generator)
    token_1T = torch.randint(1000, (1, tokens), generator=generator)
    return Reading(network, lambda: network.hidden(token_1T), tuple(f"t{n}" for n in token_1T[0].tolist()))


def as_json(figure: Figure) -> str:
    """What a browser is sent."""
    text: str = figure.plot.to_json()
    return text


def timed(what: str, work: Callable[[], object], rounds: int) -> float:
    """Seconds by the clock, after a first time that does not count; those of the processor tell how busy the machine was."""
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    clock, processor = (statistics.median(column) for column in zip(*taken[1:], strict=True))
    print(f"{what:<36}{clock:8.3f} s by the clock{processor:10.3f} s of processor")
    return clock


if __name__ == "__main__":
    main()
