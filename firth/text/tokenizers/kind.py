"""The protocol of a kind of tokenizer. Each tokenizer module defines one `TokenizerKind`; `tokenizer.KINDS` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import tokenizers
from numpy.typing import NDArray

from firth.text.config import Kind, TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.spelling import Spelling

# of chunks other than "\n", in UTF-8, one per line: their ids, and the number of ids of each
EncodeChunks = Callable[[bytes], tuple[Ids, NDArray[np.int64]]]
Spaces = Literal["dropped", "in the next token", "tokens"]


class Codec(Protocol):
    """Text ↔ ids; see the members of Tokenizer."""

    @property
    def eos(self) -> int | None: ...
    @property
    def unknown(self) -> int | None: ...
    @property
    def lossless(self) -> bool: ...
    @property
    def encode_chunks(self) -> EncodeChunks | None: ...
    def encode(self, text: str) -> Ids: ...
    def decode(self, ids: Ids) -> str: ...
    def spell(self, ids: Iterable[int]) -> Iterator[str]: ...
    def token(self, id: int) -> str: ...
    def unseen(self, text: str) -> list[str]: ...
    def spelling(self, special: Collection[int]) -> Spelling: ...


@dataclass(frozen=True)
class TrainingText:
    """The text that a vocabulary is learned from."""

    pieces: Iterable[Piece]
    documents: int
    counts: Mapping[str, int] | None = None  # of the characters, if known: a "char" tokenizer then does not read `pieces`
    also: Sequence[str] = ()  # words to add to the vocabulary of a "word" tokenizer

    @property
    def eos(self) -> bool:
        """True if an <eos> is needed between documents."""
        return self.documents > 1


@dataclass(frozen=True)
class TokenizerKind:
    name: Kind
    structure: tuple[str, str | None, str | None]  # in tokenizer.json: model, pre-tokenizer and its behaviour
    spaces: Spaces  # the tokens that the space between two words becomes
    train: Callable[[TokenizerConfig, TrainingText], tokenizers.Tokenizer]
    codec: Callable[[tokenizers.Tokenizer], Codec]
    whole_words: bool = False  # every token is a word, and a newline is <eos>
