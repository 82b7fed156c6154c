"""Words separated by white space, and one <eos> per line: the convention of the Penn Treebank and WikiText.

A literal <eos> or <unk> in the text, as in those corpora, is that token.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from firth.text.config import TokenizerConfig
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import EOS, UNKNOWN, Ids
from firth.text.tokenizers.spelling import Spelling, quoted
from firth.text.tokenizers.tokenizer_json import required

if TYPE_CHECKING:
    from firth.text.lexicon import Lexicon

_END_OF_LINE = f" {EOS} "
_WHITE_SPACE = r"[\s\x1c-\x1f]+"  # like str.split(); \s alone lacks the four ASCII separators


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    """Ids by descending frequency, then alphabetically, then the new words of `text.also` in their order. <eos> and <unk> are
    always present; the count of <unk> is that of the words it replaces."""
    counts = Counter({EOS: 0, UNKNOWN: 0})
    for piece in text.pieces:
        counts.update(_words(_lowered(piece.text) if config.lower else piece.text))
        counts[EOS] += piece.ends_document and not piece.text.endswith("\n")
    ranked = sorted(counts.keys() - {EOS, UNKNOWN}, key=lambda word: (-counts[word], word))
    room = len(ranked) if config.vocab is None else config.vocab - 2
    kept = [word for word in ranked[:room] if counts[word] >= config.min_count]
    counts[UNKNOWN] += sum(counts[word] for word in ranked[len(kept) :])
    names = sorted((*kept, EOS, UNKNOWN), key=lambda word: (-counts[word], word))
    added = dict.fromkeys(_lowered(word) if config.lower else word for word in text.also)
    known = set(names)
    new = [word for word in added if word not in known and len(word.split()) == 1]
    names += new if config.vocab is None else new[: config.vocab - len(names)]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=UNKNOWN))
    end_of_line = normalizers.Replace("\n", _END_OF_LINE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), end_of_line]) if config.lower else end_of_line
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed")
    tokenizer.decoder = decoders.Sequence([decoders.WordPiece(prefix="\0", cleanup=False), decoders.Replace(_END_OF_LINE, "\n")])
    return tokenizer


class Words:
    """Encodes through a dict, several times faster than the equivalent tokenizer.json. Loses spacing and rare words."""

    lossless = False

    def __init__(self, vocabulary: Mapping[str, int], *, lower: bool = False) -> None:
        self.eos, self.unknown = required(vocabulary, EOS), required(vocabulary, UNKNOWN)
        self._id_of, self._lower = vocabulary, lower
        self._word_of = [word for word, _ in sorted(vocabulary.items(), key=lambda item: item[1])]

    def encode(self, text: str) -> Ids:
        words = self._read(text)
        return np.fromiter(map(self._id_of.get, words, repeat(self.unknown)), np.int32, len(words))

    def encode_chunks(self, chunks: bytes) -> tuple[Ids, NDArray[np.int64]]:
        """In compiled code, which other threads do not wait for."""
        from firth.text.lexicon import MISSING, Lexicon

        if self._lower:
            chunks = _lowered(chunks.decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
        lexicon = Lexicon()
        number_N, ends = lexicon.read(chunks + b"\n")
        id_W = self._lexicon.find(lexicon.words())
        return np.where(id_W == MISSING, self.unknown, id_W)[number_N], np.diff(ends, prepend=0)

    @functools.cached_property
    def _lexicon(self) -> Lexicon:
        """The vocabulary, each word under its id."""
        from firth.text.lexicon import lexicon_of  # numba takes a while to import

        return lexicon_of(self._word_of)

    def decode(self, ids: Ids) -> str:
        """The ids of "a b <eos> c" give "a b\\nc"."""
        return "".join(self.spell(ids.tolist()))

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        before = ""  # no space at the beginning of a line
        for id in ids:
            yield "\n" if id == self.eos else before + self._word_of[id]
            before = "" if id == self.eos else " "

    def token(self, id: int) -> str:
        return self._word_of[id]

    def unseen(self, text: str) -> list[str]:
        return sorted(word for word in set(self._read(text)) if word not in self._id_of)

    def spelling(self, special: Collection[int]) -> Spelling:
        """The spelling within one line, as <eos> is its end. With the space behind them, no word is the beginning of another."""
        words = ["" if id in special else f"{word} " for id, word in enumerate(self._word_of)]
        texts = "|".join(quoted(word) for word in words if word)
        return Spelling(tuple(word.encode() for word in words), f"({texts})*", suffix=" ")

    def _read(self, text: str) -> list[str]:
        return _words(_lowered(text) if self._lower else text)


def _lowers(normalizer: Mapping[str, Any] | None) -> bool:
    """True if the normalizer of a tokenizer.json lower-cases words."""
    return any(part["type"] == "Lowercase" for part in (normalizer or {}).get("normalizers", ()))


def _lowered(text: str) -> str:
    """Character by character, like tokenizer.json: str.lower() of a whole word would turn a final Σ into ς."""
    return "".join(map(str.lower, text)) if "Σ" in text else text.lower()


def _words(text: str) -> list[str]:
    return text.replace("\n", _END_OF_LINE).split()


def _codec(tokenizer: tokenizers.Tokenizer) -> Words:
    return Words(tokenizer.get_vocab(), lower=_lowers(json.loads(tokenizer.to_str())["normalizer"]))


WORD = TokenizerKind("word", ("WordLevel", "Split", "Removed"), "dropped", build, _codec, whole_words=True)
