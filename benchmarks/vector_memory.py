"""What training word vectors takes in memory beside the two matrices:

    FIRTH_DATA=… python benchmarks/vector_memory.py [--dim 100] [--loss ns] [--model skipgram] [--threads 2]

A process of its own trains for an epoch, first on a little text, so that everything is imported and compiled, and then on wiki8,
which has been encoded before; a thread looks every few milliseconds at the memory that is the process's own (RssAnon: without the
mapped text, without libraries). "beside" is the most that was taken since the little text, less the matrices: while training, and
until the finished vectors are there, with their words as Python's strings.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import threading
from pathlib import Path

from word2vec import write_lines

from firth.vectors.config import VectorsConfig
from firth.vectors.encoding import encoded
from firth.vectors.trainer import fit, prepare_training, train, trained_vectors

LIMIT = 0.15
MB = 1e6


class Peak:
    """The most memory of this process's own at any look, in bytes."""

    def __enter__(self) -> Peak:
        self.most, self.done = 0, threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.most = max(self.most, own_memory())

    def _look(self) -> None:
        while not self.done.wait(0.003):
            self.most = max(self.most, own_memory())


def own_memory() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--loss", choices=["ns", "hs"], default="ns")
    parser.add_argument("--model", choices=["skipgram", "cbow"], default="skipgram")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", type=int, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "corpus.txt", Path(folder) / "small.txt"
        for file, words in ((path, arguments.words), (small, 100_000)):
            write_lines(Path(os.environ["FIRTH_DATA"]) / "wiki8" / "wiki8.xz", file, words)
        V = len(encoded(str(path), min_count=VectorsConfig().min_count).vocabulary)
        print(f"{V:,} words, d {arguments.dim}, {arguments.model} {arguments.loss}, {arguments.threads} threads")
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(arguments, str(path), str(small), V))
        process.start()
        process.join()


def measure(arguments: argparse.Namespace, path: str, small: str, V: int) -> None:
    given = {"loss": arguments.loss, "model": arguments.model, "threads": arguments.threads, "epochs": 1}
    train(small, dim=1, **given)
    before, matrices = own_memory(), 2 * V * arguments.dim * 4
    with Peak() as training:
        started = prepare_training(encoded(path, min_count=VectorsConfig().min_count), VectorsConfig(dim=arguments.dim, **given))
        for _ in fit(started):
            pass
    with Peak() as finished:
        vectors = trained_vectors(started, "finished")
    assert len(vectors.words) == V
    print(f"matrices {matrices / MB:.1f} MB")
    for when, peak in (("while training", training.most), ("with the finished vectors", max(training.most, finished.most))):
        beside = peak - before - matrices
        print(f"beside, {when}: {beside / MB:.1f} MB, {beside / matrices:.1%} (limit {LIMIT:.0%})")


if __name__ == "__main__":
    main()
