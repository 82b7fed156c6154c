"""Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): encodes any text without loss."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, pre_tokenizers, trainers

from firth.errors import DataError
from firth.text.config import TokenizerConfig
from firth.text.tokenizers import subwords
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import EOS, Ids
from firth.text.tokenizers.spelling import Spelling


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    """256 bytes, then the merges in the order they were learned, then <eos>.

    Newlines are split off one by one before GPT-2's pattern is applied: a token that contains one contains nothing else, so
    a text may be cut after any newline.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE())
    split_into_bytes(tokenizer)
    trainer = trainers.BpeTrainer(
        vocab_size=(config.vocab or subwords.VOCAB) - text.eos,
        min_frequency=max(config.min_count, 2),  # a merge of a pair that occurs once is useless
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(subwords.sliced(text.pieces), trainer)
    # as a special token of the trainer, text could contain it
    return subwords.with_entries(tokenizer, [EOS]) if text.eos else tokenizer


def split_into_bytes(tokenizer: tokenizers.Tokenizer) -> None:
    """Lines, then GPT-2's words, then bytes; and the decoder for them."""
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()


class BytePairs:
    """Tokens that are strings of bytes, chosen by merges here and by likelihood in unigrams.py."""

    lossless = True
    unknown = None

    def __init__(self, tokenizer: tokenizers.Tokenizer, vocabulary: Mapping[str, int]) -> None:
        self.eos = vocabulary.get(EOS)
        self._tokenizer = tokenizer
        of = byte_of()
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        try:
            self._bytes_of = [b"\n" if name == EOS else bytes(of[mark] for mark in name) for name in names]
        except KeyError as error:
            raise DataError(f"tokenizer.json is damaged: {error} in one of its tokens is not a byte. Restore it.") from error

    def encode(self, text: str) -> Ids:
        return subwords.encoded(self._tokenizer, text)

    def encode_chunks(self, chunks: bytes) -> tuple[Ids, NDArray[np.int64]]:
        return subwords.encoded_chunks(self._tokenizer, chunks)

    def decode(self, ids: Ids) -> str:
        """Bytes that are not UTF-8, such as half of a character, become U+FFFD."""
        return b"".join([self._bytes_of[id] for id in ids.tolist()]).decode("utf-8", "replace")

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for id in ids:
            yield decoder.decode(self._bytes_of[id])
        yield decoder.decode(b"", final=True)

    def token(self, id: int) -> str:
        raw = self._bytes_of[id]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in raw)

    def unseen(self, text: str) -> list[str]:
        return []

    def spelling(self, special: Collection[int]) -> Spelling:
        return Spelling(tuple(b"" if id in special else raw for id, raw in enumerate(self._bytes_of)))


@functools.cache
def byte_of() -> dict[str, int]:
    """GPT-2's spelling of the 256 bytes: printable Latin-1 stands for itself, the others are U+0100 and following."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def codec(tokenizer: tokenizers.Tokenizer) -> BytePairs:
    return BytePairs(tokenizer, tokenizer.get_vocab())


BPE = TokenizerKind("bpe", ("BPE", "Sequence", None), "in the next token", build, codec)
