"""A language so plain that a model learns it in a second: the digits of a number → their names; as the files people have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from runs import trained_once
from small_models import randomise
from torch import Tensor

from firth.api import compose, train_recipe
from firth.config import Table
from firth.models import ConditionalDecoder, seq2seq
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, Seq2SeqConfig, TransformerSeq2SeqConfig

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS = [str(n) for n in (*range(10, 100, 3), *range(100, 1000, 7), *range(1000, 10_000, 53))]

MODELS: dict[str, Table] = {
    "rnnenc": {"kind": "gru", "attention": "none", "width": 24},
    "rnnsearch": {"kind": "gru", "width": 24},
    "transformer": {"kind": "transformer", "width": 32, "depth": 2, "heads": 2},
}


def said(number: str) -> str:
    return " ".join(NAMES[int(digit)] for digit in number.replace(" ", ""))


def spaced(number: str) -> str:
    return " ".join(number)


def pairs_of(numbers: list[str] = NUMBERS) -> list[tuple[str, str]]:
    return [(spaced(number), said(number)) for number in numbers]


def write_pairs(path: Path, pairs: list[tuple[str, str]] | None = None, header: tuple[str, str] = ("source", "target")) -> Path:
    """tsv or jsonl, by the suffix."""
    given = pairs_of() if pairs is None else pairs
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(dict(zip(header, pair, strict=True))) + "\n" for pair in given)
    else:
        text = "".join("\t".join(row) + "\n" for row in [header, *given])
    path.write_text(text, encoding="utf-8")
    return path


def write_sides(folder: Path, pairs: list[tuple[str, str]] | None = None) -> tuple[Path, Path]:
    """Two files, line n of one the translation of line n of the other."""
    source, target = folder / "pairs.digits", folder / "pairs.names"
    for path, side in zip((source, target), zip(*(pairs or pairs_of()), strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return source, target


def pair_table(path: Path, model: str = "rnnsearch", *, tokenizer: Table | None = None, **training: Any) -> Table:
    """120 steps on words, which RNNsearch needs, unless told otherwise."""
    usual = {"steps": 120, "batch_tokens": 512, "context": 24, "rate": 0.015, "device": "cpu", "evaluate_every": 60}
    return {
        "data": {"path": str(path), "valid": 0.1},
        "tokenizer": {"kind": "word"} if tokenizer is None else tokenizer,
        "model": {"family": "seq2seq"} | MODELS[model],
        "objective": {"kind": "translation"},
        "training": usual | training,
        "decoding": {"tokens": 12},
    }


def trained_on_numbers() -> Path:
    """A run that knows the language."""
    return trained_once("numbers", _train) / "run"


def _train(folder: Path) -> None:
    train_recipe(compose(pair_table(write_pairs(folder / "numbers.tsv"))), folder / "run")


CONFIGS: dict[str, Seq2SeqConfig] = {
    "rnnenc": RecurrentSeq2SeqConfig(kind="lstm", attention="none", width=9, depth=2, reverse=True),
    "rnnsearch": RecurrentSeq2SeqConfig(kind="gru", width=9),
    "luong": RecurrentSeq2SeqConfig(kind="lstm", width=9, depth=2, decoder="luong", input_feeding=True),
    "transformer": TransformerSeq2SeqConfig(kind="transformer", width=16, depth=2, heads=2, kv_heads=1, context=32),
}


def random_translator(
    name: str, source_vocab: int, vocab: int, dtype: torch.dtype = torch.float64, seed: int = 0
) -> ConditionalDecoder:
    """Weights large enough that its probabilities are far from equal."""
    model = seq2seq(CONFIGS[name], source_vocab, vocab)
    return randomise(model, seed=seed).to(dtype).eval()


def random_pairs(source_vocab: int, vocab: int, *lengths: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources of these lengths, padded, their lengths, and targets of five tokens."""
    generator = torch.Generator().manual_seed(1)
    source_BS = torch.randint(1, source_vocab, (len(lengths), max(lengths)), generator=generator)
    length_B = torch.tensor(lengths)
    source_BS[torch.arange(max(lengths)) >= length_B[:, None]] = 0
    return source_BS, length_B, torch.randint(0, vocab, (len(lengths), 5), generator=generator)
