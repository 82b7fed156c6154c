"""Data sets by name: those with files, and those that are made when they are needed. `DATA_SETS` collects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Protocol

from firth.errors import either
from firth.ideas import Ideas
from firth.progress import Progress

if TYPE_CHECKING:
    from numpy import uint8
    from numpy.typing import NDArray

Packing = Literal["plain", "gz", "zip"]
Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")
Holds = Literal[
    "running text",
    "labelled texts",
    "tagged words",
    "questions",
    "sentence pairs",
    "conversations",
    "prompts of swaps",
    "points of linear functions",
    "captioned images",
]


READABLE: tuple[Holds, ...] = ("running text", "labelled texts", "tagged words")  # have texts that can be read one after another
_ALSO: dict[Holds, tuple[Holds, ...]] = {
    "running text": ("labelled texts",),  # without the labels
    "sentence pairs": ("conversations",),  # an answer and everything before it are a pair
}


class MadeImages(Protocol):
    """Captioned images that are made in memory; the pixels may be drawn on first use."""

    @property
    def captions(self) -> tuple[str, ...]: ...

    @property
    def kinds(self) -> Sequence[str] | None:
        """What each image shows, where a set has several kinds of images."""

    @property
    def image_NHWC(self) -> NDArray[uint8]: ...

    @property
    def sha256(self) -> str:
        """A hash of all that the images are drawn from."""


@dataclass(frozen=True)
class File:
    name: str  # in the cache and in a mirror, where .xz or .gz may follow
    size: int | None  # bytes, decompressed; None: unknown
    sha256: str | None
    url: str | None
    packing: Packing = "plain"  # of the download; from a zip, the member `name` is extracted


@dataclass(frozen=True)
class Split:
    """The file of each part. If each side has its own file: the file name up to the dot before the side."""

    name: str
    train: str
    valid: str | None = None
    test: str | None = None


@dataclass(frozen=True)
class PairFiles:
    """The layout of a set of sentence pairs: a file for each side, tab-separated columns, or lines "IN: … OUT: …"."""

    sides: tuple[str, str]  # the values of data.source and data.target, in the usual direction
    layout: Literal["file each", "columns", "in out"]
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class DataSet:
    name: str
    about: str  # one line
    home: str = ""  # a page or a paper about it
    licence: str = ""
    files: tuple[File, ...] = ()
    # The file of each part, for sets that a recipe can use as `data.name`: running text, and text with labels or tags.
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    columns: tuple[str, ...] | None = None  # names of the columns of files without a header line
    labels: tuple[tuple[str, str], ...] = ()  # a label in the files, and its meaning
    tagged: Literal["conll", "conllu"] | None = None  # the format of a set of tagged words
    pairs: PairFiles | None = None  # the files of a set of sentence pairs
    made: Holds | None = None  # for sets without files: what they hold
    parts: Callable[[Progress], Mapping[str, Path]] | None = None  # writes the files of such a set on first use
    # Or: the examples of a part in memory, from the `[data]` table: places and both sides of sentence pairs, conversations, or
    # the MadeImages of a set of images
    generate: Callable[[Any, Any, Progress], Any] | None = None
    generated_parts: tuple[str, ...] = PARTS  # those that `generate` knows
    uses: tuple[str, ...] = ()  # settings of `[data]` that only concern sets such as this one
    side: int = 64  # of its images, in pixels
    known_characters: bool = False  # those of held-out examples are known in advance, and belong to the vocabulary
    # Or: one random example, a text or a record with the columns that a jsonl file of this kind has; tagged words are
    # {"words": [...], "tags": [...]}. No example of validation and test occurs in training.
    example: Callable[[Random], str | Mapping[str, Any]] | None = None
    sizes: tuple[int, int, int] = (10_000, 1_000, 1_000)  # how many examples training, validation and test have

    @property
    def kind(self) -> str:
        """The value of data.name, as every idea calls it."""
        return self.name

    @property
    def holds(self) -> Holds | None:
        """The kind of data that a task can learn from; None if a recipe cannot name this set."""
        if self.made is not None or (self.train is None and self.pairs is None):
            return self.made
        if self.tagged is not None:
            return "tagged words"
        return "sentence pairs" if self.pairs else "labelled texts" if self.columns else "running text"

    @property
    def size(self) -> int | None:
        sizes = [file.size for file in self.files]
        return None if None in sizes or not sizes else sum(size for size in sizes if size is not None)

    @property
    def verified(self) -> bool:
        return all(file.sha256 for file in self.files)

    @property
    def mirror_only(self) -> bool:
        return any(file.url is None for file in self.files)


def fitting(reads: Holds) -> tuple[Holds, ...]:
    """All that a task which reads such data can learn from."""
    return reads, *_ALSO.get(reads, ())


def named(reads: Holds) -> str:
    """The data sets for such a task, for messages: "scenes" or "digits"."""
    return either(one.name for one in DATA_SETS if one.holds in fitting(reads))


DATA_SETS: Ideas[DataSet] = Ideas("data set", DataSet, listed_in="firth.text.datasets.catalog")
