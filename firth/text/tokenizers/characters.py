"""One token per character."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers

from firth.errors import DataError, setting
from firth.text.config import TokenizerConfig
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import EOS, START, UNKNOWN, Ids
from firth.text.tokenizers.spelling import Spelling, one_of

ONE_CHARACTER = r"[\s\S]"  # "." would not match a newline
_REPLACEMENT = 0xFFFD  # how an unknown character is shown
_NOT_8_BIT = 255  # instead of an id that is larger, or missing


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    """Ids in code point order, then <eos>, <unk> and <start>. <unk> exists only if something is left out, or may be
    (min_count > 1)."""
    counts = _counted(text) if text.counts is None else text.counts
    eos = text.eos
    kept = [character for character in counts if counts[character] >= config.min_count]
    unknown = len(kept) < len(counts) or config.min_count > 1
    special = eos + bool(config.start)
    if config.vocab is not None and len(kept) + special + unknown > config.vocab:
        unknown = True
        kept.sort(key=lambda character: (-counts[character], character))
        del kept[max(1, config.vocab - special - 1) :]
    names = [*sorted(kept), *([EOS] if eos else []), *([UNKNOWN] if unknown else []), *([START] if config.start else [])]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(ONE_CHARACTER), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


class Characters:
    """Encodes by looking up code points in a table, some 50 times faster than the equivalent tokenizer.json."""

    encode_chunks = None

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.eos, self.unknown, self.start = vocabulary.get(EOS), vocabulary.get(UNKNOWN), vocabulary.get(START)
        self._id_of = np.full(sys.maxunicode + 1, -1 if self.unknown is None else self.unknown, np.int32)
        self._code_of = np.full(len(vocabulary), _REPLACEMENT, np.uint32)
        self._known = {name for name in vocabulary if len(name) == 1}
        for character in self._known:
            self._id_of[ord(character)] = vocabulary[character]
            self._code_of[vocabulary[character]] = ord(character)
        if self.eos is not None:
            self._code_of[self.eos] = ord("\n")
        # 8-bit ids of ASCII, _NOT_8_BIT for those that are not in the vocabulary
        self._ascii = bytes(id if 0 <= id < _NOT_8_BIT else _NOT_8_BIT for id in self._id_of[:256].tolist())

    @property
    def lossless(self) -> bool:
        return self.unknown is None

    def encode(self, text: str) -> Ids:
        if text.isascii():  # translate() is five times as fast as indexing
            short = text.encode().translate(self._ascii)
            if _NOT_8_BIT not in short:
                return np.frombuffer(short, np.uint8)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        ids = self._id_of[codes]
        if self.unknown is None and len(ids) and ids.min() < 0:
            raise DataError(_never_seen(self.unseen(text)))
        return ids

    def decode(self, ids: Ids) -> str:
        """<start> is no part of the text."""
        if self.start is not None:
            ids = np.asarray(ids)
            ids = ids[ids != self.start]
        return self._code_of[ids].tobytes().decode("utf-32-le")

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        return ("" if id == self.start else chr(self._code_of[id]) for id in ids)

    def token(self, id: int) -> str:
        return chr(self._code_of[id])

    def unseen(self, text: str) -> list[str]:
        return sorted(set(text) - self._known)

    def spelling(self, special: Collection[int]) -> Spelling:
        names = ["" if id in special else chr(code) for id, code in enumerate(self._code_of)]
        return Spelling(tuple(name.encode() for name in names), f"{one_of(self._known)}*")


def _never_seen(characters: Sequence[str], shown: int = 10) -> str:
    listed = " ".join(repr(character) for character in characters[:shown])
    more = f" and {len(characters) - shown} more" if len(characters) > shown else ""
    return (
        f"the text has characters that are not in the vocabulary: {listed}{more}. Remove them, or train with "
        f"{setting('tokenizer.kind', 'bpe')} (encodes any text) or "
        f"{setting('tokenizer.min_count', '2')} (reads rare characters as <unk>)."
    )


def _counted(text: TrainingText) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for piece in text.pieces:
        counts.update(piece.text)
    return counts


CHAR = TokenizerKind(
    "char", ("WordLevel", "Split", "Isolated"), "tokens", build, lambda tokenizer: Characters(tokenizer.get_vocab())
)
