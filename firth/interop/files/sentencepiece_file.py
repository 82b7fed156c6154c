"""SentencePiece vocabularies (*.spm, spiece.model): unigram models, whose pieces and scores become a tokenizer.json.

The file is a protocol buffer. We read its pieces (field 1, with text 1, score 2 and type 3), the kind of model (3 in field 2) and
the table that normalises characters (2 in field 3). OPUS-MT has such a file for each side, and vocab.json numbers all pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from firth.errors import CorruptFile, DataError

_UNKNOWN, _CONTROL = 2, 3  # types of pieces
_UNIGRAM = 1
_BELOW = 50.0  # score of a piece that is only in the other side's file, below the lowest: used where nothing else fits


@dataclass(frozen=True)
class SentencePiece:
    pieces: tuple[tuple[str, float, int], ...]  # text, score, type
    characters: bytes  # the table of normalisation; empty: none

    @classmethod
    def of(cls, path: Path) -> SentencePiece:
        try:
            return cls._read(path)
        except (ValueError, IndexError, struct.error) as error:
            raise CorruptFile(f"{path} is not a SentencePiece model, or damaged. Download it again.") from error
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from error

    @classmethod
    def _read(cls, path: Path) -> SentencePiece:
        pieces, characters, kind = [], b"", _UNIGRAM
        for number, value in _fields(path.read_bytes()):
            if number == 1:
                part = dict(_fields(value))
                score = struct.unpack("<f", part[2])[0] if 2 in part else 0.0
                pieces.append((bytes(part[1]).decode(), score, int.from_bytes(part.get(3, b"\x01"), "little")))
            elif number == 2:
                kind = int.from_bytes(dict(_fields(value)).get(3, b"\x01"), "little")
            elif number == 3:
                characters = bytes(dict(_fields(value)).get(2, b""))
        if not pieces:
            raise ValueError("no pieces")
        if kind != _UNIGRAM:
            raise DataError(
                f"{path} is not a unigram model, the only kind of SentencePiece that firth reads. Use a tokenizer.json."
            )
        return cls(tuple(pieces), characters)

    def tokenizer(self, names: Mapping[int, str], unknown: str, end: str) -> tokenizers.Tokenizer:
        """With the tokens `names` by id; `end` goes behind every text."""
        score = {text: value for text, value, kind in self.pieces if kind not in (_UNKNOWN, _CONTROL)}
        lowest = min(score.values(), default=0.0) - _BELOW
        size = 1 + max(names)
        table = [(names.get(id, f"<unused {id}>"), score.get(names.get(id, ""), lowest)) for id in range(size)]
        ids = {name: id for id, (name, _) in enumerate(table)}
        for name in (unknown, end):
            if name not in ids:
                raise DataError(f"the vocabulary has no token {name}. Download vocab.json again.")
        tokenizer = tokenizers.Tokenizer(models.Unigram(table, ids[unknown], byte_fallback=False))
        steps = [normalizers.Precompiled(self.characters)] if self.characters else []
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
        tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always", split=True)
        tokenizer.post_processor = processors.TemplateProcessing(f"$A {end}", f"$A {end} $B {end}", [(end, ids[end])])
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in (unknown, end, "<pad>") if name in ids])
        codes = [name for name in ids if name.startswith(">>") and name.endswith("<<")]  # of the language to translate to
        tokenizer.add_tokens([AddedToken(name, normalized=False, rstrip=True) for name in codes])
        return tokenizer


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each field of a message; numbers as little-endian bytes."""
    place = 0
    while place < len(data):
        key, place = _number(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _number(data, place)
            yield number, value.to_bytes(10, "little")
            continue
        length = {1: 8, 5: 4}.get(wire, -1)
        if wire == 2:
            length, place = _number(data, place)
        if length < 0 or place + length > len(data):
            raise ValueError("a field ends beyond the end of the file")
        yield number, data[place : place + length]
        place += length


def _number(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
        if shift > 63:
            raise ValueError("a number is too long")
