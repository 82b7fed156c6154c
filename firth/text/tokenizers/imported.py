"""A tokenizer that came with a public model: its tokenizer.json, unchanged, does the work.

Two facts about it are not in that file: which token ends a text, and how many rows the embedding of its model has, some of which
may be padding without a token. `ImportedCodec` shows tokens as those of the other kinds: " cat" begins a word, "s" continues it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tokenizers

from firth.errors import ConfigError, DataError
from firth.text.config import TokenizerConfig
from firth.text.tokenizers.byte_pairs import byte_of
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.spelling import Spelling, spelled_by
from firth.text.tokenizers.tokenizer_json import refusing

Style = Literal["bytes", "metaspace", "word pieces", "plain"]  # how a vocabulary spells its tokens
ENDS = "eos_token_ids"  # in tokenizer_config.json of a run: all tokens at which generation ends, if there are several
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"  # SentencePiece's mark of a space
_TRIED = 200  # texts


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    raise ConfigError('tokenizer.kind = "imported" cannot be learned from text; it comes with a model. Use training.init.')


class ImportedCodec:
    """encode, decode and spell as the `tokenizers` package does, without the special tokens."""

    encode_chunks = None  # where its tokens may be cut is not known

    def __init__(self, tokenizer: tokenizers.Tokenizer, eos: int | None = None) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer, self.eos = tokenizer, eos
        table = json.loads(tokenizer.to_str())
        self.style = _style(table)
        self.unknown = _unknown(tokenizer, table)
        self.lossless = self.style == "bytes" and table["normalizer"] is None and not _adds_space(table["pre_tokenizer"])
        self._special = {token["id"]: token["content"] for token in table["added_tokens"]}
        self.special = {token["id"]: token["content"] for token in table["added_tokens"] if token["special"]}
        self._joins = table["decoder"] is not None and table["decoder"]["type"] == "ByteLevel"
        self._spelled: dict[int, str] = {}
        self.begin, self.end = _around(tokenizer)
        self.between = _between(tokenizer)

    def encode(self, text: str) -> Ids:
        try:
            with refusing("the tokenizer cannot encode this text"):
                return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int64)
        except DataError as error:
            if isinstance(error.__cause__, TypeError):
                raise DataError("the text holds half of a surrogate pair. Remove it.") from error
            raise

    def decode(self, ids: Ids) -> str:
        with refusing("the tokenizer cannot decode these tokens"):
            text: str = self._tokenizer.decode(ids.tolist(), skip_special_tokens=True)
            return text

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        """The difference that a token makes to the text of the few tokens before it, whose last may still be incomplete."""
        return self._spell_bytes(ids) if self._joins else self._spell_in_context(ids)

    def _spell_bytes(self, ids: Iterable[int]) -> Iterator[str]:
        """For tokenizers whose texts are the bytes of their tokens: only a character that is divided among tokens needs those
        before it."""
        held: list[int] = []
        for id in ids:
            held.append(id)
            text = self._spelled.get(id) if len(held) == 1 else None
            if text is None:
                text = self._text(held)
            if text.endswith("\ufffd"):
                yield ""
                continue
            if len(held) == 1:
                self._spelled[id] = text
            held.clear()
            yield text
        yield self._text(held)

    def _spell_in_context(self, ids: Iterable[int]) -> Iterator[str]:
        held: list[int] = []
        told = 0  # tokens of `held` whose text has been yielded
        for id in ids:
            held.append(id)
            before, now = self._text(held[:told]), self._text(held)
            if now.endswith("\ufffd"):
                yield ""
                continue
            yield now[len(before) :]
            held, told = held[told:], len(held) - told
        yield self._text(held)[len(self._text(held[:told])) :]

    def _text(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True) if ids else ""

    def token(self, id: int) -> str:
        name = self._tokenizer.id_to_token(id)
        if name is None:
            return f"<unused {id}>"
        return _shown(self._bytes(id, name)) or name

    def unseen(self, text: str) -> list[str]:
        if self.unknown is None:
            return []
        return sorted({word for word in text.split() if self.unknown in self.encode(word)})

    def spelling(self, special: Collection[int]) -> Spelling:
        """The bytes of each token. With the usual decoders, they spell the text except for a space at its beginning."""
        names = [self._tokenizer.id_to_token(id) for id in range(self._tokenizer.get_vocab_size())]
        never = {*special, *self.special}  # `decode` leaves them out
        tokens = tuple(b"" if name is None or id in never else self._bytes(id, name) for id, name in enumerate(names))
        drops_space = self._drops_space(tokens)
        if not self._joins_bytes(tokens, drops_space):
            raise ConfigError(
                "the tokenizer of this model does not join its tokens byte by byte, so its text cannot be constrained."
            )
        complete = {bytes([byte]) for byte in range(256)} <= set(tokens)
        return Spelling(tokens, None if complete else spelled_by(tokens), drops_space=drops_space)

    def _bytes(self, id: int, name: str) -> bytes:
        match "plain" if id in self._special else self.style:
            case "bytes" if all(mark in byte_of() for mark in name):
                return bytes(byte_of()[mark] for mark in name)
            case "metaspace":
                byte = _BYTE.fullmatch(name)
                return bytes.fromhex(byte[1]) if byte else name.replace(_SPACE, " ").encode()
            case "word pieces":
                return (name.removeprefix("##") if name.startswith("##") else f" {name}").encode()
        return name.encode()

    def _drops_space(self, tokens: Sequence[bytes]) -> bool:
        begins = next((id for id, token in enumerate(tokens) if token[:1] == b" " and token[1:].isalpha()), None)
        return begins is not None and not self._text([begins]).startswith(" ")

    def _joins_bytes(self, tokens: Sequence[bytes], drops_space: bool) -> bool:
        """True if `decode` agrees with the bytes, of texts of tokens drawn at random."""
        ids = [id for id, token in enumerate(tokens) if token and "\ufffd" not in token.decode("utf-8", "replace")]
        if not ids:
            return False
        draws = np.random.default_rng(0).choice(ids, (_TRIED, 4))
        for drawn in draws.tolist():
            text = b"".join(tokens[id] for id in drawn).decode("utf-8", "replace")
            if self._text(drawn) not in (text, text.removeprefix(" ") if drops_space else text):
                return False
        return True


def _around(tokenizer: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that this tokenizer puts before and after a text, such as <s> of LLaMA, or [CLS] and [SEP] of BERT."""
    if not tokenizer.num_special_tokens_to_add(False):
        return (), ()
    encoding = tokenizer.encode("a")
    special = encoding.special_tokens_mask
    first = next((place for place, mark in enumerate(special) if not mark), len(special))
    last = next((place for place in range(len(special), first, -1) if not special[place - 1]), len(special))
    return tuple(encoding.ids[:first]), tuple(encoding.ids[last:])


def _between(tokenizer: tokenizers.Tokenizer) -> tuple[int, ...]:
    """The special tokens that this tokenizer puts between two texts that are read as one, such as [SEP] of BERT."""
    if not tokenizer.num_special_tokens_to_add(True):
        return ()
    encoding = tokenizer.encode("a", "a")
    own = [place for place, mark in enumerate(encoding.special_tokens_mask) if not mark]
    return tuple(id for id, mark in list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))[own[0] : own[-1]] if mark)


def _parts(table: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    """The steps of a pre-tokenizer, normaliser or decoder, which may be a sequence."""
    if table is None:
        return []
    return [part for one in table.get(key, ()) for part in _parts(one, key)] if table["type"] == "Sequence" else [table]


def _style(table: Mapping[str, Any]) -> Style:
    for part in _parts(table["decoder"], "decoders"):
        match part["type"]:
            case "ByteLevel":
                return "bytes"
            case "Metaspace":
                return "metaspace"
            case "Replace" if part["pattern"].get("String") == _SPACE:
                return "metaspace"
            case "WordPiece":
                return "word pieces"
            case _:
                pass
    return "plain"


def _unknown(tokenizer: tokenizers.Tokenizer, table: Mapping[str, Any]) -> int | None:
    model = table["model"]
    if model["type"] == "Unigram":
        id: int | None = model.get("unk_id")
        return id
    name = model.get("unk_token")
    return None if not name or model.get("byte_fallback") else tokenizer.token_to_id(name)


def _adds_space(table: Mapping[str, Any] | None) -> bool:
    return any(part.get("add_prefix_space") for part in _parts(table, "pretokenizers"))


def _shown(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


# Never recognised by its structure, which may be that of any other kind: a run's recipe says that its tokenizer is imported.
IMPORTED = TokenizerKind("imported", ("", None, None), "in the next token", build, ImportedCodec)
