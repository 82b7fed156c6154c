"""Text to token ids, firth's bulk encoder beside Hugging Face's `tokenizers`, MB/s of one core and of all:

    FIRTH_DATA=… python benchmarks/encoding.py                  the first 50 MB of wiki8
    python benchmarks/encoding.py --text my.txt --megabytes 20 --rounds 5

The vocabulary is learned from the first 5 MB. `tokenizers` gets the same tokenizer.json and the same text, in slices of 16,384
characters, through encode_batch_fast, and its ids are turned into an array; its tokens must be firth's. Per core: processor time
of one thread. All cores: wall-clock time with as many threads as there are cores. Each side starts with nothing remembered; the
median of the rounds, in turns.
"""

from __future__ import annotations

import argparse
import lzma
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np
import tokenizers

from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece, batches, pieces_of_text, slices
from firth.text.threads import cores, in_order
from firth.text.tokenizers.tokenizer import Tokenizer

SLICE = 1 << 14  # characters given to `tokenizers` at a time
KINDS = {"char": None, "word": 30_000, "bpe": 8_192, "wordpiece": 8_192}  # with the sizes of their vocabularies
Batches = list[list[Piece]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a UTF-8 file instead of wiki8")
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--only", choices=["firth"], help="without the peer")
    given = parser.parse_args()
    text = read(given.text, given.megabytes)
    size = len(text.encode()) / 1e6
    print(f"{size:.0f} MB, {cores()} cores; MB/s, median of {given.rounds}")
    for kind in given.kinds:
        learned = list(pieces_of_text(text[:5_000_000]))
        tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocab=KINDS[kind]), learned, 1)
        compare(kind, tokenizer, list(batches(pieces_of_text(text))), size, given.rounds, peer=not given.only)


def read(path: Path | None, megabytes: int) -> str:
    if path is None:
        with lzma.open(Path(os.environ["FIRTH_DATA"]) / "wiki8" / "wiki8.xz") as file:
            return file.read(megabytes * 1_000_000).decode()
    return path.read_bytes()[: megabytes * 1_000_000].decode(errors="ignore")


def compare(kind: str, tokenizer: Tokenizer, text: Batches, size: float, rounds: int, *, peer: bool) -> None:
    tokenizer.piece_encoders()()([Piece("a b", True)])  # compiles
    sides: dict[str, Callable[[], float]] = {
        "firth, one core": lambda: firth_core(tokenizer, text),
        "firth, all cores": lambda: firth_all(tokenizer, text),
    }
    if peer and kind not in ("char", "word"):  # firth's char and word tokenizers have no counterpart of practical speed there
        slow = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        expected = tokenizer.piece_encoders()()(text[0])
        assert np.array_equal(hugging_face(slow, text[:1]), expected), "the two tokenise differently"
        sides["tokenizers, one core"] = lambda: hugging_face_core(slow, text)
        sides["tokenizers, all cores"] = lambda: hugging_face_all(slow, text)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            seconds[name].append(sides[name]())
    print(f"{kind:10}" + " · ".join(f"{name} {size / statistics.median(values):.1f}" for name, values in seconds.items()))


def firth_core(tokenizer: Tokenizer, text: Batches) -> float:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encode, began = tokenizer.piece_encoders()(), time.process_time()
    for batch in text:
        encode(batch)
    return time.process_time() - began


def firth_all(tokenizer: Tokenizer, text: Batches) -> float:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from firth.text.batches.token_files import _Encoders

    encoders, began = _Encoders(tokenizer, 1 << 30), time.perf_counter()
    for _ in in_order(encoders, text, cores()):
        pass
    return time.perf_counter() - began


def hugging_face(slow: tokenizers.Tokenizer, text: Batches) -> np.ndarray:
    parts = [part for batch in text for piece in batch for part in slices(piece.text, SLICE)]
    return np.concatenate([np.array(encoding.ids, np.int32) for encoding in slow.encode_batch_fast(parts)])


def hugging_face_core(slow: tokenizers.Tokenizer, text: Batches) -> float:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    began = time.process_time()
    hugging_face(slow, text[:10])  # it remembers no more than a few thousand words: the rest takes as long
    return (time.process_time() - began) * len(text) / len(text[:10])


def hugging_face_all(slow: tokenizers.Tokenizer, text: Batches) -> float:
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    began = time.perf_counter()
    hugging_face(slow, text[:20])
    return (time.perf_counter() - began) * len(text) / len(text[:20])


if __name__ == "__main__":
    main()
