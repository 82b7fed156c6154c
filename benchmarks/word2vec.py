"""word2vec on wiki8, firth beside gensim, speed beside quality:

    FIRTH_DATA=… python benchmarks/word2vec.py                                  5 epochs of 16.9 M words: minutes
    FIRTH_DATA=… python benchmarks/word2vec.py --words 2000000 --epochs 1 --rounds 3 --quick        speed alone
    FIRTH_DATA=… python benchmarks/word2vec.py --model cbow --loss hs --dim 300 --seeds 3
    FIRTH_DATA=… python benchmarks/word2vec.py --only firth --device cuda --dim 128   on a GPU; without --device beside it
    python benchmarks/word2vec.py --shapes                                      GFLOP/s by dimension and negatives

Both train with the same settings on the same lines of 10,000 words, taking turns: rounds × seeds of each. gensim gets them as
lists in memory; with --gensim file it reads the file by itself, which may be faster and has given it worse vectors. words/s =
words of the text × epochs / seconds after the vocabulary has been counted and, for firth, the kernel compiled; the median over
the runs. Quality is measured by firth's evaluation for both: Spearman's ρ on WordSim-353, MEN and SimLex-999, and the share of
analogies answered; the mean over seeds, with each seed's value.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from firth.vectors.config import VectorsConfig
from firth.vectors.encoding import encoded
from firth.vectors.evaluation import analogies, read_pairs, read_questions, similarity
from firth.vectors.kernels import kernel_for, output_rows
from firth.vectors.trainer import artefact, begin, fit
from firth.vectors.wordvectors import WordVectors

LINE = 10_000  # words
SIMILARITY = {"WS-353": "EN-WS-353-ALL.txt", "MEN": "EN-MEN-TR-3k.txt", "SimLex": "EN-SIMLEX-999.txt"}
Run = tuple[float, WordVectors, str]  # words/s, vectors, what else there is to say


def main() -> None:
    arguments = parsed()
    if arguments.shapes:
        shapes()
        return
    data = Path(os.environ["FIRTH_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        words = write_lines(data / "wiki8" / "wiki8.xz", path, arguments.words)
        print(
            f"{words:,} words, {arguments.epochs} epochs, {arguments.model} {arguments.loss}, d {arguments.dim}, window 5",
            end=", ",
        )
        print(f"{arguments.negatives} negatives, sample 1e-3, {arguments.threads} threads\n")
        compare(arguments, path, words, data)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="word2vec: firth beside gensim")
    parser.add_argument("--model", choices=["skipgram", "cbow"], default="skipgram")
    parser.add_argument("--loss", choices=["ns", "hs"], default="ns")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", type=int, default=None, help="only so many words from the start of the text")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="so many runs of each for every seed")
    parser.add_argument("--quick", action="store_true", help="speed alone")
    parser.add_argument("--only", choices=["firth", "gensim"], help="one side alone")
    parser.add_argument("--one-thread", action="store_true", help="firth with one thread as well, in turn")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of firth")
    parser.add_argument("--gensim", choices=["sentences", "file"], default="sentences", help="what gensim reads (see above)")
    parser.add_argument("--shapes", action="store_true", help="GFLOP/s of the kernel over dimensions and negatives")
    return parser.parse_args()


def write_lines(source: Path, path: Path, most: int | None) -> int:
    with lzma.open(source, "rt") as text:
        words = text.read().split()[:most]
    with path.open("w") as file:
        for start in range(0, len(words), LINE):
            file.write(" ".join(words[start : start + LINE]) + "\n")
    return len(words)


def compare(arguments: argparse.Namespace, path: Path, words: int, data: Path) -> None:
    sides: dict[str, Callable[[int], Run]] = {
        "firth": lambda seed: firth_run(arguments, path, seed, arguments.threads),
        "gensim": lambda seed: gensim_run(arguments, path, words, seed),
    }
    if arguments.only:
        sides = {arguments.only: sides[arguments.only]}
    if arguments.one_thread:
        sides["firth, 1 thread"] = lambda seed: firth_run(arguments, path, seed, 1)
    speed: dict[str, list[float]] = {name: [] for name in sides}
    quality: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number, (seed, turn) in enumerate(itertools.product(range(1, arguments.seeds + 1), range(arguments.rounds))):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            rate, vectors, remark = sides[name](seed)
            speed[name].append(rate)
            print(f"seed {seed}, {name}: {rate / 1e3:,.0f} k words/s{remark}", flush=True)
            if not arguments.quick and turn == 0:
                quality[name].append(scores(vectors, data))
    report(speed, quality)


def firth_run(arguments: argparse.Namespace, path: Path, seed: int, threads: int) -> Run:
    config = VectorsConfig(
        model=arguments.model,
        loss=arguments.loss,
        dim=arguments.dim,
        negatives=arguments.negatives,
        epochs=arguments.epochs,
        threads=threads,
        seed=seed,
        device=arguments.device,
    )
    text = encoded(str(path), min_count=config.min_count)
    training = begin(text, config)
    if arguments.device == "cuda":
        begin(text, config).kernel(text.ids, text.ends, 0, 1, 0.0, 0.0, 0)  # Triton compiles at the first call
    began = time.perf_counter()
    reports = list(fit(training))
    training.fetch()
    seconds = time.perf_counter() - began
    losses = ", ".join(f"{loss:.4f}" for loss in reports[-1].losses)
    return text.raw_words * config.epochs / seconds, artefact(training, "finished"), f"; loss by epoch {losses}"


def gensim_run(arguments: argparse.Namespace, path: Path, words: int, seed: int) -> Run:
    from gensim.models import Word2Vec

    hierarchical = arguments.loss == "hs"
    model = Word2Vec(
        vector_size=arguments.dim,
        window=5,
        min_count=5,
        sample=1e-3,
        alpha=0.025,
        min_alpha=1e-4,
        sg=int(arguments.model == "skipgram"),
        hs=int(hierarchical),
        negative=0 if hierarchical else arguments.negatives,
        workers=arguments.threads,
        seed=seed,
    )
    sentences = [line.split() for line in path.read_text().splitlines()]
    source = {"corpus_file": str(path)} if arguments.gensim == "file" else {"corpus_iterable": sentences}
    model.build_vocab(**source)
    began = time.perf_counter()
    model.train(**source, total_words=model.corpus_total_words, total_examples=model.corpus_count, epochs=arguments.epochs)
    seconds = time.perf_counter() - began
    return words * arguments.epochs / seconds, WordVectors(model.wv.index_to_key, model.wv.vectors), ""


def scores(vectors: WordVectors, data: Path) -> dict[str, float]:
    found = {}
    for name, file in SIMILARITY.items():
        found[name] = similarity(vectors, read_pairs(data / "wordsim" / file), name).spearman or 0.0
    asked = analogies(vectors, read_questions(data / "analogy" / "questions-words.txt"))
    parts = {"analogy": asked.total, "semantic": asked.semantic, "syntactic": asked.syntactic}
    return found | {name: section.accuracy or 0.0 for name, section in parts.items()}


def report(speed: dict[str, list[float]], quality: dict[str, list[dict[str, float]]]) -> None:
    print()
    for name, rates in speed.items():
        spread = f"({min(rates) / 1e3:,.0f} – {max(rates) / 1e3:,.0f})"
        print(f"{name:16}{statistics.median(rates) / 1e3:9,.0f} k words/s {spread}")
    medians = {name: statistics.median(rates) for name, rates in speed.items()}
    if "gensim" in medians and "firth" in medians:
        print(f"firth / gensim: {medians['firth'] / medians['gensim']:.1f} ×")
    if "firth, 1 thread" in medians:
        print(f"two threads / one: {medians['firth'] / medians['firth, 1 thread']:.2f} ×")
    for name, by_seed in quality.items():
        if by_seed:
            row = {key: [found[key] for found in by_seed] for key in by_seed[0]}
            cells = [
                f"{key} {statistics.mean(values):.4f} ({' '.join(f'{x:.3f}' for x in values)})" for key, values in row.items()
            ]
            print(f"{name:16}" + " · ".join(cells))


def shapes() -> None:
    """6·d·T FLOP for a pair: a product, a gradient and its two uses. A vocabulary that stays in the cache, one thread."""
    print("skip-gram, window 5, 300 words, one thread; the best of 40 calls")
    tuned = gflops(100, 5)
    dims, numbers = (50, 64, 99, 101, 128, 150, 200, 300, 400), (2, 3, 4, 7, 10, 15, 20)
    for dim, negatives in [(100, 5), *((dim, 5) for dim in dims), *((100, number) for number in numbers)]:
        rate = gflops(dim, negatives)
        print(f"d {dim:3}, {negatives:2} negatives: {rate:5.1f} GFLOP/s, {rate / tuned:.2f} of d 100 with 5")


def gflops(dim: int, negatives: int, V: int = 300, words: int = LINE) -> float:
    config = VectorsConfig(dim=dim, negatives=negatives, sample=0)
    rng = np.random.default_rng(0)
    input_Vd = rng.uniform(-0.5 / dim, 0.5 / dim, (V, dim)).astype(np.float32)
    kernel = kernel_for(config, np.full(V, 100), input_Vd, np.zeros((output_rows(config, V), dim), np.float32))
    ids, ends, best = rng.integers(0, V, words).astype(np.uint32), np.array([words]), float("inf")
    for _ in range(40):
        began = time.perf_counter()
        counts = kernel(ids, ends, 0, 1, 0.025, 0.025, 1)
        best = min(best, time.perf_counter() - began)
    return 6 * dim * (negatives + 1) * counts.terms / best / 1e9


if __name__ == "__main__":
    main()
