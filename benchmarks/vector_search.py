"""Nearest neighbours among 400,000 words of width 300, firth beside gensim on the same vectors:

    python benchmarks/vector_search.py [--words 400000] [--width 300]

Promised: one query takes no longer than gensim's, and a batch of 1,000 has ten times its throughput. firth's vectors lie in
a `.firth` file and are mapped; gensim's are in memory. The two take turns; medians, and the spread of them. Also: how long the
file takes to open, to open and answer a first query, and that both find the same words. The vectors are random, which makes
no difference to an exact search.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import gensim
import numpy as np
from gensim.models import KeyedVectors

from firth.vectors import WordVectors, load

T = TypeVar("T")
SINGLE, BATCH, ROUNDS, TOP = 25, 1000, 3, 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=400_000)
    parser.add_argument("--width", type=int, default=300)
    asked = parser.parse_args()
    names = [f"word{n}" for n in range(asked.words)]
    vectors = np.random.default_rng(0).standard_normal((asked.words, asked.width), dtype=np.float32)
    theirs = KeyedVectors(asked.width)
    theirs.add_vectors(names, vectors)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.firth"
        WordVectors(names, vectors).save(path)
        opening, ours = timed(lambda: load(path))
        first, _ = timed(lambda: load(path).most_similar("word7", topn=TOP))
        print(f"{asked.words:,} words of width {asked.width}, top {TOP}; gensim {gensim.__version__}, numpy {np.__version__}")
        print(f"open {opening * 1e3:.0f} ms; open and answer a first query {first * 1e3:.0f} ms")
        compare(ours, theirs, names)


def compare(ours: WordVectors, theirs: KeyedVectors, names: list[str]) -> None:
    queries = [names[int(n)] for n in np.random.default_rng(1).integers(0, len(names), BATCH)]
    for ask in (ours.most_similar, theirs.most_similar):
        ask(queries[0], topn=TOP)  # norms are taken once
    firth, gensims, same = [], [], 0
    for word in queries[:SINGLE]:
        seconds, found = timed(lambda word=word: ours.most_similar(word, topn=TOP))
        firth.append(seconds)
        seconds, expected = timed(lambda word=word: theirs.most_similar(word, topn=TOP))
        gensims.append(seconds)
        same += [name for name, _ in found] == [name for name, _ in expected]
    print(f"one query   firth {told(firth)}   gensim {told(gensims)}   ratio {median(gensims) / median(firth):.1f}")
    print(f"            the same {TOP} words in the same order in {same} of {SINGLE}")
    batches = [timed(lambda: ours.most_similar_batch(queries, topn=TOP))[0] for _ in range(ROUNDS)]
    rate, single = BATCH / median(batches), 1 / median(gensims)
    print(
        f"{BATCH:,} queries firth {median(batches):.2f} s ({min(batches):.2f}–{max(batches):.2f}), {rate:,.0f} a second; "
        f"gensim has no batches: {single:,.1f} a second one by one   ratio {rate / single:.1f}"
    )


def timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def told(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e3:.1f} ms ({min(seconds) * 1e3:.1f}–{max(seconds) * 1e3:.1f})"


median = statistics.median

if __name__ == "__main__":
    main()
