"""How byte-pair encoding makes tokens of a word: it merges pairs, those learned first before others (Sennrich et al. 2016)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers

from firth.errors import ConfigError, DataError
from firth.text.tokenizers.byte_pairs import byte_of
from firth.text.tokenizers.tokenizer import Tokenizer

Pair = tuple[str, str]


@dataclass(frozen=True)
class MergeNode:
    """A symbol: a byte or a character, or two others that were merged."""

    symbol: str  # as the tokenizer spells it
    text: str  # as it is read
    rank: int | None = None  # of the merge: 1 was learned first
    parts: tuple[MergeNode, ...] = ()


@dataclass(frozen=True)
class MergedWord:
    """A word, which is merged by itself, and its tokens."""

    text: str
    tokens: tuple[MergeNode, ...]


def merged_words(tokenizer: Tokenizer, text: str) -> tuple[MergedWord, ...]:
    """The words of a text, each with the merges that make its tokens."""
    told = json.loads(tokenizer.to_json())
    model = told["model"]
    if model["type"] != "BPE":
        raise ConfigError(f'the tokenizer has no merges: it is {model["type"]}, not BPE. Use one with tokenizer.kind = "bpe".')
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise ConfigError("the tokenizer marks the beginning or the end of words, which is not drawn. Use another one.")
    ranks: dict[Pair, int] = {}
    for rank, merge in enumerate(model["merges"], start=1):
        ranks[tuple(merge.split(" ") if isinstance(merge, str) else merge)] = rank  # older files have "a b"
    reading = byte_of() if '"ByteLevel"' in json.dumps(told.get("pre_tokenizer")) else {}
    found = tuple(_merged(word, ranks, reading) for word in _words(tokenizers.Tokenizer.from_str(tokenizer.to_json()), text))
    if not found:
        raise DataError(f"the text is {text!r}, which has no words. Give at least one.")
    return found


def _words(backend: tokenizers.Tokenizer, text: str) -> list[str]:
    """What is merged by itself."""
    if backend.normalizer is not None:
        text = backend.normalizer.normalize_str(text)
    if backend.pre_tokenizer is None:
        return [text] * bool(text)
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]


def _merged(word: str, ranks: Mapping[Pair, int], reading: Mapping[str, int]) -> MergedWord:
    nodes = [MergeNode(symbol, _read(symbol, reading)) for symbol in word]
    while len(nodes) > 1:
        pairs = [(ranks.get((one.symbol, other.symbol)), n) for n, (one, other) in enumerate(itertools.pairwise(nodes))]
        known = [(rank, n) for rank, n in pairs if rank is not None]
        if not known:
            break
        rank, n = min(known)
        symbol = nodes[n].symbol + nodes[n + 1].symbol
        nodes[n : n + 2] = [MergeNode(symbol, _read(symbol, reading), rank, (nodes[n], nodes[n + 1]))]
    return MergedWord(_read(word, reading), tuple(nodes))


def _read(symbol: str, reading: Mapping[str, Any]) -> str:
    """The letters of a symbol of bytes; those of a part of a character as its bytes."""
    if not reading or any(letter not in reading for letter in symbol):
        return symbol
    raw = bytes(reading[letter] for letter in symbol)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"{byte:02X}" for byte in raw)
