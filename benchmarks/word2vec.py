"""word2vec on wiki8, firth beside gensim, and fastText where it is installed, speed beside quality:

    FIRTH_DATA=… python benchmarks/word2vec.py                                  5 epochs of 16.9 M words, 6 seeds: half an hour
    FIRTH_DATA=… python benchmarks/word2vec.py --keep runs.jsonl                the same, and goes on where it was broken off
    FIRTH_DATA=… python benchmarks/word2vec.py --words 2000000 --epochs 1 --rounds 3 --quick        speed alone
    FIRTH_DATA=… python benchmarks/word2vec.py --model cbow --loss hs --dim 300 --seeds 3
    FIRTH_DATA=… python benchmarks/word2vec.py --only firth --faithful          word2vec's code beside its papers
    FIRTH_DATA=… python benchmarks/word2vec.py --only firth --device cuda --dim 128   on a GPU; without --device beside it
    python benchmarks/word2vec.py --shapes                                      GFLOP/s by dimension and negatives

All train with the same settings on the same lines of 10,000 words, taking turns: rounds × seeds of each. gensim gets them as
lists in memory; with --gensim file it reads the file by itself, which may be faster and has given it worse vectors. fastText
(pip install fasttext-wheel) reads the file, too, without pieces of words (minn = maxn = 0); it takes no seed, and what a training
of no epochs takes is taken off its time. words/s = words of the text × epochs / seconds after the vocabulary has been counted
and, for firth, the kernel compiled; the median over the runs. Quality is measured by firth's evaluation for all: Spearman's ρ on
WordSim-353, MEN and SimLex-999, and the share of analogies answered; the mean over seeds, its standard error, and each seed's
value. Seeds differ by about a point in SimLex, so fewer than six do not tell half a point.

With --keep each run is written down when it is finished and is not run again; several commands at once may share the file. It
knows a run by its settings, its seed, gensim's version, and the sources of firth.vectors. Speeds are then those of the hour they
were measured in.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import lzma
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import firth.vectors
from firth.vectors.config import VectorsConfig
from firth.vectors.encoding import encoded
from firth.vectors.evaluation import analogies, read_pairs, read_questions, similarity
from firth.vectors.kernels import kernel_for, output_rows, zeros
from firth.vectors.trainer import fit, prepare_training, trained_vectors
from firth.vectors.wordvectors import WordVectors

LINE = 10_000  # words
SEEDS = 6  # see above
SIMILARITY = {"WS-353": "EN-WS-353-ALL.txt", "MEN": "EN-MEN-TR-3k.txt", "SimLex": "EN-SIMLEX-999.txt"}
Run = tuple[float, WordVectors, str]  # words/s, vectors, what else there is to say
PEERS = {"gensim": "gensim", "fasttext": "fasttext-wheel"}  # and the packages they are in
Figures = dict[str, Any]  # of a run: "rate", "remark" and "scores"


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
    parser.add_argument("--seeds", type=int, default=None, help=f"so many; {SEEDS} unless --quick")
    parser.add_argument("--first-seed", type=int, default=1, help="of those: to run some of them elsewhere, or at the same time")
    parser.add_argument("--rounds", type=int, default=1, help="so many runs of each for every seed")
    parser.add_argument("--quick", action="store_true", help="speed alone")
    parser.add_argument("--only", choices=["firth", "gensim", "fasttext"], help="one side alone")
    parser.add_argument("--keep", type=Path, help="a file to which finished runs are written, and from which they are taken")
    parser.add_argument("--one-thread", action="store_true", help="firth with one thread as well, in turn")
    parser.add_argument("--faithful", action="store_true", help="firth with the steps of the papers as well, in turn")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of firth")
    parser.add_argument("--gensim", choices=["sentences", "file"], default="sentences", help="what gensim reads (see above)")
    parser.add_argument("--shapes", action="store_true", help="GFLOP/s of the kernel over dimensions and negatives")
    arguments = parser.parse_args()
    if arguments.seeds is None:
        arguments.seeds = 1 if arguments.quick else SEEDS
    return arguments


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
    if find_spec("fasttext") is not None:
        sides["fasttext"] = lambda seed: fasttext_run(arguments, path, words)
    if arguments.only:
        sides = {arguments.only: sides[arguments.only]}
    if arguments.faithful:
        sides["firth, faithful"] = lambda seed: firth_run(arguments, path, seed, arguments.threads, faithful=True)
    if arguments.one_thread:
        sides["firth, 1 thread"] = lambda seed: firth_run(arguments, path, seed, 1)
    runs: dict[str, list[Figures]] = {name: [] for name in sides}
    kept, seeds = Kept(arguments), range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for number, (seed, turn) in enumerate(itertools.product(seeds, range(arguments.rounds))):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            figures = kept.find(name, seed, turn, words)
            if figures is None:
                rate, vectors, remark = sides[name](seed)
                asked = not arguments.quick and turn == 0
                figures = {"rate": rate, "remark": remark, "scores": scores(vectors, data) if asked else None}
                kept.add(name, seed, turn, words, figures)
            runs[name].append(figures)
            print(f"seed {seed}, {name}: {figures['rate'] / 1e3:,.0f} k words/s{figures['remark']}", flush=True)
    report(runs, arguments.threads)


class Kept:
    """Finished runs in a file of JSON lines; without a file, none."""

    OF_ALL_RUNS = ("seeds", "first_seed", "rounds", "only", "one_thread", "faithful", "keep", "shapes")  # these change no run

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.path: Path | None = arguments.keep
        self.settings = {name: value for name, value in vars(arguments).items() if name not in self.OF_ALL_RUNS}
        self.firth = source_of_vectors()  # now: the sources may change while this runs
        self.peers = {name: version(package) for name, package in PEERS.items() if find_spec(name) is not None}
        lines = self.path.read_text().splitlines() if self.path is not None and self.path.exists() else []
        self.runs: list[Figures] = [json.loads(line) for line in lines]

    def find(self, *run: Any) -> Figures | None:
        facts = self.facts(*run)
        return next((known["figures"] for known in self.runs if known["run"] == facts), None)

    def add(self, name: str, seed: int, turn: int, words: int, figures: Figures) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"run": self.facts(name, seed, turn, words), "figures": figures}) + "\n")

    def facts(self, name: str, seed: int, turn: int, words: int) -> dict[str, Any]:
        code = self.peers.get(name, self.firth)
        return {**self.settings, "name": name, "seed": seed, "turn": turn, "words": words, "code": code}


def source_of_vectors() -> str:
    folder = Path(firth.vectors.__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))).hexdigest()[:16]


def firth_run(arguments: argparse.Namespace, path: Path, seed: int, threads: int, *, faithful: bool = False) -> Run:
    config = VectorsConfig(
        model=arguments.model,
        loss=arguments.loss,
        dim=arguments.dim,
        negatives=arguments.negatives,
        epochs=arguments.epochs,
        threads=threads,
        seed=seed,
        device=arguments.device,
        faithful=faithful,
    )
    text = encoded(str(path), min_count=config.min_count)
    training = prepare_training(text, config)
    if arguments.device == "cuda":
        prepare_training(text, config).kernel(text.ids, text.ends, 0, 1, 0.0, 0.0, 0)  # Triton compiles at the first call
    began = time.perf_counter()
    reports = list(fit(training))
    training.fetch()
    seconds = time.perf_counter() - began
    losses = ", ".join(f"{loss:.4f}" for loss in reports[-1].losses)
    return text.raw_words * config.epochs / seconds, trained_vectors(training, "finished"), f"; loss by epoch {losses}"


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


def fasttext_run(arguments: argparse.Namespace, path: Path, words: int) -> Run:
    import fasttext

    settings = {
        "model": arguments.model,
        "loss": arguments.loss,
        "dim": arguments.dim,
        "neg": arguments.negatives,
        "thread": arguments.threads,
        "ws": 5,
        "minCount": 5,
        "t": 1e-3,
        "lr": 0.025,
        "minn": 0,
        "maxn": 0,
        "verbose": 0,
    }
    times = []
    for epochs in (0, arguments.epochs):
        began = time.perf_counter()
        model = fasttext.train_unsupervised(str(path), epoch=epochs, **settings)
        times.append(time.perf_counter() - began)
    return words * arguments.epochs / (times[1] - times[0]), WordVectors(model.get_words(), model.get_input_matrix()), ""


def scores(vectors: WordVectors, data: Path) -> dict[str, float]:
    found = {}
    for name, file in SIMILARITY.items():
        found[name] = similarity(vectors, read_pairs(data / "wordsim" / file), name).spearman or 0.0
    asked = analogies(vectors, read_questions(data / "analogy" / "questions-words.txt"))
    parts = {"analogy": asked.total, "semantic": asked.semantic, "syntactic": asked.syntactic}
    return found | {name: section.accuracy or 0.0 for name, section in parts.items()}


def report(runs: dict[str, list[Figures]], threads: int) -> None:
    print()
    speed = {name: [figures["rate"] for figures in of_side] for name, of_side in runs.items()}
    for name, rates in speed.items():
        spread = f"({min(rates) / 1e3:,.0f} – {max(rates) / 1e3:,.0f})"
        print(f"{name:16}{statistics.median(rates) / 1e3:9,.0f} k words/s {spread}")
    medians = {name: statistics.median(rates) for name, rates in speed.items()}
    for peer in PEERS:
        if peer in medians and "firth" in medians:
            print(f"firth / {peer}: {medians['firth'] / medians[peer]:.1f} ×")
    if "firth, 1 thread" in medians:
        print(f"{threads} threads / one: {medians['firth'] / medians['firth, 1 thread']:.2f} ×")
    by_side = {name: columns([run["scores"] for run in of_side if run["scores"]]) for name, of_side in runs.items()}
    for name, row in by_side.items():
        cells = [
            f"{key} {statistics.mean(values):.4f} ± {error(values):.4f} ({' '.join(f'{x:.3f}' for x in values)})"
            for key, values in row.items()
        ]
        if cells:
            print(f"{name:16}" + " · ".join(cells))
    for peer in PEERS:
        if by_side.get(peer) and by_side.get("firth"):
            ours, theirs = by_side["firth"], by_side[peer]
            print(f"firth − {peer}, in points: " + " · ".join(difference(key, ours, theirs) for key in ours))


def columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def error(values: list[float]) -> float:
    """The standard error of the mean."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def difference(key: str, ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> str:
    points = 100 * (statistics.mean(ours[key]) - statistics.mean(theirs[key]))
    return f"{key} {points:+.2f} ± {100 * (error(ours[key]) ** 2 + error(theirs[key]) ** 2) ** 0.5:.2f}"


def shapes() -> None:
    """6·d·T FLOP for a pair: a product, a gradient and its two uses. A vocabulary that stays in the cache, one thread."""
    print("skip-gram, window 5, a vocabulary of 300, one thread; the best of 200 short calls, in turns")
    dims, numbers = (50, 64, 99, 101, 128, 150, 200, 300, 400), (2, 3, 4, 7, 10, 15, 20)
    tried = [(100, 5), *((dim, 5) for dim in dims), *((100, number) for number in numbers)]
    turns = [[gflops(*shape) for shape in tried] for _ in range(5)]  # a moment in which the machine is busy meets all of them
    best = [max(rates) for rates in zip(*turns, strict=True)]
    for (dim, negatives), rate in zip(tried, best, strict=True):
        print(f"d {dim:3}, {negatives:2} negatives: {rate:5.1f} GFLOP/s, {rate / best[0]:.2f} of d 100 with 5")


def gflops(dim: int, negatives: int, V: int = 300, words: int = 5_000) -> float:
    """The best of 40 calls, each shorter than a turn that other processes may take."""
    config = VectorsConfig(dim=dim, negatives=negatives, sample=0, threads=1)
    rng = np.random.default_rng(0)
    input_Vd = zeros(V, dim)
    input_Vd += rng.uniform(-0.5 / dim, 0.5 / dim, (V, dim))
    kernel = kernel_for(config, np.full(V, 100), input_Vd, zeros(output_rows(config, V), dim))
    ids, ends, best = rng.integers(0, V, words).astype(np.uint32), np.array([words]), float("inf")
    for _ in range(40):
        began = time.perf_counter()
        counts = kernel(ids, ends, 0, 1, 0.025, 0.025, 1)
        best = min(best, time.perf_counter() - began)
    return 6 * dim * (negatives + 1) * counts.terms / best / 1e9


if __name__ == "__main__":
    main()
