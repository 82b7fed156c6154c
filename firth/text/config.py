"""The tables `[data]`, one class per kind of data, and `[tokenizer]` of a recipe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar, get_args

from firth.config import renamed
from firth.errors import ConfigError, either
from firth.text.data_set import DATA_SETS, DataSet, Holds
from firth.text.readers.blank_records import Empty
from firth.text.readers.reader import READERS, Format

T = TypeVar("T")
Name = Annotated[str, DATA_SETS]
LearnedKind = Literal["char", "word", "bpe", "wordpiece", "unigram"]
Kind = Literal[LearnedKind, "imported"]

ChatSkill = Literal["opinions", "reviews", "dutch", "dates", "tags"]
CHAT_SKILLS: tuple[ChatSkill, ...] = get_args(ChatSkill)
TagScheme = Literal["iob2", "bioes"]
SceneKind = Literal["one", "count", "relation"]
SCENE_KINDS: tuple[SceneKind, ...] = get_args(SceneKind)
BYTES = 256  # bpe and unigram have every byte, so that they can spell any text


@dataclass(frozen=True)
class DataConfig:
    """The settings of every kind of data. Set exactly one of `name`, `path` and `text`; only an imported model, whose data are
    elsewhere, has none."""

    name: Name | None = None  # named data set: one that firth generates, or one that `firth data get NAME` has downloaded
    path: str | None = None  # training data: a file, a folder, a glob pattern, or "-" for standard input
    text: str | None = None  # the training text itself
    # share of the data to hold out if there is no validation file: the last part of running text, or random examples; 0: none
    valid: float = 0.1
    # validation data: a file, a folder or a glob pattern; if not set, the named data set's, or see `valid`
    valid_path: str | None = None
    test_path: str | None = None  # test data: a file, a folder or a glob pattern; if not set, the named data set's, if it has any
    format: Format = "auto"  # file format; "auto" decides by the suffix of each file
    field: str = "text"  # key (jsonl) or column (csv, tsv, parquet) that holds the text
    # column names of a csv or tsv file that has no header line; if not set, its first line is the header
    columns: tuple[str, ...] | None = None
    sha256: str | None = None  # fingerprint of the training data; training fills it in

    has_tags: ClassVar[bool] = False
    has_field: ClassVar[bool] = True  # whether `field` is read

    def __post_init__(self) -> None:
        given = self.given
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} are set. Set only one of data.name, data.path and data.text.")
        if not 0 <= self.valid < 1:
            raise ConfigError(f"data.valid is {self.valid}; expected 0 ≤ valid < 1")
        _expect_name("field", self.field)
        if self.field != "text" and not self.has_field:
            raise ConfigError(f'data.field is "{self.field}", which only applies to running text and classification. Remove it.')
        if self.format != "auto" and READERS[self.format].tagged and not self.has_tags:
            raise ConfigError(f'data.format = "{self.format}" only applies to tagging. Remove it.')
        for one in dataclasses.fields(self):
            if getattr(self, one.name) != one.default:
                self._expect_use(one.name)

    def _expect_use(self, key: str) -> None:
        """Refuse a setting that only concerns some sets that firth makes, where the data are others."""
        concerned = [one.name for one in DATA_SETS if key in one.uses]
        if concerned and self.name not in concerned:
            value = getattr(self, key)
            given = list(value) if isinstance(value, tuple) else value
            raise ConfigError(f"data.{key} is {given}, which only applies to data.name = {either(concerned)}. Remove it.")

    @property
    def given(self) -> list[str]:
        """The settings that locate the data."""
        return [f"data.{key}" for key in ("name", "path", "text") if getattr(self, key) is not None]

    @property
    def holds(self) -> Holds:
        """The kind of data behind `name`. `text` is running text, and a file counts as running text until it is read."""
        return "running text" if self.name is None else DATA_SETS[self.name].holds or "running text"

    @classmethod
    def paths(cls) -> tuple[str, ...]:
        """The settings that name files."""
        return tuple(f"{part}{key}" for part in ("", "valid_", "test_") for key in cls._files())

    @classmethod
    def _files(cls) -> tuple[str, ...]:
        return ("path",)


@dataclass(frozen=True)
class RunningTextConfig(DataConfig):
    """Running text."""

    # further training texts: files, folders, glob patterns or named data sets; read before the text above, whose end is held out
    more: tuple[str, ...] | None = None
    # records of a table whose text is blank: leave them out with a warning ("skip"), or raise an error that names them ("refuse")
    empty: Empty = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.more and self.path == "-":
            raise ConfigError(
                "data.more needs a text that can be read again, not standard input. Write data.path to a file first."
            )


@dataclass(frozen=True)
class LabelledConfig(DataConfig):
    """Texts with one label each, in jsonl, csv, tsv or parquet files."""

    label: str = "label"  # key (jsonl) or column (csv, tsv, parquet) that holds the label
    labels: tuple[str, ...] | None = None  # classes, in the order of their numbers; training fills it in
    # further training examples: files with the same columns, labelled data sets, or "negations" (generated opinions)
    more: tuple[str, ...] | None = None
    # records whose text is blank: leave them out with a warning ("skip"), or raise an error that names them ("refuse")
    empty: Empty = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_name("label", self.label)
        _expect_labels(self.labels)


@dataclass(frozen=True)
class TaggedConfig(DataConfig):
    """Sentences with a tag for each word, in CoNLL or CoNLL-U format."""

    # column of the words, by number from 1 or by CoNLL-U name; if not set, the first (CoNLL) or "form" (CoNLL-U)
    word_column: int | str | None = renamed("word", default=None)
    # column of the tags, by number from 1 or by CoNLL-U name; if not set, the last (CoNLL) or "upos" (CoNLL-U)
    tag_column: int | str | None = renamed("column", default=None)
    # convert tags that mark spans: IOB1, IOB2, BIOES and BILOU are read; if not set, tags are as the files have them
    tag_scheme: TagScheme | None = None
    labels: tuple[str, ...] | None = None  # tags, in the order of their numbers; training fills it in

    has_tags: ClassVar[bool] = True
    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_labels(self.labels)
        _refuse_columns(self, "tagging")
        for key in ("word_column", "tag_column"):
            place = getattr(self, key)
            if place is not None and (place == "" or (isinstance(place, int) and place < 1)):
                raise ConfigError(f"data.{key} is {place!r}; expected a column number from 1 on, or a column name of CoNLL-U")
        if self.word_column is not None and self.word_column == self.tag_column:
            raise ConfigError(f"data.word_column and data.tag_column are both {self.word_column!r}; expected two columns")


@dataclass(frozen=True)
class QuestionsConfig(DataConfig):
    """Questions whose answers are spans of a passage, as in SQuAD, in .json or .jsonl files."""

    # records whose question, context or answer is blank: leave them out with a warning ("skip"), or raise an error that
    # names them ("refuse")
    empty: Empty = "skip"

    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_columns(self, "answer")


@dataclass(frozen=True)
class PairsConfig(DataConfig):
    """Sentence pairs, in two files that correspond line by line, or in one file with both sides."""

    target_path: str | None = None  # file with the translations of the lines of `path`; if not set, `path` holds both sides
    # file with the translations of the lines of `valid_path`; if not set, `valid_path` holds both sides
    valid_target_path: str | None = None
    # file with the translations of the lines of `test_path`; if not set, `test_path` holds both sides
    test_target_path: str | None = None
    # source side: a key or column of a file (if not set, "source"), or a side of a named data set (if not set, its first)
    source: str | None = None
    # target side: a key or column of a file (if not set, "target"), or a side of a named data set (if not set, its second)
    target: str | None = None
    # split of a named data set that has several, such as "simple" and "length" of scan; if not set, the first
    split: str | None = None
    lower: bool = False  # lower-case both sides
    # pairs with a blank side: leave them out with a warning ("skip"), or raise an error that names them ("refuse")
    empty: Empty = "skip"
    locales: tuple[str, ...] | None = None  # locales of the generated dates, such as `["fr", "en_GB"]`; if not set, 34 of them
    # what the generated chats are about; if not set, all of opinions, reviews, dutch, dates and tags
    skills: tuple[ChatSkill, ...] | None = None
    # number of training pairs to generate for dates, or of training examples of each skill of chats; a tenth as many are
    # generated for validation and for testing
    count: int = 20_000

    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_several("skills", self.skills, CHAT_SKILLS)
        for part in ("", "valid_", "test_"):
            path, target = f"{part}path", f"{part}target_path"
            if getattr(self, target) is not None and getattr(self, path) is None:
                raise ConfigError(f"data.{target} is set, but data.{path} is not. Set both, or neither.")
        for key in ("source", "target"):
            if getattr(self, key) is not None:
                _expect_name(key, getattr(self, key))
        if self.source is not None and self.source == self.target:
            raise ConfigError(f'data.source and data.target are both "{self.source}"; expected two different sides')
        if self.locales is not None and not self.locales:
            raise ConfigError('data.locales is empty. List some, such as ["fr", "en_GB"], or remove it.')
        _expect_between("count", self.count, 10)

    @classmethod
    def _files(cls) -> tuple[str, ...]:
        return ("path", "target_path")


@dataclass(frozen=True)
class ConversationsConfig(DataConfig):
    """Conversations in .jsonl files, a line each: {"messages": [{"role": "user", "content": "…"}, …]}."""

    # what the generated chats are about; if not set, all of opinions, reviews, dutch, dates and tags
    skills: tuple[ChatSkill, ...] | None = None
    # number of training examples of each skill of chats; a tenth as many are used for validation and for testing
    count: int = 20_000
    # conversations without messages, or with an empty one: leave them out with a warning ("skip"), or raise an error that names
    # them ("refuse")
    empty: Empty = "skip"

    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_columns(self, "conversation")
        _check_several("skills", self.skills, CHAT_SKILLS)
        _expect_between("count", self.count, 10)


@dataclass(frozen=True)
class CaptionsConfig(DataConfig):
    """Images with captions, in tables (csv, tsv, jsonl, parquet) that name image files relative to themselves."""

    image: str = "image"  # key or column that holds the path of the image
    caption: str = "caption"  # key or column that holds the caption; an image that is named several times has several captions
    # records without an image or a caption: leave them out with a warning ("skip"), or raise an error that names them ("refuse")
    empty: Empty = "skip"
    # side of the square that every image is scaled and cropped to, in pixels; if not set, 64, or 48 for scenes and 8 for digits
    size: int | None = None
    # number of training scenes to generate; a tenth as many are generated for validation, for testing, and with unseen pairs
    count: int = 20_000
    # kinds of scenes to generate: one shape, a count of the same, or two in a relation; if not set, all
    kinds: tuple[SceneKind, ...] | None = None

    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_name("image", self.image)
        _expect_name("caption", self.caption)
        if self.image == self.caption:
            raise ConfigError(f'data.image and data.caption are both "{self.image}"; expected two different columns')
        if self.path == "-":
            raise ConfigError(
                "data.path is standard input, but captions name images relative to their file. Write them to a file."
            )
        if self.size is not None:
            _expect_between("size", self.size, 8, 1024)
        _expect_between("count", self.count, 10)
        _check_several("kinds", self.kinds, SCENE_KINDS)
        if self.name is not None:
            for key, usual in (("valid", 0.1), ("valid_path", None), ("test_path", None)):
                if getattr(self, key) != usual:
                    raise ConfigError(f"data.{key} is {getattr(self, key)!r}, but {self.name} has its own splits. Remove it.")

    @property
    def scene_kinds(self) -> tuple[SceneKind, ...]:
        return self.kinds or SCENE_KINDS

    @property
    def side(self) -> int:
        """The side of an image in pixels."""
        return self.size or (DataSet.side if self.name is None else DATA_SETS[self.name].side)


@dataclass(frozen=True)
class PromptsConfig(DataConfig):
    """Generated prompts, each of which defines a new task by examples."""

    examples: int = 16  # number of worked examples in a prompt, before the last question
    # size of the validation and test sets: each has `count` / 10 prompts; training prompts are generated without limit
    count: int = 20_000

    has_field: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_between("examples", self.examples, 1)
        _expect_between("count", self.count, 10)
        for key, usual in (("valid", 0.1), ("valid_path", None), ("test_path", None)):
            if getattr(self, key) != usual:
                raise ConfigError(f"data.{key} is {getattr(self, key)!r}, but held-out prompts are generated, too. Remove it.")


@dataclass(frozen=True)
class SwapsConfig(PromptsConfig):
    """Words whose letters are exchanged by a rule that is new in each prompt."""

    letters: int = 8  # number of letters in the alphabet, 3 to 8
    word_length: int = 4  # letters per word

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_between("letters", self.letters, 3, 8)
        _expect_between("word_length", self.word_length, 1)


@dataclass(frozen=True)
class LinearConfig(PromptsConfig):
    """Points of a linear function y = w·x, with a new w in each prompt."""

    dimensions: int = 5  # dimension of x
    noise: float = 0.0  # standard deviation of the Gaussian noise that is added to y

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect_between("dimensions", self.dimensions, 1)
        if not 0 <= self.noise < math.inf:
            raise ConfigError(f"data.noise is {self.noise}; expected 0 or more")


def _check_several(key: str, chosen: tuple[str, ...] | None, known: tuple[str, ...]) -> None:
    """Check a setting that selects parts of a generated data set."""
    if chosen is not None and (not chosen or len(set(chosen)) < len(chosen)):
        raise ConfigError(f"data.{key} is {list(chosen)}; expected one or more of {', '.join(known)}, each once")


def _expect_name(key: str, value: str) -> None:
    if not value:
        raise ConfigError(f'data.{key} is ""; expected the name of a key or column')


def _expect_labels(labels: tuple[str, ...] | None) -> None:
    if labels is not None and len(set(labels)) < max(2, len(labels)):
        raise ConfigError(f"data.labels is {list(labels)}; expected two or more different labels")


def _refuse_columns(data: DataConfig, kind: str) -> None:
    if data.columns is not None:
        raise ConfigError(f'data.columns only applies to csv and tsv; objective.kind is "{kind}". Remove it.')


def _expect_between(key: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        raise ConfigError(f"data.{key} is {value}; expected {least} {'or more' if most is None else f'to {most}'}")


@dataclass(frozen=True)
class TokenizerConfig:
    # kind of token: characters, words, or subwords learned by BPE, WordPiece or a unigram model; "imported": that of a public
    # model, as `firth import` found it
    kind: Kind = "char"
    # maximum vocabulary size, with <eos> and <unk>; if not set, every character or word, or 4096 subwords; of an imported model,
    # the rows of its embedding, some of which may have no token
    vocab: int | None = None
    lower: bool = False  # lower-case the text; only for `kind = "word"`
    # minimum count for a character or word to enter the vocabulary, or for a pair to be merged (bpe, wordpiece); not for unigram
    min_count: int = 1
    joint: bool = False  # learn one vocabulary from both sides of the sentence pairs, instead of one per side
    vectors: bool = False  # add the words of the file `model.embedding.vectors` to the vocabulary; only for `kind = "word"`
    # a token <start> before every text, so that p(x) counts its first character, too; only for language models with
    # `kind = "char"`. If not set, such a model has one unless its text has several documents, and thus <eos> between them
    start: bool | None = None

    def __post_init__(self) -> None:
        least, why = _smallest(self.kind)
        if self.start and self.kind != "char":
            raise ConfigError(f'tokenizer.start is true, but tokenizer.kind is "{self.kind}"; only char tokenizers have <start>')
        if self.vocab is not None and self.vocab < least:
            raise ConfigError(f"tokenizer.vocab is {self.vocab}; expected at least {least} for {self.kind} ({why})")
        if self.min_count < 1:
            raise ConfigError(f"tokenizer.min_count is {self.min_count}; expected at least 1")
        if self.lower and self.kind != "word":
            raise ConfigError(f'tokenizer.lower is true, but tokenizer.kind is "{self.kind}"; only word tokenizers lower-case')
        if self.vectors and self.kind != "word":
            raise ConfigError(f'tokenizer.vectors is true, but tokenizer.kind is "{self.kind}"; only words have vectors')
        if self.kind == "unigram" and self.min_count > 1:
            raise ConfigError(
                f"tokenizer.min_count is {self.min_count}, but unigram keeps pieces by likelihood, not by count. Remove it."
            )

    def learns_from(self, train: Sequence[T], valid: Sequence[T] | None) -> list[T]:
        """The examples that the vocabulary is learned from: characters also come from those of the validation."""
        return [*train, *((valid or ()) if self.kind == "char" else ())]


def _smallest(kind: Kind) -> tuple[int, str]:
    match kind:
        case "bpe" | "unigram":
            return BYTES + 1, "256 bytes and <eos>"
        case "wordpiece":
            return 5, "<eos>, <unk>, newline, and one character as the beginning and the rest of a word"
        case "char" | "word":
            return 3, "<eos>, <unk> and something to tell apart from them"
        case "imported":
            return 1, "one row of the embedding"
