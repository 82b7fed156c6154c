"""What a recipe says about text: the tables `[data]` and `[tokenizer]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError

Format = Literal["auto", "txt", "jsonl", "csv", "tsv"]
Kind = Literal["char", "word", "bpe"]

BYTES = 256  # byte-level BPE starts from every byte, so that it can spell any text


@dataclass(frozen=True)
class DataConfig:
    """Where the text comes from: exactly one of `name`, `path` and `text`."""

    name: Literal["docs"] | None = None  # a built-in corpus
    path: str | None = None  # file, folder, glob, or "-" for standard input
    text: str | None = None  # the text itself
    valid: float = 0.1  # share of the characters, at the end, held out where there is no valid_path; 0 holds out nothing
    valid_path: str | None = None
    test_path: str | None = None
    format: Format = "auto"  # auto: by the name of each file
    field: str = "text"  # the key (jsonl) or column (csv, tsv) that holds the text
    sha256: str | None = None  # of the text a run was trained on; filled in when the run starts

    def __post_init__(self) -> None:
        given = [key for key in ("name", "path", "text") if getattr(self, key) is not None]
        if len(given) != 1:
            what = " and ".join(f"data.{key}" for key in given) or "none of them"
            raise ConfigError(f"data takes exactly one of data.name, data.path and data.text; {what} given")
        if not 0 <= self.valid < 1:
            raise ConfigError(f"data.valid is {self.valid}; expected 0 ≤ valid < 1")
        if not self.field:
            raise ConfigError('data.field is ""; expected the name of a key or column')


@dataclass(frozen=True)
class TokenizerConfig:
    kind: Kind = "char"
    vocab: int | None = None  # largest vocabulary, <eos> and <unk> included; None: every character or word, 4096 for bpe
    min_count: int = 1  # characters and words (bpe: pairs) seen less often are left out

    def __post_init__(self) -> None:
        least = BYTES + 1 if self.kind == "bpe" else 3
        if self.vocab is not None and self.vocab < least:
            why = " (256 bytes and <eos>)" if self.kind == "bpe" else " (<eos>, <unk> and something to tell apart from them)"
            raise ConfigError(f"tokenizer.vocab is {self.vocab}; expected at least {least} for {self.kind}{why}")
        if self.min_count < 1:
            raise ConfigError(f"tokenizer.min_count is {self.min_count}; expected at least 1")
