"""Counting the words of a text, firth beside gensim's build_vocab, on the same file and machine:

    python benchmarks/vocabulary.py wiki8            a text file, or a named data set
    python benchmarks/vocabulary.py wiki8 --rounds 5 --workers 1 2 16

firth's side reads the text for the first time: it hashes it, counts the words, chooses the vocabulary and writes the text down
as ids, ready to train on, with each number of threads in turn; gensim's side counts and chooses only. All take turns, each in a
process of its own; seconds are those of the work, imports and firth's compilation left out. Memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIN_COUNT = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[len(os.sched_getaffinity(0))], help="threads of firth")
    parser.add_argument("--only", choices=["firth"], help="without the peer")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(gensim(given.corpus) if given.side == "gensim" else firth(given.corpus, int(given.side))))
        return
    path = str(located(given.corpus))
    sides = [*([] if given.only else ["gensim"]), *map(str, given.workers)]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as cache:
        for number in range(given.rounds):
            for side in list(found)[:: 1 if number % 2 else -1]:
                for known in [*Path(cache).glob("words-*"), *Path(cache).glob("scan-*")]:
                    known.unlink()  # nothing remembered from the round before, apart from compiled kernels
                run = subprocess.run(
                    [sys.executable, __file__, path, "--side", side],
                    check=True,
                    capture_output=True,
                    text=True,
                    env=os.environ | {"FIRTH_CACHE": cache},
                )
                found[side].append(json.loads(run.stdout))
    assert len({reading["words"] for readings in found.values() for reading in readings}) == 1, "the two count differently"
    size = Path(path).stat().st_size / 1e6
    kept, raw = (found[sides[-1]][0][key] for key in ("words", "raw"))
    print(f"{size:.0f} MB, {raw:,.0f} words, {kept:,.0f} of which occur {MIN_COUNT} times; median of {given.rounds}")
    median = {side: statistics.median(reading["seconds"] for reading in readings) for side, readings in found.items()}
    for side, readings in found.items():
        peak = max(reading["memory"] for reading in readings)
        name = side if side == "gensim" else f"firth, {side} thread{'s' if side != '1' else ''}"
        times = f"  {median['gensim'] / median[side]:.1f} × gensim" if "gensim" in median else ""
        print(f"{name:18}{median[side]:6.2f} s  {raw / median[side] / 1e6:6.2f} M words/s  peak {peak:,.0f} MB{times}")


def located(corpus: str) -> Path:
    from firth.vectors.sentences import opened

    with opened(corpus) as found:
        return found.files[0]


def firth(corpus: str, workers: int) -> dict[str, float]:
    from firth.vectors.encoding import encoded

    encoded([[f"compile{n}" for n in range(100_000)]], min_count=1)  # and so many words that the table has to grow
    began = time.perf_counter()
    text = encoded(corpus, min_count=MIN_COUNT, workers=workers)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "words": len(text.vocabulary), "raw": text.raw_words, "memory": peak()}


def gensim(corpus: str) -> dict[str, float]:
    from gensim.models.word2vec import LineSentence, Word2Vec

    model = Word2Vec(min_count=MIN_COUNT, vector_size=1)  # the vectors are made here, too: one number each
    began = time.perf_counter()
    model.build_vocab(LineSentence(corpus))
    return {"seconds": time.perf_counter() - began, "words": len(model.wv), "memory": peak()}


def peak() -> float:
    """MB; ru_maxrss is in kilobytes on Linux and in bytes on macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


if __name__ == "__main__":
    main()
