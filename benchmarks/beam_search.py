"""Beam search of a translator on a CPU: sentences per second, beside CTranslate2 with the same model in the same run.

    pip install ctranslate2
    python benchmarks/beam_search.py RUN TEXT [--sentences 200] [--beam 5] [--batch 32] [--threads 2] [--rounds 3]
    python benchmarks/beam_search.py RUN TEXT --length 20   # for an untrained run: every translation has 20 tokens

RUN is a Transformer that translates, such as one of `firth train multi30k-en-de-transformer`. It is exported with
export_model(format="ctranslate2"), which keeps float32. Both sides translate the first sentences of TEXT, one per line, in
batches of the same size, shortest first, from token ids to token ids, by turns; the median of the rounds counts. --clock cpu
counts the processor's time instead of the clock's, for a machine that is busy with other things; then use --threads 1. Printed
first: how many of the best translations are the same; rounding and the rules for ending decide the others.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

GOAL = 0.7  # of CTranslate2's sentences per second, at least
Search = Callable[[list[list[int]]], list[tuple[int, ...]]]  # sources → the best translation of each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path, help="sentences to translate, one per line")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--tokens", type=int, default=60, help="at most, of a translation")
    parser.add_argument("--length", type=int, default=0, help="tokens of every translation; 0: until <eos>")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--profile", action="store_true", help="where firth's time goes")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    from firth.api import export_model, load

    run: Any = load(options.run, "cpu")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "ctranslate2"
        export_model(options.run, folder, format="ctranslate2")
        lines = options.text.read_text().splitlines()[: options.sentences]
        sources = sorted((ids.tolist() for ids in run._encoder().encode(lines).ids), key=len)
        theirs = peer(run, folder, options)
        ours = firth(run, options)
        print(f"CPU, {options.threads} threads ({options.clock} clock); torch {torch.__version__}; beam {options.beam}\n")
        for batch in options.batch:
            compare(ours, theirs, sources, batch, options)


def compare(ours: Search, theirs: Search, sources: list[list[int]], batch: int, options: argparse.Namespace) -> None:
    batches = [sources[n : n + batch] for n in range(0, len(sources), batch)]
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    seconds: dict[str, list[float]] = {"firth": [], "CTranslate2": []}
    found: dict[str, list[tuple[int, ...]]] = {}
    for n in range(options.rounds + 1):
        for name, search in (("firth", ours), ("CTranslate2", theirs)):
            began = clock()
            found[name] = [one for part in (batches[:1] if n == 0 else batches) for one in search(part)]
            if n:
                seconds[name].append(clock() - began)
    same = sum(a == b for a, b in zip(*found.values(), strict=True))
    print(f"batches of {batch}: {same} of {len(sources)} translations are the same")
    rates = {name: len(sources) / statistics.median(taken) for name, taken in seconds.items()}
    for name, rate in rates.items():
        tokens = sum(map(len, found[name])) * rate / len(sources)
        print(f"{name:<16}{rate:>8.1f} sentences/s{tokens:>10,.0f} tokens/s")
    print(f"ratio {rates['firth'] / rates['CTranslate2']:.2f} (goal {GOAL})\n", flush=True)
    if options.profile:
        profiler = cProfile.Profile()
        profiler.runcall(lambda: [ours(part) for part in batches])
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


def firth(run: Any, options: argparse.Namespace) -> Search:
    from firth.decoding.config import DecodingConfig
    from firth.decoding.search.beam import beam

    model, end = run.network, run.tokenizer.eos

    @torch.inference_mode()
    def search(sources: list[list[int]]) -> list[tuple[int, ...]]:
        length_B = torch.tensor([len(source) for source in sources])
        source_BS = torch.nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], batch_first=True)
        best = beam(
            Endless(model, end) if options.length else model,
            model.start(model.encode(source_BS, length_B)),
            torch.full((len(sources), 1), end),
            DecodingConfig(beam=options.beam, penalty=0.0),
            limits=[options.length or options.tokens] * len(sources),
            end=end,
            unfinished=True,
        )
        return [tuple(token for token in one[0].tokens if token != end) for one in best]

    return search


class Endless:
    """A model that never ends a text: its other probabilities sum to 1, as with CTranslate2's min_decoding_length."""

    def __init__(self, model: Any, end: int) -> None:
        self.model, self.end = model, end

    def step(self, token_BT: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        logits_BTV, state = self.model.step(token_BT, state)
        logits_BTV[..., self.end] = -torch.inf
        return logits_BTV, state


def peer(run: Any, folder: Path, options: argparse.Namespace) -> Search:
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=options.threads
    )
    names, of_source = run.tokenizer.names(), run.source_tokenizer.names()
    ids = {name: id for id, name in names.items()}
    longest = {"min_decoding_length": options.length} if options.length else {}

    def search(sources: list[list[int]]) -> list[tuple[int, ...]]:
        given = [[of_source[id] for id in source] for source in sources]
        found = translator.translate_batch(
            given,
            beam_size=options.beam,
            length_penalty=0.0,
            max_decoding_length=options.length or options.tokens,
            max_batch_size=0,
            **longest,
        )
        return [tuple(ids[name] for name in one.hypotheses[0]) for one in found]

    return search


if __name__ == "__main__":
    main()
