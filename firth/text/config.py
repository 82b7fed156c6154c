"""What a recipe says about text: the tables `[data]` and `[tokenizer]`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError

Name = Literal[
    "docs",
    "tinyshakespeare",
    "ptb",
    "wikitext-2",
    "text8",
    "enwik8",
    "wiki8",
    "sst2",
    "dates",
    "multi30k",
    "tatoeba-en-nl",
    "scan",
    "prompts",
    "docstrings",
    "ud-english-ewt",
    "conll2003",
    "swaps",
    "linear",
]
Format = Literal["auto", "txt", "jsonl", "csv", "tsv", "parquet", "conll", "conllu"]
Kind = Literal["char", "word", "bpe", "wordpiece", "unigram"]

BYTES = 256  # bpe and unigram have every byte, so that they can spell any text


@dataclass(frozen=True)
class DataConfig:
    """Where the text comes from: exactly one of `name`, `path` and `text`."""

    name: Name | None = None  # a built-in corpus, or running text of the catalog: got before with `firth data get NAME`
    path: str | None = None  # file, folder, glob, or "-" for standard input
    text: str | None = None  # the text itself
    valid: float = 0.1  # share of the characters, at the end, held out where there is no valid_path; 0 holds out nothing
    # (for classification and sentence pairs: of the examples, once they are shuffled, because such files are often sorted)
    valid_path: str | None = None
    test_path: str | None = None
    format: Format = "auto"  # auto: by the name of each file
    field: str = "text"  # the key (jsonl) or column (csv, tsv, parquet) that holds the text
    label: str = "label"  # the key or column that holds the label, for classification
    columns: tuple[str, ...] | None = None  # names of the columns of a csv or tsv without a first line that names them
    labels: tuple[str, ...] | None = None  # the classes, by number; all that there are, filled in when the run starts
    # Tagging: the columns of CoNLL and CoNLL-U, by number from 1 on; those of CoNLL-U also by name, as "xpos" or "deprel".
    word: int | str | None = None  # None: the first of CoNLL, "form" of CoNLL-U
    column: int | str | None = None  # that of the tags; None: the last of CoNLL, "upos" of CoNLL-U
    # Sentence pairs: two files, line by line, or one file with both sides in it.
    target_path: str | None = None  # the translations of the lines of `path`; None: both sides are in `path`
    valid_target_path: str | None = None
    test_target_path: str | None = None
    source: str | None = None  # the key or column ("source"), or the side of a named set (its first: "en" of multi30k)
    target: str | None = None  # the same for the other side
    split: str | None = None  # of a set that can be split in several ways, as "simple" and "length" of scan; None: the first
    lower: bool = False  # both sides are read in lower case
    locales: tuple[str, ...] | None = None  # of the dates, as "fr" or "en_GB"; None: some thirty
    count: int = 20_000  # of the dates to train on; a tenth as many to validate and to test, as of prompts, which have no end
    # Tasks to be learned in context: what a prompt is made of.
    examples: int = 16  # before the last question
    letters: int = 8  # swaps: that words are made of
    word_length: int = 4  # swaps: letters of a word
    dimensions: int = 5  # linear: of x
    noise: float = 0.0  # linear: standard deviation of what is added to y
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
        if not self.label:
            raise ConfigError('data.label is ""; expected the name of a key or column')
        if self.labels is not None and len(set(self.labels)) < max(2, len(self.labels)):
            raise ConfigError(f"data.labels is {list(self.labels)}; expected two or more, each once")
        for key in ("word", "column"):
            place = getattr(self, key)
            if place is not None and (place == "" or (isinstance(place, int) and place < 1)):
                raise ConfigError(f"data.{key} is {place!r}; expected the number of a column, from 1 on, or a name of CoNLL-U")
        if self.word is not None and self.word == self.column:
            raise ConfigError(f"data.word and data.column are both {self.word!r}; expected the columns of words and of tags")
        self._check_pairs()

    def _check_pairs(self) -> None:
        for part in ("", "valid_", "test_"):
            path, target = f"{part}path", f"{part}target_path"
            if getattr(self, target) is not None and getattr(self, path) is None:
                raise ConfigError(f"data.{target} is given, but data.{path} is not; expected both files, or neither")
        for key in ("source", "target"):
            if getattr(self, key) == "":
                raise ConfigError(f'data.{key} is ""; expected the name of a key, column or side')
        if self.source is not None and self.source == self.target:
            raise ConfigError(f'data.source and data.target are both "{self.source}"; expected two different sides')
        if self.locales is not None and not self.locales:
            raise ConfigError('data.locales is empty; expected some, such as ["fr", "en_GB"], or leave it out')
        if self.count < 10:
            raise ConfigError(f"data.count is {self.count}; expected at least 10")
        self._check_prompts()

    def _check_prompts(self) -> None:
        for key, least, most in (("examples", 1, None), ("letters", 3, 8), ("word_length", 1, None), ("dimensions", 1, None)):
            value = getattr(self, key)
            if value < least or (most is not None and value > most):
                expected = f"{least} to {most}" if most is not None else f"{least} or more"
                raise ConfigError(f"data.{key} is {value}; expected {expected}")
        if not 0 <= self.noise < math.inf:
            raise ConfigError(f"data.noise is {self.noise}; expected 0 or more")


@dataclass(frozen=True)
class TokenizerConfig:
    kind: Kind = "char"
    vocab: int | None = None  # largest vocabulary, <eos> and <unk> included; None: every character or word, else 4096
    lower: bool = False  # words only: read as if written in lower case
    min_count: int = 1  # characters and words (bpe, wordpiece: pairs, too) seen less often are left out
    joint: bool = False  # sentence pairs: one vocabulary, learned from both sides, instead of one for each
    vectors: bool = False  # words of texts with labels: those of model.vectors belong to the vocabulary, too

    def __post_init__(self) -> None:
        least, why = _smallest(self.kind)
        if self.vocab is not None and self.vocab < least:
            raise ConfigError(f"tokenizer.vocab is {self.vocab}; expected at least {least} for {self.kind} ({why})")
        if self.min_count < 1:
            raise ConfigError(f"tokenizer.min_count is {self.min_count}; expected at least 1")
        if self.lower and self.kind != "word":
            raise ConfigError(f'tokenizer.lower is true, but tokenizer.kind is "{self.kind}"; only words have a lower case here')
        if self.vectors and self.kind != "word":
            raise ConfigError(f'tokenizer.vectors is true, but tokenizer.kind is "{self.kind}"; only words have vectors here')
        if self.kind == "unigram" and self.min_count > 1:
            raise ConfigError(
                f"tokenizer.min_count is {self.min_count}; unigram keeps pieces by likelihood, not by count: leave it out"
            )


def _smallest(kind: Kind) -> tuple[int, str]:
    match kind:
        case "bpe" | "unigram":
            return BYTES + 1, "256 bytes and <eos>"
        case "wordpiece":
            return 5, "<eos>, <unk>, newline, and one character as the beginning and the rest of a word"
        case "char" | "word":
            return 3, "<eos>, <unk> and something to tell apart from them"
