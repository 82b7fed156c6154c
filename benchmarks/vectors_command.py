"""The whole of `firth vectors train`, from the text file to the saved vectors, beside gensim and word2vec's C program:

    FIRTH_DATA=… python benchmarks/vectors_command.py                                  wiki8, 1 epoch, d 100
    FIRTH_DATA=… python benchmarks/vectors_command.py --epochs 5 --dim 300 --device cuda
    FIRTH_DATA=… python benchmarks/vectors_command.py --word2vec ~/word2vec/bin/word2vec

Each side is one process: start, imports, reading, counting, training and saving are all part of its seconds. firth runs twice,
the first time with an empty cache (apart from compiled kernels), the second time with the words in the cache. gensim reads the
file by itself (corpus_file). The C program is part of this only where --word2vec names it.
"""

from __future__ import annotations

import argparse
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from firth.text.threads import cores

GENSIM = """
import sys; from gensim.models import Word2Vec
path, out, dim, epochs, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
model = Word2Vec(corpus_file=path, vector_size=dim, epochs=epochs, workers=threads, sg=1, negative=5, window=5, min_count=5)
model.wv.save_word2vec_format(out, binary=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of firth")
    parser.add_argument("--word2vec", help="the C program")
    parser.add_argument("--only", choices=["firth"], help="without the peers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "wiki8.txt"
        with lzma.open(Path(os.environ["FIRTH_DATA"]) / "wiki8" / "wiki8.xz") as packed:
            words = packed.read().split()
        text.write_bytes(b"\n".join(b" ".join(words[at : at + 1000]) for at in range(0, len(words), 1000)))
        os.utime(text, (1, 1))  # as old as a text usually is: firth remembers nothing of a file that is still being written
        print(f"{len(words):,} words, {given.epochs} epochs, d {given.dim}, {given.threads} threads")
        for side, seconds in measured(given, text, folder):
            rate = len(words) * given.epochs / seconds / 1e6
            print(f"{side:24}{seconds:7.1f} s  {rate:6.2f} M words/s", flush=True)


def measured(given: argparse.Namespace, text: Path, folder: Path) -> Iterator[tuple[str, float]]:
    cache = folder / "cache"
    train = [sys.executable, "-m", "firth", "vectors", "train"]
    settings = ["--dim", given.dim, "--epochs", given.epochs, "--threads", given.threads, "--device", given.device]
    environment = os.environ | {"FIRTH_CACHE": str(cache)}
    little = folder / "little.txt"
    little.write_bytes(text.read_bytes()[:3_000_000])
    timed([*train, little, "--out", folder / "0.firth", *settings], environment)  # compiles the kernels
    for number, side in enumerate(("firth, first time", "firth, again"), start=1):
        yield side, timed([*train, text, "--out", folder / f"{number}.firth", *settings], environment)
    if given.only:
        return
    sizes = [given.dim, given.epochs, given.threads]
    yield "gensim", timed([sys.executable, "-c", GENSIM, text, folder / "gensim.bin", *sizes], environment)
    if given.word2vec and shutil.which(given.word2vec):
        command = f"{given.word2vec} -train {text} -output {folder}/c.bin -binary 1 -cbow 0 -negative 5 -window 5 -sample 1e-3"
        more = f"-min-count 5 -size {given.dim} -iter {given.epochs} -threads {given.threads}"
        yield "word2vec (C)", timed([*command.split(), *more.split()], environment)


def timed(command: list[object], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
