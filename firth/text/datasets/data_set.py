"""What the catalog knows about a named data set and its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Packing = Literal["plain", "gz", "zip"]


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
    summary: str
    home: str  # a page or a paper about it
    licence: str
    files: tuple[File, ...]
    # The file of each part, for sets that a recipe can use as `data.name`: running text, and text with labels or tags.
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    columns: tuple[str, ...] | None = None  # names of the columns of files without a header line
    labels: tuple[tuple[str, str], ...] = ()  # a label in the files, and its meaning
    tagged: Literal["conll", "conllu"] | None = None  # the format of a set of tagged words
    pairs: PairFiles | None = None  # the files of a set of sentence pairs

    @property
    def size(self) -> int | None:
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def verified(self) -> bool:
        return all(file.sha256 for file in self.files)

    @property
    def mirror_only(self) -> bool:
        return any(file.url is None for file in self.files)
