"""Text ↔ token ids. A `Tokenizer` is saved as a Hugging Face tokenizer.json, and everything about it is in there."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import tokenizers

from firth.errors import DataError
from firth.text.config import Kind, TokenizerConfig
from firth.text.readers.records import Piece
from firth.text.tokenizers import byte_pairs, characters, unigrams, word_pieces, words
from firth.text.tokenizers.special_tokens import EOS, UNKNOWN, Ids


class Tokenizer:
    """The public face of all kinds; train one with `Tokenizer.train`, or reload it with `Tokenizer.from_json`."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._json = tokenizer.to_str()
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        table = json.loads(self._json)
        self.kind: Kind = _kind(table)
        self.vocab = len(vocabulary)
        self.dtype: type[np.unsignedinteger[Any]] = np.uint16 if self.vocab <= 1 << 16 else np.uint32
        self._codec: characters.Characters | words.Words | word_pieces.WordPieces | byte_pairs.BytePairs
        match self.kind:
            case "char":
                self._codec = characters.Characters(vocabulary)
            case "word":
                self._codec = words.Words(vocabulary, lower=words.lowers(table["normalizer"]))
            case "wordpiece":
                self._codec = word_pieces.WordPieces(tokenizer, vocabulary)
            case "bpe" | "unigram":
                self._codec = byte_pairs.BytePairs(tokenizer, vocabulary)

    @classmethod
    def train(
        cls,
        config: TokenizerConfig,
        pieces: Iterable[Piece],
        documents: int,
        counts: Mapping[str, int] | None = None,
        also: Sequence[str] = (),
    ) -> Tokenizer:
        """Learn a vocabulary. With more than one document there is an <eos> to end each; words have one anyway, per line.

        `counts` of the characters spare a "char" tokenizer from reading `pieces`; `also` are words that a "word" tokenizer has
        behind those it found, as far as config.vocab allows.
        """
        match config.kind:
            case "char":
                return cls(characters.build(config, _counted(pieces) if counts is None else counts, eos=documents > 1))
            case "word":
                return cls(words.build(config, pieces, also))
            case "bpe":
                return cls(byte_pairs.build(config, pieces, eos=documents > 1))
            case "wordpiece":
                return cls(word_pieces.build(config, pieces, eos=documents > 1))
            case "unigram":
                return cls(unigrams.build(config, pieces, eos=documents > 1))

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        try:
            tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # tokenizers raises a bare Exception
            raise DataError(f"not a tokenizer.json ({error}); expected one that firth saved") from error
        return cls(tokenizer)

    def to_json(self) -> str:
        return self._json

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._json.encode()).hexdigest()

    @property
    def eos(self) -> int | None:
        return self._codec.eos

    @property
    def unknown(self) -> int | None:
        """The id of <unk>, if there is one."""
        return self._codec.unknown

    @property
    def lossless(self) -> bool:
        """decode(encode(x)) == x for every x that can be encoded at all."""
        return self._codec.lossless

    def encode(self, text: str) -> Ids:
        """Ids in the smallest unsigned type. A character that was never seen is a DataError, unless there is <unk>."""
        return self._codec.encode(text).astype(self.dtype)

    def encode_pieces(self, pieces: Iterable[Piece]) -> Iterator[tuple[Ids, int]]:
        """The ids of each piece, <eos> at the end of each document included, and its number of characters."""
        for piece in pieces:
            ids = self.encode(piece.text)
            # for words a newline already was the <eos>; only a last line without one is still open
            if piece.ends_document and self.eos is not None and not (self.kind == "word" and piece.text.endswith("\n")):
                ids = np.append(ids, self.dtype(self.eos))
            yield ids, len(piece.text)

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """<eos> reads as a newline; an unknown character as U+FFFD, an unknown word as <unk>."""
        return self._codec.decode(np.asarray(ids, np.int64))

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        """`decode` for ids that come one at a time: each text as soon as it is certain, "" while a character is incomplete."""
        return self._codec.spell(ids)

    def token(self, id: int) -> str:
        """One token as a person would write it: its text, <eos>, <unk>, or <0xE2> for bytes that are no text by themselves."""
        return EOS if id == self.eos else UNKNOWN if id == self.unknown else self._codec.token(id)

    def unseen(self, text: str) -> list[str]:
        """The distinct characters or words of `text` that are not in the vocabulary, sorted; none for bpe and unigram."""
        return self._codec.unseen(text)


def _kind(table: Mapping[str, Any]) -> Kind:
    """Told by the structure: which model, and how its pre-tokenizer splits."""
    before = table["pre_tokenizer"] or {}
    shape = (table["model"]["type"], before.get("type"), before.get("behavior"))
    kinds: dict[tuple[str | None, ...], Kind] = {
        ("WordLevel", "Split", "Isolated"): "char",
        ("WordLevel", "Split", "Removed"): "word",
        ("BPE", "Sequence", None): "bpe",
        ("WordPiece", "Sequence", None): "wordpiece",
        ("Unigram", "Sequence", None): "unigram",
    }
    if shape not in kinds:
        raise DataError(f"this tokenizer.json is not one of firth's ({', '.join(get_args(Kind))}): its model is {shape[0]}")
    return kinds[shape]


def _counted(pieces: Iterable[Piece]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(piece.text)
    return counts
